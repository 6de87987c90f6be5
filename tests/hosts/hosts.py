"""The agents' hosts that `make test-hosts` installs, each run as a user runs it, without a terminal.

Their model is a `ScriptedModel`. Each gets a home folder of its own and a project in it, so nothing of this computer's
user is read or written.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fusion.home import config_root
from fusion.trust import allow
from tests.doors.fakes import SMALL
from tests.hosts.scripted_model import ScriptedModel
from tests.patience import PATIENT_MS

TOOLS = Path(os.environ.get("HOSTS", "")) if os.environ.get("HOSTS") else None
"""the folder of the hosts' commands, which `make test-hosts` names"""
PLUGIN = Path(__file__).parents[2] / "integrations" / "claude-code"
FUSE = "mcp__plugin_memory-fusion_memory__memory_fuse"
"""the tool's name in Claude Code"""
RUN_S = 300.0


@dataclass(frozen=True, slots=True)
class World:
    """Where a host runs: its user's folder, a project in it, and the home with the memories."""

    user: Path
    project: Path
    home: Path
    command: Path
    """the command `fusion`"""

    def environment(self, **more: str) -> dict[str, str]:
        """The variables of a user's shell, without this process's own settings of Claude Code and memory-fusion."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CLAUDE", "FUSION_", "XDG_"))}
        return {**kept, "HOME": str(self.user), "NO_COLOR": "1", **more}


def world_in(folder: Path, settings: str = "") -> World:
    """A user with a project and a home without a model, whose recipes have time; ``settings`` are its further ones."""
    user = folder / "ada"
    home, project = user / "memories", user / "hjul"
    project.mkdir(parents=True)
    home.mkdir(mode=0o700)
    recipes = home / "recipes"
    recipes.mkdir()
    for name in ("hook", "default", "seed002"):
        text = (config_root() / "recipes" / f"{name}.toml").read_text(encoding="utf-8")
        text = re.sub(r"timeout_ms = \d+", "", text) if "[gather]" in text else f"{text}\n[gather]\n"
        text = text.replace("[gather]", f"[gather]\ntimeout_ms = {PATIENT_MS}", 1)
        (recipes / f"{name}.toml").write_text(text, encoding="utf-8")
    (home / "fusion.toml").write_text(f"{SMALL}[hooks]\nrecall_timeout_ms = 15000\n{settings}")
    found = World(user, project, home, fusion_command(folder))
    allow_for(found)
    return found


def allow_for(world: World) -> None:
    """Allow the home, for the host's user and for this process."""
    allow(world.home)
    words = [str(world.command), "allow", "--yes", "--home", str(world.home)]
    subprocess.run(words, env=world.environment(), check=True, capture_output=True)


Runner = Callable[[World, ScriptedModel, str, Sequence[str]], subprocess.CompletedProcess[str]]
"""runs a host with one prompt; the last argument has options of `fusion mcp`"""


def _run(world: World, words: Sequence[str | Path], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    assert TOOLS is not None
    command = [str(TOOLS / words[0]), *map(str, words[1:])]
    return subprocess.run(
        command,
        cwd=world.project,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_S,
    )


def claude_code(
    world: World, model: ScriptedModel, prompt: str, options: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Claude Code with our plugin: its hooks and its MCP server. ``options`` do not apply."""
    return run_claude(world, model, "-p", prompt, "--plugin-dir", str(PLUGIN), "--allowedTools", FUSE)


def run_claude(world: World, model: ScriptedModel, *words: str) -> subprocess.CompletedProcess[str]:
    """Claude Code's command with any words; a plugin of ours finds the home and the command."""
    environment = world.environment(
        ANTHROPIC_BASE_URL=model.url,
        ANTHROPIC_API_KEY="sk-any",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        DISABLE_AUTOUPDATER="1",
        FUSION_HOME=str(world.home),
        FUSION_COMMAND=str(world.command),
    )
    return _run(world, ["claude", *words], environment)


def codex(
    world: World, model: ScriptedModel, prompt: str, options: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Codex after `fusion connect codex`, without `required`."""
    folder = world.user / ".codex"
    folder.mkdir(exist_ok=True)
    settings = f"""
model = "scripted"
model_provider = "scripted"
approval_policy = "never"

[model_providers.scripted]
name = "scripted"
base_url = "{model.url}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
"""
    (folder / "config.toml").write_text(settings)
    _connect(world, "codex", options)
    return _run(world, ["codex", "exec", "--skip-git-repo-check", prompt], world.environment(OPENAI_API_KEY="any"))


def gemini_cli(
    world: World, model: ScriptedModel, prompt: str, options: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Gemini CLI after `fusion connect gemini`."""
    folder = world.user / ".gemini"
    folder.mkdir(exist_ok=True)
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"disableAutoUpdate": True},
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    _connect(world, "gemini", options)
    words = ["gemini", "-m", "gemini-2.5-pro", "--approval-mode", "yolo", "-p", prompt]
    return _run(world, words, world.environment(GEMINI_API_KEY="any", GOOGLE_GEMINI_BASE_URL=model.url))


def opencode(
    world: World, model: ScriptedModel, prompt: str, options: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """opencode after `fusion connect opencode`."""
    folder = world.user / ".config" / "opencode"
    folder.mkdir(parents=True, exist_ok=True)
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{model.url}/v1", "apiKey": "any"},
        "models": {"scripted": {}},
    }
    settings = {"model": "scripted/scripted", "share": "disabled", "provider": {"scripted": provider}}
    (folder / "opencode.json").write_text(json.dumps(settings))
    _connect(world, "opencode", options)
    environment = world.environment(
        PWD=str(world.project),  # which it takes for the project
        OPENCODE_DISABLE_AUTOUPDATE="1",
        OPENCODE_DISABLE_MODELS_FETCH="1",
        OPENCODE_DISABLE_DEFAULT_PLUGINS="1",
    )
    return _run(world, ["opencode", "run", prompt], environment)


def _connect(world: World, host: str, options: Sequence[str]) -> None:
    """Add the server to a host's file; its check fails where the server cannot start."""
    words = [str(world.command), "connect", host, "--home", str(world.home), *options]
    subprocess.run(words, env=world.environment(), capture_output=True, check=False, timeout=RUN_S)


def inspector(world: World, *words: str) -> subprocess.CompletedProcess[str]:
    """The command line of MCP Inspector, which starts `fusion mcp` and sends one request."""
    return run_inspector(world, str(world.command), "mcp", "--home", str(world.home), *words)


def run_inspector(
    world: World, *words: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The command line of MCP Inspector with any words, by default in the environment of the world's user."""
    return _run(world, ["mcp-inspector", "--cli", *words], environment or world.environment())


HOSTS: Mapping[str, Runner] = {
    "Claude Code": claude_code,
    "Codex": codex,
    "Gemini CLI": gemini_cli,
    "opencode": opencode,
}
PROGRAMS: Mapping[str, str] = {
    "Claude Code": "claude",
    "Codex": "codex",
    "Gemini CLI": "gemini",
    "opencode": "opencode",
}


def is_installed(name: str) -> bool:
    """Whether `make test-hosts` has installed a host; opencode is there for Linux only."""
    return TOOLS is not None and (TOOLS / PROGRAMS[name]).exists()


def fusion_command(folder: Path) -> Path:
    """The command `fusion` of this checkout, as a script in a folder."""
    script = folder / "fusion"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fusion "$@"\n')
    script.chmod(0o700)
    return script
