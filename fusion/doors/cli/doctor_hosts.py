"""Checks of `fusion doctor` in the files of agents' hosts: servers, hooks and plugins of ours that are dead or off.

A host that is upgraded may call hooks no more, or with another input, and says so to nobody. The hooks record their
calls in the home (`fusion.doors.hook_calls`), so a transcript that is newer than the last call shows that.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from fusion.doors.cli.finding import Finding, ok
from fusion.doors.cli.host_files import HOSTS, OpenClaw, plugin_in, read_text
from fusion.doors.hook_calls import UNKNOWN, LastCall, last_calls
from fusion.errors import SettingsError
from fusion.lib import jsonc
from fusion.trust.fingerprint import printable

PLUGIN = "memory-fusion@"
"""the beginning of the plugin's name with that of its marketplace"""
LATE_S = 600.0
"""seconds by which a transcript may be newer than a prompt's hook: the model may work that long on one prompt"""
MAX_PROJECTS = 2000
"""folders of transcripts that are looked at"""
RULES = ("mcp__memory-fusion", "mcp__plugin_memory-fusion")
"""the beginning of a rule of Claude Code that is about our tools"""
_OURS = re.compile(r"\bfusion[\"']?\s+hook\s+[a-z-]+")


def hosts(home: Path, user: Path | None = None) -> Iterator[Finding]:
    """What is wrong with our server in each host that names it, and with Claude Code's hooks."""
    user = user or Path.home()
    for name, host in HOSTS.items():
        check = f"host {name}"
        try:
            text = read_text(host.file(user)) or ""
            words = host.words_in(text)
        except (ValueError, SettingsError, RecursionError) as error:
            yield Finding(check, "warn", f"{host.file(user)} cannot be read: {error}", "correct the file")
            continue
        if not words:
            continue
        named = words[words.index("--home") + 1] if "--home" in words[:-1] else None
        if not _runs(words[0]):
            yield Finding(check, "fail", f"its command {words[0]} is not there any more", f"fusion connect {name}")
        elif named is not None and not Path(named).is_dir():
            yield Finding(check, "fail", f"its home {named} is not there any more", f"fusion connect {name}")
        elif host.is_off(text):
            yield Finding(check, "warn", f"{host.file(user)} switches the server off", "switch it on in the host")
        elif not isinstance(host, OpenClaw):
            yield ok(check, f"{host.title} starts {' '.join(words)}")
    yield from _openclaw(user)
    yield from _claude_code(home, user)
    yield from _complaints(home)


def _complaints(home: Path) -> Iterator[Finding]:
    """What the last call of each hook of the home complained of, whichever host called it."""
    for call in last_calls(home):
        if call.notice:
            detail = f"its last call, {_time(call.at)}: {printable(call.notice.removeprefix('fusion hook: '))}"
            yield Finding(f"hook {printable(call.hook)}", "warn", detail, _fix(call))


def _fix(call: LastCall) -> str:
    if call.hook == UNKNOWN:
        return "update memory-fusion, or take that hook out of the host's settings"
    if "has the host changed" in call.notice:
        return "update memory-fusion: pipx upgrade memory-fusion"
    return "the next call that succeeds ends this"


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"


def _openclaw(user: Path) -> Iterator[Finding]:
    """The plugins in OpenClaw's settings, also those that were linked by hand."""
    there = [
        (name, host, entry, settings)
        for name, host in HOSTS.items()
        if isinstance(host, OpenClaw)
        and (entry := jsonc.members_of(settings := _read(host.file(user)), ["plugins", "entries", host.plugin]))
    ]
    for name, host, entry, settings in there:
        found = [*_plugin_faults(name, host, entry, settings)]
        yield from found or [ok(f"host {name}", f"{host.title} has the plugin {host.plugin}, which sees conversations")]
    if len(there) > 1:
        why = "both plugins are in OpenClaw's settings, and the companion does nothing while the other has the slot"
        yield Finding("host openclaw", "warn", why, "fusion connect openclaw --undo")


def _plugin_faults(name: str, host: OpenClaw, entry: object, settings: Mapping[str, Any]) -> Iterator[Finding]:
    """What keeps a plugin of OpenClaw from its work."""
    check, again = f"host {name}", f"fusion connect {name}"
    if jsonc.members_of(settings, ["plugins", "enabled"]) is False:
        yield Finding(check, "fail", "OpenClaw's settings switch all plugins off", 'remove "enabled" from "plugins"')
    if not isinstance(entry, dict) or entry.get("enabled") is False:
        yield Finding(check, "warn", f"OpenClaw's settings switch the plugin {host.plugin} off", again)
        return
    if jsonc.members_of(entry, ["hooks", "allowConversationAccess"]) is not True:
        why = f"OpenClaw calls no hook of {host.plugin}: it needs hooks.allowConversationAccess = true"
        yield Finding(check, "fail", why, again)
    if not any(plugin_in(Path(linked).expanduser()) == host.plugin for linked in host.linked_in(settings)):
        yield Finding(check, "fail", f"no folder in plugins.load.paths has the plugin {host.plugin}", again)
    if host.takes_slot and not host.has_slot_in(settings):
        yield Finding(check, "fail", f"another plugin has the memory slot, not {host.plugin}", again)


