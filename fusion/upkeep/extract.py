"""The job `extract` writes the sessions of the last days into files of the workspace, without a model.

``.daily-raw/DATE.md`` has each turn of a day in one line, and is deleted after four days. ``memory/interactions.md``
has a summary of each session and day (`session_summary`); the oldest entries are dropped first. Each run writes both
from the journal, so a second run changes nothing and forgotten memories disappear. Edits of a person are kept.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from difflib import unified_diff
from itertools import islice

from fusion.contract import Event
from fusion.errors import BadInput
from fusion.journal.rows import Record
from fusion.lib.words import spoken
from fusion.store.workspace import EditedMeanwhile, Snapshot, Workspace
from fusion.upkeep import entries
from fusion.upkeep.entries import UNNAMED, Entry, File
from fusion.upkeep.job import JobContext
from fusion.upkeep.session_summary import Stated, one_line, summarised, words_of

NAME = "extract"
DOES = "Write what was said in the last days to .daily-raw and memory/interactions.md of your workspace."
RAW, INTERACTIONS = ".daily-raw", "memory/interactions.md"
TRIES = 3
"""maximum attempts to write a file that another program is editing"""
MAX_TURN_CHARS = 500
"""characters of a turn in the files of days"""
MAX_DAY_CHARS = 200_000
MAX_DIFF_LINES = 200
PREFACES = {
    RAW: "What was said on {day}, by session. Written by memory-fusion; it is deleted after some days.\n\n",
    INTERACTIONS: "# Interactions\n\nSummaries of sessions by memory-fusion. An entry that you edit stays.\n\n",
}
SPEAKERS = ("owner", "agent")
"""origins of the turns that are written; others are not trusted"""


@dataclass(frozen=True, slots=True)
class Limits:
    """For how many days turns are kept, and the maximum length of the summaries."""

    raw_days: int = 4
    max_chars: int = 40_000


@dataclass(frozen=True, slots=True)
class Sources:
    """The calls of a home that the job uses.

    ``take_in`` reads new turns of the followed sessions. ``turns`` returns the turns since a time. ``known`` returns
    those of the given refs whose memories are current. ``home`` returns a short id of the home. ``reindex`` lets the
    backends read the changed files, and returns what each reports.
    """

    take_in: Callable[[], Awaitable[int]]
    turns: Callable[[datetime], Awaitable[Sequence[Record]]]
    known: Callable[[Sequence[str]], Awaitable[Collection[str]]]
    stated: Stated
    home: Callable[[], Awaitable[str]]
    reindex: Callable[[], Awaitable[Mapping[str, str]]]


async def steps() -> Sequence[str]:
    return ["sessions"]


def step(
    workspace: Workspace | None, sources: Sources, limits: Limits, zone: tzinfo
) -> Callable[[JobContext, str], Awaitable[None]]:
    """The one step of a run: read the sessions, write the files, and have them indexed."""

    async def run(context: JobContext, _: str) -> None:
        if workspace is None:
            raise BadInput("[workspace] write is false: no file of yours is written")
        read = 0 if context.dry_run else await sources.take_in()
        context.add({"turns_read": read})
        today = context.now.astimezone(zone).date()
        days = [today - timedelta(days=back) for back in range(limits.raw_days)]
        first = datetime.combine(days[-1], time(), zone).astimezone(UTC)
        turns = [one for one in await sources.turns(first) if is_written(one)]
        context.add({"turns": len(turns)})
        job = _Files(workspace, context, await sources.home())
        by_day = turns_by_day(turns, zone)
        for day in reversed(days):
            sessions = by_day.get(day.isoformat(), {})
            await job.write_day(day, [_raw(day, name, said, zone) for name, said in sessions.items()])
        await job.delete_days(days)
        summaries = [
            entry
            for day, sessions in by_day.items()
            for name, said in sessions.items()
            if (entry := _summary(day, name, said, sources.stated, zone)) is not None
        ]
        names = {day.isoformat() for day in days}
        await job.write_interactions(summaries, names, sources.known, limits.max_chars)
        if job.changed and not context.dry_run:
            context.result["indexed"] = dict(await sources.reindex())

    return run


def is_written(record: Record) -> bool:
    """Whether a turn is of the owner or the agent, in private, and current."""
    event = record.event
    return (
        event.kind == "turn"
        and event.origin in SPEAKERS
        and event.scope.audience == "private"
        and record.trust in ("trusted", "unknown")
        and not record.forgotten
        and record.superseded_by is None
        and record.state.ended_at is None
        and bool(words_of(event))
    )


# Entries ---------------------------------------------------------------------------------------------------------


def turns_by_day(turns: Sequence[Record], zone: tzinfo) -> dict[str, dict[str, list[Record]]]:
    """The turns by day and session, both in the order of time."""
    found: defaultdict[str, defaultdict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in sorted(turns, key=lambda one: (one.event.began, one.event.place.start if one.event.place else 0)):
        found[record.event.began.astimezone(zone).date().isoformat()][session_of(record.event)].append(record)
    return {day: dict(sessions) for day, sessions in sorted(found.items())}


def session_of(turn: Event) -> str:
    """The name of a turn's session, with its project."""
    named = turn.place.document if turn.place is not None else turn.scope.session_id or turn.source or UNNAMED
    return one_line(" · ".join(filter(None, [named, turn.scope.project])), 200)


def _heading(day: str, name: str, began: datetime, ended: datetime, zone: tzinfo) -> str:
    return f"{day} {began.astimezone(zone):%H:%M}–{ended.astimezone(zone):%H:%M} · {name}"


