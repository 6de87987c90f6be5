"""OpenClaw itself, as `make test-hosts` installs it: a gateway in the background, and its commands, for one user.

with Gateway(world, model, {"memory-fusion": {"home": str(world.home)}}) as claw:
    claw.turn("When is the mill closed?", session="direct")
assert block in model.main[-1].of_role("system")
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any, Self

from tests.hosts.hosts import World
from tests.hosts.scripted_model import ScriptedModel

TOOLS = Path(os.environ["OPENCLAW"]) if os.environ.get("OPENCLAW") else None
"""the folder of the command `openclaw` and of its Node, which `make test-hosts` names"""
FOLDER = Path(__file__).parents[2] / "integrations" / "openclaw"
START_S = 300.0
RUN_S = 300.0
MODEL = {
    "id": "scripted",
    "name": "scripted",
    "contextWindow": 100_000,
    "maxTokens": 1_000,
    "reasoning": False,
    "input": ["text"],
}


@dataclass
class Gateway:
    """A gateway with plugins of ours by their ids, linked by OpenClaw's own settings; ``more`` are further settings."""

    world: World
    model: ScriptedModel
    plugins: Mapping[str, Mapping[str, Any]]
    folders: Sequence[Path] = (FOLDER,)
    slot: str | None = None
    allowed: bool = True
    """whether the plugins may see conversations"""
    more: Mapping[str, Any] = field(default_factory=dict)
    _printed: list[str] = field(default_factory=list, init=False)
    _settled: Event = field(default_factory=Event, init=False)
    """set once the gateway is ready, or has ended"""

    @property
    def state(self) -> Path:
        return self.world.user / ".openclaw"

    @property
    def log(self) -> str:
        """What the gateway has printed."""
        return "".join(self._printed)

    def prepare(self) -> None:
        """Write OpenClaw's settings, for its commands and for a gateway on a free port."""
        self.state.mkdir(exist_ok=True)
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.settings.write_text(json.dumps(self._settings(), indent=2))

    def __enter__(self) -> Self:
        self.prepare()
        self.process = subprocess.Popen(
            self._words("gateway", "run", "--port", str(self.port)),
            env=self._environment(),
            cwd=self.world.project,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._settled.wait(START_S) or self.process.poll() is not None:
            self.__exit__()
            raise RuntimeError(f"the gateway did not start:\n{self.log}")
        return self

    def _read(self) -> None:
        """Keep what the gateway prints, until it ends."""
        assert self.process.stdout is not None
        with self.process.stdout as printed:
            for line in printed:
                self._printed.append(line)
                if "[gateway] ready" in line:
                    self._settled.set()
        self._settled.set()

    def __exit__(self, *exc: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=60)
        finally:
            self.process.kill()
            self._reader.join()

    @property
    def settings(self) -> Path:
        return self.state / "openclaw.json"

    def turn(self, prompt: str, session: str = "main", *options: str) -> str:
        """What the agent replies to a prompt in a session."""
        done = self.run("agent", "--agent", "main", "--session-key", f"agent:main:{session}", *options, "-m", prompt)
        assert done.returncode == 0, f"{done.stderr}\n{self.log}"
        return done.stdout

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command of `openclaw`."""
        return subprocess.run(
            self._words(*words),
            env=self._environment(),
            cwd=self.world.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=RUN_S,
        )

    def _words(self, *words: str) -> list[str]:
        assert TOOLS is not None
        return [str(TOOLS / "openclaw"), *words]

    def _environment(self) -> dict[str, str]:
        found = self.world.environment(PATH=f"{TOOLS}{os.pathsep}{os.environ['PATH']}")
        return {name: value for name, value in found.items() if not name.startswith("OPENCLAW")}

    def _settings(self) -> dict[str, Any]:
        provider = {"baseUrl": f"{self.model.url}/v1", "apiKey": "any", "api": "openai-completions", "models": [MODEL]}
        hooks = {"hooks": {"allowConversationAccess": True}} if self.allowed else {}
        entries = {name: {"enabled": True, **hooks, "config": config} for name, config in self.plugins.items()}
        slots = {"slots": {"memory": self.slot}} if self.slot else {}
        return {
            "models": {"providers": {"scripted": provider}},
            "agents": {"defaults": {"model": {"primary": "scripted/scripted"}}},
            "memory": {"search": {"provider": "none"}},
            "gateway": {
                "mode": "local",
                "bind": "loopback",
                "port": self.port,
                "auth": {"mode": "token", "token": "any"},
            },
            "logging": {"file": str(self.state / "openclaw.log")},
            "update": {"checkOnStart": False},
            "plugins": {"load": {"paths": [str(one) for one in self.folders]}, "entries": entries, **slots},
            **self.more,
        }