def _claude_code(home: Path, user: Path) -> Iterator[Finding]:
    """The plugin and the hooks in Claude Code's settings."""
    folder = Path(os.environ.get("CLAUDE_CONFIG_DIR") or user / ".claude")
    file = folder / "settings.json"
    settings = _read(file)
    plugins = settings.get("enabledPlugins")
    named = {name: on for name, on in plugins.items() if name.startswith(PLUGIN)} if isinstance(plugins, dict) else {}
    commands = [one for one in _hook_commands(settings) if _OURS.search(one)]
    if not named and not commands:
        return
    check = "hooks of Claude Code"
    if settings.get("disableAllHooks") is True:
        yield Finding(check, "fail", f"{file} switches all hooks off", 'remove "disableAllHooks" there')
    if settings.get("allowManagedHooksOnly") is True:
        yield Finding(check, "fail", f"{file} allows managed hooks only", 'remove "allowManagedHooksOnly" there')
    if denied := _denied(settings):
        yield Finding(check, "warn", f"{file} denies the tools {', '.join(denied)}", "take that out of its permissions")
    yield from _silent(home, folder)
    for name, on in named.items():
        if on is not True:
            yield Finding(check, "warn", f"{file} switches the plugin {name} off", f"/plugin enable {name}")
        elif (place := _installed(folder, name)) is not None and not place.is_dir():
            yield Finding(check, "fail", f"the plugin {name} is gone from {place}", f"/plugin install {name}")
        else:
            yield ok(check, f"the plugin {name} is on")
    for one in commands:
        program = _program(one)
        if not _runs(program):
            yield Finding(check, "fail", f"a hook in {file} runs {program}, which is not there", "correct its command")
        else:
            yield ok(check, f"{one} is registered")


def _denied(settings: Mapping[str, Any]) -> list[str]:
    """The rules by which Claude Code refuses our tools."""
    permissions = settings.get("permissions")
    rules = permissions.get("deny") if isinstance(permissions, dict) else None
    return [printable(one) for one in rules or () if isinstance(one, str) and one.startswith(RULES)]


def _silent(home: Path, folder: Path) -> Iterator[Finding]:
    """Whether Claude Code has held a conversation since it last called the prompt hook. The cause does not matter."""
    talked, called = _newest_transcript(folder / "projects"), {one.hook: one.at for one in last_calls(home)}
    last = called.get("user-prompt-submit", _changed(folder / "plugins" / "installed_plugins.json"))
    if talked is None or last is None or talked <= last + LATE_S:
        return
    when = f"was last called {_time(last)}" if "user-prompt-submit" in called else "was never called"
    detail = f"Claude Code last wrote a transcript {_time(talked)}, and its hook {when}, for the home {home}"
    fix = "claude --debug shows why; update Claude Code and the plugin, or name the home that is used: --home"
    yield Finding("hooks of Claude Code", "warn", detail, fix)


def _newest_transcript(folder: Path) -> float | None:
    """The time of the newest transcript; a session changes its own file, so each folder is looked into."""
    with suppress(OSError):
        folders = [one for one in islice(folder.iterdir(), MAX_PROJECTS) if one.is_dir()]
        times = (_changed(file) for one in folders for file in one.glob("*.jsonl"))
        return max((time for time in times if time is not None), default=None)
    return None


def _changed(file: Path) -> float | None:
    try:
        return file.stat().st_mtime
    except OSError:
        return None


def _read(file: Path) -> Mapping[str, Any]:
    try:
        return jsonc.parse(read_text(file) or "")
    except (ValueError, SettingsError, RecursionError):
        return {}


def _hook_commands(settings: Mapping[str, Any]) -> Iterator[str]:
    """The commands of all hooks in Claude Code's settings, whatever shape they have."""
    events = settings.get("hooks")
    for groups in events.values() if isinstance(events, dict) else ():
        for group in groups if isinstance(groups, list) else ():
            handlers = group.get("hooks") if isinstance(group, dict) else None
            for handler in handlers if isinstance(handlers, list) else ():
                if isinstance(handler, dict) and isinstance(handler.get("command"), str):
                    yield handler["command"]


def _installed(folder: Path, name: str) -> Path | None:
    """Where Claude Code has installed a plugin, if it says so."""
    try:
        found = json.loads((folder / "plugins" / "installed_plugins.json").read_text(encoding="utf-8"))
        entry = found["plugins"][name]
        place = (entry[0] if isinstance(entry, list) else entry)["installPath"]
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None
    return Path(place) if isinstance(place, str) else None


def _program(words: str) -> str:
    try:
        return shlex.split(words)[0]
    except (ValueError, IndexError):
        return words


def _runs(program: str) -> bool:
    return shutil.which(program) is not None