def _raw(day: date, name: str, turns: Sequence[Record], zone: tzinfo) -> Entry:
    """Every turn of a session on a day, one a line."""
    lines = [
        f"- {one.event.began.astimezone(zone):%H:%M} "
        f"{one_line(spoken(words_of(one.event), one.event.speaker), MAX_TURN_CHARS)} [{one.ref}]"
        for one in turns
    ]
    times = [one.event.began for one in turns]
    return Entry(_heading(day.isoformat(), name, min(times), max(times), zone), tuple(lines))


def _summary(day: str, name: str, turns: Sequence[Record], stated: Stated, zone: tzinfo) -> Entry | None:
    found = summarised(turns, stated, zone)
    if found is None:
        return None
    lines = [f"- {line.label}: {line.text} [{line.ref}]" for line in found.lines]
    lines += [f"- dates: {', '.join(found.dates)}"] if found.dates else []
    lines += [f"- files: {', '.join(found.files)}"] if found.files else []
    return Entry(_heading(day, name, found.began, found.ended, zone), tuple(lines))


# Files -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Files:
    """Writes the files of one run, and reports the changes in the run's result."""

    workspace: Workspace
    context: JobContext
    home: str
    changed: bool = False

    async def write_day(self, day: date, new: Sequence[Entry]) -> None:
        path = f"{RAW}/{day.isoformat()}.md"
        preface = PREFACES[RAW].format(day=day.isoformat())
        await self._write(path, preface, new, {day.isoformat()}, (), MAX_DAY_CHARS)

    async def write_interactions(
        self,
        new: Sequence[Entry],
        days: Collection[str],
        known: Callable[[Sequence[str]], Awaitable[Collection[str]]],
        max_chars: int,
    ) -> None:
        there = await asyncio.to_thread(self.workspace.read, INTERACTIONS)
        refs = entries.refs_of(entries.parse(there.text).entries, self.home)
        await self._write(INTERACTIONS, PREFACES[INTERACTIONS], new, days, await known(refs), max_chars)

    async def delete_days(self, kept: Sequence[date]) -> None:
        """Delete the files of days before ``kept``, unless a person edited them."""
        for name in await asyncio.to_thread(self.workspace.names, RAW):
            try:
                day = date.fromisoformat(name.removesuffix(".md"))
            except ValueError:
                continue
            if day < kept[-1] and name.endswith(".md"):
                path = f"{RAW}/{name}"
                read = await asyncio.to_thread(self.workspace.read, path)
                changes = await asyncio.to_thread(self.workspace.happened, read)
                if changes and changes[-1].by == NAME and changes[-1].after == read.hash:
                    await self._replace(read, None, ())
                else:
                    self.context.result.setdefault("left", []).append(f"{path}: it was edited, so it is not deleted")

    async def _write(
        self,
        path: str,
        preface: str,
        new: Sequence[Entry],
        days: Collection[str],
        known: Collection[str],
        max_chars: int,
    ) -> None:
        for left in reversed(range(TRIES)):
            read = await asyncio.to_thread(self.workspace.read, path)
            taken_out = await asyncio.to_thread(self._taken_out, read)
            file = entries.parse(read.text) if read.data is not None else File(preface, ())
            made = entries.rolled(
                entries.merged(file, new, home=self.home, days=days, known=known, taken_out=taken_out), max_chars
            )
            if made.entries == file.entries or (read.data is None and not made.entries):
                return
            try:
                await self._replace(read, made.text.encode("utf-8", "replace"), _written(made, self.home, taken_out))
                return
            except EditedMeanwhile:
                if not left:
                    raise

    async def _replace(self, read: Snapshot, new: bytes | None, lines: Sequence[str]) -> None:
        if self.context.dry_run:
            report_diff(self.context, read, new)
            self.context.add({"files_changed": 1})
            return
        # These files drop old entries on purpose, and the journal still has them: so there is no limit of loss.
        change = await asyncio.to_thread(
            self.workspace.write,
            read,
            new,
            by=NAME,
            now=self.context.now,
            run=self.context.run,
            max_loss=1,
            lines=lines,
        )
        self.changed = True
        self.context.add({"files_changed": 1})
        self.context.result.setdefault("changes", []).append(f"{change.name} {read.path}")

    def _taken_out(self, read: Snapshot) -> Mapping[str, str]:
        """The hashes of this home's entries, by key, that a person deleted from the file since it was written last."""
        there = {entry.key for entry in entries.parse(read.text).entries}
        changes = self.workspace.happened(read)
        written = changes[-1].lines if changes else ()
        pairs = (line.removeprefix("-").split(" ", 1) for line in written)
        return {key: said for said, key in pairs if key not in there}


def _written(file: File, home: str, taken_out: Mapping[str, str]) -> list[str]:
    """What the log of changes records of a file: hash and key of each entry, deleted ones included."""
    ours = [f"{one.hash} {one.key}" for one in file.entries if one.home == home]
    return [*ours, *(f"-{said} {key}" for key, said in taken_out.items())][-1000:]


def report_diff(context: JobContext, read: Snapshot, new: bytes | None) -> None:
    """Add the unified diff of a file that a dry run would write to the run's result."""
    after = (new or b"").decode("utf-8", "replace")
    lines = unified_diff(read.text.splitlines(), after.splitlines(), read.path, read.path, lineterm="")
    context.result.setdefault("diff", []).extend(islice(lines, MAX_DIFF_LINES))
