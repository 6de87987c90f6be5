"""Simulates a week of an agent in a fresh home with an OpenClaw workspace, on a simulated clock.

In each turn it does what a host does, over HTTP to a server on a free port of this computer: recall before the prompt,
and the whole history to ``/ingest`` after the reply. The jobs run when they are due. On Wednesday evening a rewrite of
MEMORY.md changes a rule into its opposite. On Friday questions are asked about Monday.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fusion.client import AsyncClient
from fusion.doors.hooks import question_of
from fusion.doors.http.serve import listen, serve_on
from fusion.gateway.gateway import Gateway
from fusion.gateway.shepherding import required_shepherd
from fusion.gateway.workspace import required
from fusion.upkeep.shepherd import described

TURNS = Path(__file__).parent / "data" / "week.tsv"
MONDAY = datetime(2026, 11, 16, 0, tzinfo=UTC)
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
STEP = timedelta(hours=3)
FIRST_HOUR, BETWEEN = 9, timedelta(minutes=20)
TIMEOUT_S = 300.0
"""seconds for a request; long, because the result must not depend on how busy the machine is"""
MEMORY = """\
# Memory

## Identity

I am Max, the agent of the bicycle workshop of Mara and Teo in Malmö.

## Rules

- Never deploy on a Friday.
- Answer mechanics in plain words.

## Notes

- The day list must be quick.
"""
TWISTED = ("Never deploy on a Friday.", "Deploy on a Friday.")
QUESTIONS = {
    "why do we move the bookings to Postgres?": "writers block each other",
    "what is Mia allergic to?": "peanuts",
    "where is the spare key of the workshop?": "blue door",
    "which port does staging listen on?": "4410",
}
"""questions on Friday about Monday, each with a part of the right answer"""
UPKEEP = ("distill", "extract", "reflect", "shepherd")
OTHER_JOBS = ("checks", "consolidation", "lifecycle", "receipts", "vectors")
"""jobs that do not write to a workspace; they are off in this simulation"""


class Clock:
    """The simulated time."""

    now = MONDAY

    def __call__(self) -> datetime:
        return self.now


@dataclass
class Week:
    """The state of the simulation: an open home, a client of its server, its workspace, and counts."""

    gateway: Gateway
    client: AsyncClient
    clock: Clock
    root: Path
    session: str = ""
    recalled: int = 0
    """number of prompts that got a block"""
    twisted: bool = False

    async def day(self, name: str) -> dict[str, Any]:
        """Simulate a day: its turns from nine o'clock on, and every three hours the jobs that are due."""
        begins = MONDAY + timedelta(days=DAYS.index(name))
        self.session, history = f"agent:main:telegram:{name.lower()}", []
        talk = [line.split("\t")[1:] for line in _lines() if line.startswith(name)]
        before, runs = self.recalled, dict.fromkeys(UPKEEP, 0)
        while self.clock.now < begins + timedelta(days=1):
            while talk and self.clock.now.hour >= FIRST_HOUR:
                asked, answered = talk.pop(0)
                history += [self._message("user", asked), self._message("assistant", answered)]
                await self.turn(asked, history)
                self.clock.now += BETWEEN
            for run in await self._due():
                runs[run] = runs.get(run, 0) + 1
            if not self.twisted and name == "Wed" and self.clock.now.hour >= 18:
                self.twist()
            self.clock.now = _next_step(self.clock.now)
        jobs = {job: count for job, count in sorted(runs.items()) if count}
        return {"turns": len(history), "prompts_with_memories": self.recalled - before, "jobs": jobs}

    async def _due(self) -> list[str]:
        runner = self.gateway.runner
        assert runner is not None
        return [run.job for run in await runner.run_due()]

    def _message(self, role: str, text: str) -> dict[str, Any]:
        return {"role": role, "content": text, "timestamp": self.clock.now.isoformat()}

    async def turn(self, asked: str, history: list[dict[str, Any]]) -> None:
        """Do what a host does around one turn."""
        self.recalled += bool(await self.recall(asked))
        await self.client.ingest_history(
            history, self.session, channel="telegram", agent_id="main", audience="private", debounce=False
        )
        await self.client.settle(TIMEOUT_S)

    async def recall(self, question: str) -> str:
        """The block before a prompt; "" for a heartbeat."""
        if not question_of(question):
            return ""
        asker = {"agent_id": "main", "session_id": self.session}
        return await self.client.auto_recall(question, timeout_s=TIMEOUT_S, asker=asker, audience="private")

    def twist(self) -> None:
        """Rewrite MEMORY.md as a job does, and change a rule into its opposite, as models sometimes do."""
        workspace = required(self.gateway.settings)
        read = workspace.read("MEMORY.md")
        if TWISTED[0] in read.text:
            workspace.write(read, read.text.replace(*TWISTED).encode(), by="distill", now=self.clock.now)
            self.twisted = True


