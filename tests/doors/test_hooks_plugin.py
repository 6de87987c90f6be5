"""The plugin for Claude Code: its hooks, its MCP server and its command."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from fusion.doors.hooks import HOOKS
from fusion.doors.mcp_stdio.listing import listing_of
from tests.doors.claude_hooks import (
    EVENTS,
    PLUGIN,
    plugin_hooks,
    read_json,
)


class TestPlugin:
    @pytest.mark.row("A051", "an installable plugin for Claude Code: five hooks and the MCP server")
    def test_plugin_maps_every_hook_to_its_event(self) -> None:
        """The five events, each with a command that exists; only Stop, which says nothing, runs in the background.

        ``pre-tool-use`` and ``post-tool-use`` would cost a process for each tool, so who wants them registers them.
        """
        hooks = plugin_hooks()
        assert {name: HOOKS[name].event for name in hooks} == EVENTS
        assert set(HOOKS) == {*EVENTS, "pre-tool-use", "post-tool-use"}
        assert [name for name, handler in hooks.items() if handler.get("async")] == ["stop"]
        matchers = read_json("hooks", "hooks.json")["hooks"]
        assert matchers["SessionStart"][0]["matcher"] == "startup|resume|compact"
        assert matchers["PreCompact"][0]["matcher"] == "manual|auto"

    def test_plugin_commands_name_what_they_call(self) -> None:
        """Each is described; what it runs and calls exists, and no words of the user get into a shell command."""
        from fusion.doors.cli import app

        names = {command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands}
        found = {path.stem: path.read_text(encoding="utf-8") for path in (PLUGIN / "commands").glob("*.md")}
        assert set(found) == {"recall", "remember", "forget", "why", "pause", "resume"}
        for text in found.values():
            assert re.match(r"---\ndescription: \S", text)
            ran = re.findall(r"scripts/fusion ([a-z]+)", text)
            assert {*ran} <= names
            assert not any("$ARGUMENTS" in shell for shell in re.findall(r"!`([^`]*)`", text))
            assert {*re.findall(r"\b(memory_[a-z]+)", text)} <= {tool["name"] for tool in listing_of("fusion").tools}

    def test_plugin_manifest_and_marketplace_agree(self) -> None:
        """`/plugin marketplace add` of this folder offers this plugin, in the version of the package."""
        from fusion import __version__

        plugin, market = read_json(".claude-plugin", "plugin.json"), read_json(".claude-plugin", "marketplace.json")
        assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", plugin["name"])
        assert plugin["version"] == __version__
        assert market["owner"]["name"]
        [offered] = market["plugins"]
        assert (offered["name"], offered["source"]) == (plugin["name"], "./")

    def test_plugin_mcp_server_runs_fusion_mcp(self) -> None:
        """`.mcp.json` runs `fusion mcp`; that and `fusion hook` exist."""
        from fusion.doors.cli import app

        names = {command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands}
        assert {"mcp", "hook"} <= names
        assert read_json(".mcp.json") == {
            "mcpServers": {"memory": {"command": "${CLAUDE_PLUGIN_ROOT}/scripts/fusion", "args": ["mcp"]}}
        }

    def run(self, tmp_path: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        script = PLUGIN / "scripts" / "fusion"
        return subprocess.run(
            ["/bin/sh", str(script), *arguments],
            input="{}",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **environment},
        )

    def test_plugin_script_runs_the_named_command(self, tmp_path: Path) -> None:
        """With the arguments as they are."""
        fake = tmp_path / "other fusion"
        fake.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
        fake.chmod(0o755)
        assert self.run(tmp_path, "hook", "stop", "a b", FUSION_COMMAND=str(fake)).stdout == "hook|stop|a b|"
        assert os.access(PLUGIN / "scripts" / "fusion", os.X_OK)

    @pytest.mark.feature("the plugin without the installed command delays nothing and says what to install")
    def test_plugin_script_without_fusion_holds_nothing_up(self, tmp_path: Path) -> None:
        """A copy of the plugin without memory-fusion: hooks exit 0; a session's first one says what is missing."""
        copy = tmp_path / "cache" / "a" / "b" / "scripts"
        copy.mkdir(parents=True)
        (copy / "fusion").write_text((PLUGIN / "scripts" / "fusion").read_text())
        for event in EVENTS:
            done = subprocess.run(
                ["/bin/sh", str(copy / "fusion"), "hook", event],
                input="{}",
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
                env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
            )
            assert done.returncode == 0
            printed = json.loads(done.stdout)
            assert set(printed) == ({"systemMessage"} if event == "session-start" else set())
