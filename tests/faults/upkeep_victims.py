"""Kills a job at every statement, and runs it again: python -m tests.faults.upkeep_victims JOB FOLDER [EVERY].

With EVERY it does so only at the first of every so many statements, and at the last one. A process that has read the
memories once forks a victim for each kill. The victim runs the job, and ends without any cleaning up before that
statement. Then the parent runs the job to its end. It prints the number of kills, and fails where a file is neither as
before nor as after, where the second run ends differently from one that nothing disturbed, where anything else is left
behind, or where the changes cannot be taken back.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, timedelta
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from fusion.gateway.workspace_jobs import distill_limits, distill_sources, extract_sources, reflect_sources
from fusion.journal.rows import Record
from fusion.store.workspace import Workspace
from fusion.upkeep import distill, drift, extract, feed, reflect, shepherd
from fusion.upkeep.drift import Passage
from fusion.upkeep.job import JobContext
from fusion.upkeep.scratch import Scratch
from fusion.upkeep.shepherd import Limits, Shepherd
from tests.gateway.workspaces import Agent, run_job

TIMES = {"extract": 2}
"""how often each statement is counted, since a job writes several files; 1 for the other jobs"""
RUN = "j900"
WATCHED = ("store/workspace.py", "upkeep/{job}.py", "upkeep/entries.py", "upkeep/scratch.py", "store/private_files.py")
MEMORY = "# Memory\n\n## Rules\n- Never deploy on a Friday.\n\n## Facts\n- Ada sails.\n- Nadia lives in Oslo.\n"
DAY = (
    ("user", "My daughter Mia is allergic to peanuts. We decided to go with Postgres for the ledger."),
    ("assistant", "I've booked a table for four at Kedjan. I will write the release notes tomorrow."),
    ("user", "Which region should the backup use?"),
)

Run = Callable[[], None]


class Folder:
    """A backend for files: each section is a file below its folder."""

    takes_files = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def sections(self, prefix: str) -> Sequence[str]:
        return sorted(one.name for one in self._folder.glob(f"{prefix}*"))

    async def add_sections(self, texts: Mapping[str, str]) -> None:
        self._folder.mkdir(exist_ok=True)
        for name, text in texts.items():
            (self._folder / name).write_text(text)

    async def delete_sections(self, names: Sequence[str]) -> None:
        for name in names:
            (self._folder / name).unlink(missing_ok=True)


async def prepared(name: str, agent: Agent) -> Run:
    """A run of the job over what a home knows, which is read once: no database is open in a victim."""
    agent.memory.write_text(MEMORY)
    agent.says(*DAY)
    now = agent.clock.now
    async with agent.opened() as gateway:
        await run_job(gateway, "extract")  # which writes what the others read
        if name in ("extract", "reflect"):  # their files are there already, and have something new
            await run_job(gateway, name)
            agent.clock.now = now = now + (timedelta(days=2) if name == "extract" else timedelta(hours=1))
            agent.says(("user", "I live in Rome now."), ("assistant", "I fixed the importer."), session="2" * 8)
            await extract_sources(gateway).take_in()
        records = await extract_sources(gateway).turns(now - timedelta(days=9))
        taken = extract_sources(gateway)
        curated = distill_sources(gateway)
        known = await curated.known([one.ref for one in records])
        stated = await curated.stated()
        home, thoughts, limits = await taken.home(), reflect_sources(gateway), distill_limits(gateway.settings)

    async def turns(after: Any) -> Sequence[Record]:
        return [one for one in records if one.event.began >= after]

    async def current(refs: Sequence[str]) -> Collection[str]:
        return [one.ref for one in records if one.ref in refs]

    async def reindex() -> Mapping[str, str]:
        return {}

    async def nothing() -> int:
        return 0

    async def own() -> str:
        return home

    async def all_stated() -> Sequence[distill.Known]:
        return stated

    async def known_of(refs: Sequence[str]) -> Mapping[str, distill.Known]:
        return {ref: one for ref, one in known.items() if ref in refs}

    async def cosines(passages: Sequence[Passage]) -> Sequence[float]:
        return [drift.by_words(one) for one in passages]

    space = Workspace(agent.workspace, agent.folder / "home" / "workspace")
    watch = Shepherd(agent.folder / "home" / "shepherd", space, Limits(0.25, 0.3, ("rules",)))
    if name == "shepherd":
        watch.promote(now, space.read("MEMORY.md").hash)
        twisted = MEMORY.replace("Never deploy", "Deploy")
        space.write(space.read("MEMORY.md"), twisted.encode(), by="distill", now=now, max_loss=1)
        note = agent.workspace / "scratch-idea.md"
        note.write_text("An idea.\n")
        os.utime(note, (0, 0))
    steps: dict[str, tuple[Any, Sequence[str]]] = {
        "extract": (
            extract.step(
                space,
                extract.Sources(nothing, turns, current, taken.stated, own, reindex),
                extract.Limits(raw_days=2),
                UTC,
            ),
            ["sessions"],
        ),
        "distill": (
            distill.step(space, replace(curated, stated=all_stated, known=known_of, home=own, reindex=reindex), limits),
            [distill.FILE],
        ),
        "reflect": (
            reflect.step(space, replace(thoughts, turns=turns, known=current, reindex=reindex, model=None), UTC),
            ["days"],
        ),
        "shepherd": (shepherd.step(watch, cosines, Scratch(("scratch*.md",))), shepherd.STEPS),
        "feed": (
            feed.step(space, feed.Sources({"one": Folder(agent.folder / "sent")}, own, ("/MEMORY.md", "/memory/**"))),
            ["one"],
        ),
    }
    step, names = steps[name]

    async def once() -> None:
        context = JobContext(now, False, 60.0, run=RUN)
        for one in names:
            await step(context, one)

    return lambda: asyncio.run(once())


def contents(folder: Path) -> dict[str, bytes]:
    """What the user sees: the files of the workspace, and what a backend was sent."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for top in ("workspace", "sent")
        for path in sorted((folder / top).rglob("*"))
        if path.is_file()
    }