def _lines() -> list[str]:
    return TURNS.read_text(encoding="utf-8").splitlines()


def _next_step(now: datetime) -> datetime:
    """The next full step of the day after a time."""
    begins = now.replace(hour=0, minute=0)
    return begins + ((now - begins) // STEP + 1) * STEP


def play() -> dict[str, Any]:
    """Simulate the week and report its result."""
    with tempfile.TemporaryDirectory(prefix="memory-fusion-") as folder, _home_of(Path(folder)):
        root = Path(folder) / ".openclaw" / "workspace"
        (root / "memory").mkdir(parents=True)
        (root / "MEMORY.md").write_text(MEMORY, encoding="utf-8")
        home = Path(folder) / "home"
        command = [sys.executable, "-m", "fusion", "init", "--yes", "--write-workspace", "--home", str(home)]
        subprocess.run(command, check=True, capture_output=True, cwd=folder)
        subprocess.run([sys.executable, "-m", "fusion", "stop", "--home", str(home)], check=False, capture_output=True)
        return asyncio.run(_play(home, root))


@contextmanager
def _home_of(folder: Path) -> Iterator[None]:
    """Set ``HOME`` to this folder, for this process and its children, and switch the other jobs off."""
    off = {f"FUSION_JOBS__{job.upper()}__SCHEDULE": "off" for job in OTHER_JOBS}
    before = dict(os.environ)
    os.environ.update({"HOME": str(folder), **off})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


async def _play(home: Path, root: Path) -> dict[str, Any]:
    clock = Clock()
    async with Gateway.open(home=home, clock=clock) as gateway, served(gateway) as client:
        week = Week(gateway, client, clock, root)
        shepherd = required_shepherd(gateway.settings)
        shepherd.promote(clock.now, shepherd.workspace.read("MEMORY.md").hash)
        days: dict[str, Any] = {}
        answers: dict[str, bool] = {}
        for name in DAYS:
            days[name] = await week.day(name)
            if name == "Fri":
                answers = {question: answer in await week.recall(question) for question, answer in QUESTIONS.items()}
        text = (root / "MEMORY.md").read_text(encoding="utf-8")
        return {
            "command": "living --week",
            "days": days,
            "answers": answers,
            "incidents": [described(one) for one in shepherd.incidents()],
            "files": {str(path.relative_to(root)): _lines_of(path) for path in sorted(root.rglob("*.md"))},
            "rule_is_whole": TWISTED[0] in text,
            "memory": text,
        }


@asynccontextmanager
async def served(gateway: Gateway) -> AsyncIterator[AsyncClient]:
    """A client of a gateway over a server on a free port of this computer, which runs until the end of the block."""
    home = gateway.settings.home
    ready = asyncio.Event()
    with closing(listen("127.0.0.1", 0)) as door:
        serving = asyncio.create_task(serve_on(door, gateway, gateway.settings, lambda url: ready.set()))
        await ready.wait()
        try:
            async with AsyncClient.of_home(home, start=False, timeout_s=TIMEOUT_S) as client:
                yield client
        finally:
            os.kill(os.getpid(), signal.SIGTERM)  # which the server takes for itself, while it runs
            await serving


def _lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def show(found: Mapping[str, Any]) -> None:
    """Print the week."""
    for name, day in found["days"].items():
        jobs = ", ".join(f"{job} {count}" for job, count in day["jobs"].items())
        print(f"{name}  {day['turns']:2} turns, {day['prompts_with_memories']} prompts with memories; jobs: {jobs}")
    answers = found["answers"]
    print(f"\nAsked on Friday about Monday, and answered in the block: {sum(answers.values())} of {len(answers)}")
    for incident in found["incidents"]:
        print(f"Incident: {incident}")
    print(f"The rule that was twisted is {'whole again' if found['rule_is_whole'] else 'LOST'}.\n")
    for path, lines in found["files"].items():
        print(f"{lines:4} lines  {path}")
