"""The configuration files of agents' hosts in which `fusion connect` names the MCP server, and how each names it."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fusion.errors import BadInput, SettingsError
from fusion.home import plugin_root
from fusion.lib import jsonc, toml_table
from fusion.store.private_files import read_regular

NAME = "memory-fusion"
"""the server's name in every file"""
MAX_BYTES = 8 << 20

Words = Sequence[str]
"""a command with its arguments"""


def _plain(words: Words) -> dict[str, Any]:
    return {"command": words[0], "args": [*words[1:]]}


def _typed(words: Words) -> dict[str, Any]:
    return {"type": "stdio", **_plain(words)}


def _local(words: Words) -> dict[str, Any]:
    return {"type": "local", "command": [*words], "enabled": True}


@dataclass(frozen=True, slots=True)
class Host:
    """A host: its file below the user's folder, the object with its servers, and what an entry looks like."""

    title: str
    file: Callable[[Path], Path]
    servers: str
    entry: Callable[[Words], dict[str, Any]] = _plain
    format: Literal["json", "toml"] = "json"
    adds: str = "the server"
    """what a connection adds to the file"""

    def changed(self, text: str, words: Words | None) -> str:
        """The file's text with the server, or for None without it.

        Raises BadInput for a damaged text, and for one in which anything else would change.
        """
        entry = None if words is None else self.entry(words)
        try:
            before = self.parsed(text)
            after = self._edited(text, entry)
            found = self.parsed(after)
        except (ValueError, RecursionError) as error:
            raise BadInput(f"the file of {self.title} is damaged: {error}. Correct it first{self._or()}") from None
        if self._others(before) != self._others(found) or self.entry_in(after) != entry:
            raise BadInput(f"the file of {self.title} cannot be changed safely; add {self.adds} by hand")
        return after

    def entry_in(self, text: str) -> dict[str, Any] | None:
        """The entry of our server in a text. Raises ValueError for a damaged one."""
        found = jsonc.members_of(self.parsed(text), [self.servers, NAME])
        return found if isinstance(found, dict) else None

    def names_servers(self, text: str) -> bool:
        """Whether a text has the object of servers, if only an empty one."""
        return self.servers in self.parsed(text)

    def without_empty_servers(self, text: str) -> str:
        """A text without the object of servers, if that is empty. A table in TOML is gone with its last server."""
        if self.format == "toml" or self.parsed(text).get(self.servers) != {}:
            return text
        return jsonc.without_member(text, [self.servers])

    def is_off(self, text: str) -> bool:
        """Whether the host is set not to start our server, though its file names it. Raises ValueError."""
        entry, lists = self.entry_in(text) or {}, self.parsed(text).get("mcp")
        excluded, allowed = (lists.get("excluded"), lists.get("allowed")) if isinstance(lists, dict) else (None, None)
        return (
            entry.get("enabled") is False
            or entry.get("disabled") is True
            or (isinstance(excluded, list) and NAME in excluded)  # Gemini CLI's lists of names
            or (isinstance(allowed, list) and NAME not in allowed)
        )

    def words_in(self, text: str) -> list[str]:
        """The command of our server in a text; [] if there is none."""
        entry = self.entry_in(text) or {}
        command, arguments = entry.get("command", []), entry.get("args", [])
        words = [command] if isinstance(command, str) else command
        return [str(word) for word in (*words, *arguments)]

    def parsed(self, text: str) -> dict[str, Any]:
        """The settings in a text. Raises ValueError."""
        return tomllib.loads(text) if self.format == "toml" else jsonc.parse(text)

    def _or(self) -> str:
        """What else may help with a text that cannot be read."""
        return ""

    def _edited(self, text: str, entry: Mapping[str, Any] | None) -> str:
        if self.format == "toml":
            return toml_table.with_table(text, self.servers, NAME, entry)
        path = [self.servers, NAME]
        return jsonc.without_member(text, path) if entry is None else jsonc.with_member(text, path, entry)

    def _others(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """All settings but our server; an object of servers without another one counts as none."""
        servers = settings.get(self.servers)
        kept = {name: one for name, one in servers.items() if name != NAME} if isinstance(servers, dict) else servers
        rest = {name: value for name, value in settings.items() if name != self.servers}
        return {**rest, self.servers: kept} if kept else rest


LINKED = ("plugins", "load", "paths")
SLOT = ("plugins", "slots", "memory")
"""where OpenClaw's settings have the folders of plugins, and the plugin that is its memory"""


@dataclass(frozen=True, slots=True)
class OpenClaw(Host):
    """OpenClaw, whose settings link the folder of a plugin of ours and let it see conversations.

    Its settings are edited, not its command called: that takes half a minute, and could not be taken back exactly.
    """

    plugin: str = NAME
    """its id; that of the plugin for the memory slot ends with -slot"""

    @property
    def folder(self) -> Path:
        root = plugin_root() / "openclaw"
        return root / "slot" if self.takes_slot else root

    @property
    def takes_slot(self) -> bool:
        return self.plugin.endswith("-slot")

    def entry_in(self, text: str) -> dict[str, Any] | None:
        found = jsonc.members_of(self.parsed(text), ["plugins", "entries", self.plugin])
        return found if isinstance(found, dict) else None

    def is_off(self, text: str) -> bool:
        """False: `fusion doctor` asks more of a plugin than whether it is on."""
        return False

    def words_in(self, text: str) -> list[str]:
        """The command and the home of the plugin; [] if it is not there."""
        config = (self.entry_in(text) or {}).get("config")
        if not isinstance(config, dict) or not isinstance(config.get("command"), str):
            return []
        home = config.get("home")
        return [config["command"], *(["--home", home] if isinstance(home, str) else [])]

    def linked_in(self, settings: Mapping[str, Any]) -> list[str]:
        """The folders that a file links."""
        found = jsonc.members_of(settings, LINKED)
        return [str(one) for one in found] if isinstance(found, list) else []

    def has_slot_in(self, settings: Mapping[str, Any]) -> bool:
        return bool(jsonc.members_of(settings, SLOT) == self.plugin)

    def _edited(self, text: str, entry: Mapping[str, Any] | None) -> str:
        entries = ["plugins", "entries", self.plugin]
        before = self.linked_in(self.parsed(text))
        linked = [one for one in before if not self._is_ours(one)]
        if entry is None:
            text = jsonc.without_member(text, entries)
            text = jsonc.with_member(text, LINKED, linked) if linked else jsonc.without_member(text, LINKED)
            text = jsonc.without_member(text, SLOT) if self.has_slot_in(self.parsed(text)) else text
            for name in ("entries", "load", "slots"):
                if jsonc.members_of(self.parsed(text), ["plugins", name]) == {}:
                    text = jsonc.without_member(text, ["plugins", name])
            return text
        if before != [*linked, str(self.folder)]:
            text = jsonc.with_member(text, LINKED, [*linked, str(self.folder)])
        text = jsonc.with_member(text, entries, entry)
        return jsonc.with_member(text, SLOT, self.plugin) if self.takes_slot else text

    def _is_ours(self, linked: str) -> bool:
        """Whether a linked folder is this plugin's, also that of another installation."""
        return Path(linked) == self.folder or plugin_in(Path(linked)) == self.plugin

    def _others(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        plugins = settings.get("plugins")
        if not isinstance(plugins, dict):
            return dict(settings)
        entries, load, slots = (plugins.get(name) for name in ("entries", "load", "slots"))
        kept = {
            **plugins,
            "entries": _without(entries, self.plugin),
            "load": _without(load, "paths"),
            "slots": _without(slots, "memory") if self.takes_slot else slots,
            "paths": [one for one in self.linked_in(settings) if not self._is_ours(one)],
        }
        rest = {name: value for name, value in settings.items() if name != "plugins"}
        found = {name: value for name, value in kept.items() if value not in ({}, [], None)}
        return {**rest, "plugins": found} if found else rest

    def _or(self) -> str:
        return "; if it is JSON5 beyond comments and trailing commas, add the plugin by hand"


def plugin_in(folder: Path) -> str | None:
    """The id of the plugin of OpenClaw in a folder; None if there is none."""
    try:
        found = jsonc.parse(read_regular(folder / "openclaw.plugin.json", MAX_BYTES).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return str(found.get("id"))


def _without(members: Any, name: str) -> Any:
    return {one: value for one, value in members.items() if one != name} if isinstance(members, dict) else members


def _plugin(words: Words) -> dict[str, Any]:
    """The entry of the plugin for the server's words: the command is the plugin's, too. Raises BadInput."""
    if words[1] != "mcp":
        raise BadInput("the command fusion is not installed, and OpenClaw's plugin calls it: pip install memory-fusion")
    options = dict(zip(words[2::2], words[3::2], strict=True))
    user = {"userId": options["--user"]} if "--user" in options else {}
    config = {"command": words[0], "home": options["--home"], **user}
    return {"enabled": True, "hooks": {"allowConversationAccess": True}, "config": config}


def _openclaw(user: Path) -> Path:
    named = os.environ.get("OPENCLAW_CONFIG_PATH")
    return Path(named) if named else Path(os.environ.get("OPENCLAW_STATE_DIR") or user / ".openclaw") / "openclaw.json"


def _config(user: Path) -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or user / ".config")


def _claude_code(user: Path) -> Path:
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or user) / ".claude.json"


def _code(user: Path) -> Path:
    support = user / "Library" / "Application Support" if sys.platform == "darwin" else _config(user)
    return support / "Code" / "User" / "mcp.json"


def _opencode(user: Path) -> Path:
    folder = _config(user) / "opencode"
    with_comments = folder / "opencode.jsonc"
    return with_comments if with_comments.exists() else folder / "opencode.json"


HOSTS: Mapping[str, Host] = {
    "claude-code": Host(
        "Claude Code",
        _claude_code,
        "mcpServers",
        _typed,
    ),
    "cursor": Host("Cursor", lambda user: user / ".cursor" / "mcp.json", "mcpServers"),
    "windsurf": Host("Windsurf", lambda user: user / ".codeium" / "windsurf" / "mcp_config.json", "mcpServers"),
    "vscode": Host("VS Code", _code, "servers", _typed),
    "codex": Host(
        "Codex",
        lambda user: Path(os.environ.get("CODEX_HOME") or user / ".codex") / "config.toml",
        "mcp_servers",
        format="toml",
    ),
    "gemini": Host("Gemini CLI", lambda user: user / ".gemini" / "settings.json", "mcpServers"),
    "opencode": Host("opencode", _opencode, "mcp", _local),
    "openclaw": OpenClaw("OpenClaw", _openclaw, "plugins", _plugin, adds="the plugin"),
    "openclaw-slot": OpenClaw(
        "OpenClaw's memory slot", _openclaw, "plugins", _plugin, adds="the plugin", plugin=f"{NAME}-slot"
    ),
    "zed": Host("Zed", lambda user: _config(user) / "zed" / "settings.json", "context_servers"),
}


def read_text(file: Path) -> str | None:
    """The text of a host's file; None if there is none. A link is followed within its user's folder.

    Raises SettingsError for a link that leads out of it, and for what is no plain file of this user.
    """
    real = real_file(file)
    try:
        return read_regular(real, MAX_BYTES, ours=True).decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise SettingsError(f"{file} is no text in UTF-8; nothing is written") from None
    except OSError as error:
        raise SettingsError(f"{file} is not changed: {error.strerror or error}") from None


def real_file(file: Path) -> Path:
    """The file behind a path. Raises SettingsError for one that a link puts outside of the user's folder."""
    real, user = Path(os.path.realpath(file)), Path.home()
    below = file.is_relative_to(user)  # a variable of the host may name another folder, in which no link is followed
    if not real.is_relative_to(os.path.realpath(user)) if below else file.is_symlink():
        raise SettingsError(f"{file} is a link to {real}, outside of your folder; nothing is written")
    return real