class Killer:
    """Ends the process without cleaning up before the statement of a number; counts them without one."""

    def __init__(self, job: str, at: int | None = None) -> None:
        self._ends = tuple(one.format(job=job) for one in WATCHED)
        self._at, self.count, self._limit = at, 0, TIMES.get(job, 1)
        self._times: Counter[tuple[CodeType, int]] = Counter()
        self._lock = threading.Lock()

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.endswith(self._ends):
            return None
        if event == "line":
            with self._lock:
                self._times[frame.f_code, frame.f_lineno] += 1
                if self._times[frame.f_code, frame.f_lineno] <= self._limit:
                    if self.count == self._at:
                        os._exit(9)
                    self.count += 1
        return self

    def watch(self, run: Run) -> None:
        threading.settrace(self)
        sys.settrace(self)
        try:
            run()
        finally:
            sys.settrace(None)
            threading.settrace(None)


def main(name: str, folder: Path, every: int = 1) -> None:
    os.fsync = lambda fd: None  # a killed process leaves what it wrote to the system
    agent = Agent(folder / "agent")
    run = asyncio.run(prepared(name, agent))
    start = folder / "start"
    shutil.copytree(agent.folder, start, copy_function=shutil.copy2)

    def reset() -> None:
        shutil.rmtree(agent.folder)
        shutil.copytree(start, agent.folder, copy_function=shutil.copy2)

    before = contents(agent.folder)
    counted = Killer(name)
    counted.watch(run)
    after = contents(agent.folder)
    assert after != before
    run()
    settled = contents(agent.folder)
    assert settled == after, "a second run changes nothing"
    points = sorted({*range(0, counted.count, every), counted.count - 1})
    for at in points:
        reset()
        if not (victim := os.fork()):
            Killer(name, at).watch(run)
            os._exit(0)
        ended = os.waitstatus_to_exitcode(os.waitpid(victim, 0)[1])
        assert ended == 9, (at, ended)
        found = {path: data for path, data in contents(agent.folder).items() if not path.endswith(".new")}
        for path in found.keys() | before.keys() | after.keys():
            assert found.get(path) in (before.get(path), after.get(path)), (at, path)
        run()
        assert contents(agent.folder) == after, (at, "the next run ends it")
        space = Workspace(agent.workspace, agent.folder / "home" / "workspace")
        for change in reversed([one for one in space.changes() if one.run == RUN]):
            space.undo(change.name)
        if name != "feed":
            assert contents(agent.folder) == before, (at, "all of it can be taken back")
    os.write(1, str(len(points)).encode())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).resolve(), *map(int, sys.argv[3:]))
