"""An OpenClaw workspace with sessions, and a home that may write to it, for tests of the jobs of a workspace."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fusion.gateway.gateway import Gateway
from fusion.journal.jobs import JobRun
from tests.patience import load

MONDAY = datetime(2026, 11, 23, 9, 0, tzinfo=UTC)
SESSION = "11111111-2222-3333-4444-555555555555"


@dataclass
class Clock:
    """A time of day that a test sets."""

    now: datetime = MONDAY

    def __call__(self) -> datetime:
        return self.now


@dataclass
class Agent:
    """An agent with its sessions and its workspace below a folder, and a home that follows both."""

    folder: Path
    clock: Clock = field(default_factory=Clock)
    settings: dict[str, Any] = field(default_factory=dict)
    entries: int = 0

    def __post_init__(self) -> None:
        self.workspace.mkdir(parents=True)
        self.sessions.mkdir(parents=True)

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    @property
    def sessions(self) -> Path:
        return self.folder / "agents" / "main" / "sessions"

    @property
    def memory(self) -> Path:
        return self.workspace / "MEMORY.md"

    @property
    def interactions(self) -> Path:
        return self.workspace / "memory" / "interactions.md"

    def says(self, *turns: tuple[str, str], session: str = SESSION, at: datetime | None = None) -> None:
        """Append turns (role, text) to a session, one a minute."""
        file = self.sessions / f"{session}.jsonl"
        began = at or self.clock.now
        lines = [] if file.exists() else [{"type": "session", "id": session}]
        for number, (role, text) in enumerate(turns):
            self.entries += 1
            lines.append(
                {
                    "type": "message",
                    "id": f"e{self.entries}",
                    "timestamp": (began + timedelta(minutes=number)).isoformat(),
                    "message": {"role": role, "content": [{"type": "text", "text": text}]},
                }
            )
        with file.open("a") as opened:
            opened.writelines(json.dumps(line) + "\n" for line in lines)

    @asynccontextmanager
    async def opened(self, *, home: str = "home", write: bool = True, **more: Any) -> AsyncIterator[Gateway]:
        chosen: dict[str, Any] = {
            "home": self.folder / home,
            "backends_only": True,
            "embedder": {"adapter": ""},
            "backends": {"markdown": {"adapter": "adapters.markdown:Markdown", "paths": [str(self.workspace)]}},
            "workspace": {"write": write, "root_folder": str(self.workspace) if write else ""},
            "sessions": {"paths": [str(self.folder / "agents")], "every_s": 3600.0},
            "jobs": {"zone": "UTC", "start_after_s": 1e6, **self.settings},
        }
        async with Gateway.open(load(**(chosen | more)), clock=self.clock) as gateway:
            yield gateway


async def run_job(gateway: Gateway, name: str, *, dry_run: bool = False) -> JobRun:
    assert gateway.runner is not None
    return await gateway.runner.run(name, dry_run=dry_run)
