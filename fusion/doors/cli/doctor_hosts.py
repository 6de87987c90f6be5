"""Checks of `fusion doctor` in the files of agents' hosts: servers and hooks of ours that are dead or switched off."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fusion.doors.cli.finding import Finding, ok
from fusion.doors.cli.host_files import HOSTS, read_text
from fusion.errors import SettingsError
from fusion.lib import jsonc

PLUGIN = "memory-fusion@"
"""the beginning of the plugin's name with that of its marketplace"""
_OURS = re.compile(r"\bfusion[\"']?\s+hook\s+[a-z-]+")


def hosts(user: Path | None = None) -> Iterator[Finding]:
    """What is wrong with our server in each host that names it, and with Claude Code's hooks."""
    user = user or Path.home()
    for name, host in HOSTS.items():
        check = f"host {name}"
        try:
            words = host.words_in(read_text(host.file(user)) or "")
        except (ValueError, SettingsError, RecursionError) as error:
            yield Finding(check, "warn", f"{host.file(user)} cannot be read: {error}", "correct the file")
            continue
        if not words:
            continue
        home = words[words.index("--home") + 1] if "--home" in words[:-1] else None
        if not _runs(words[0]):
            yield Finding(check, "fail", f"its command {words[0]} is not there any more", f"fusion connect {name}")
        elif home is not None and not Path(home).is_dir():
            yield Finding(check, "fail", f"its home {home} is not there any more", f"fusion connect {name}")
        else:
            yield ok(check, f"{host.title} starts {' '.join(words)}")
    yield from _claude_code(user)


def _claude_code(user: Path) -> Iterator[Finding]:
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
