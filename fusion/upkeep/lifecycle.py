"""The lifecycle of memories, in seed 000's order: expire → decay → retire → consolidate → resolve conflicts.

If a home asks for it, what no block needed for long is archived as well (seed 004), by priority: P0 never, P1 after 90
days, P2 after 30. Only inclusion in a block is use, and no use changes trust. An archived memory comes back by undo, or
when somebody restores it, and is not archived again then.

It decides in the journal, so that a decision holds for the hits of every backend, and can be undone. Nothing is deleted
unless that is asked for. What it decides depends on the journal and the clock alone, and each page is one transaction:
the next run finishes one that was killed, and a run with nothing to do changes nothing. What was undone, or made
current again by hand, is not decided again.

RAM holds the texts of one page, a sketch of each memory that may have a near-duplicate (at most `WINDOW`), and the
members of open conflicts.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, Literal

from fusion.contract import STATEMENT_KINDS, Embedder, Event, Extraction, Kind, Priority, Scope, StateChange
from fusion.errors import BadInput
from fusion.journal import Journal, lifecycle, state
from fusion.journal.lifecycle import Memory
from fusion.journal.state import Planned
from fusion.lib.conflict import best
from fusion.lib.ids import uuid7
from fusion.lib.importance import label_of, priority_of
from fusion.lib.merge_finder import WINDOW, MergeFinder
from fusion.lib.seed004_factors import is_over
from fusion.upkeep.job import JobContext

NAME = "lifecycle"
DOES = "Expire, decay, retire and merge memories, and resolve conflicts. Each decision can be undone."

PAGE = 500
"""memories read and decided on at a time"""
SETTLE_S = 10.0
"""seconds that a run waits for the backends to store the new states; answers do not need it"""
MAX_TIME = timedelta(hours=1_000_000)
UNSKETCHED = 'near-duplicates were not searched: pip install "/path/to/checkout[upkeep]"'

TimeUp = Literal["expired", "decayed", "retired", "archived"]
Progress = Callable[[int, int | None], None]


def no_progress(done: int, total: int | None) -> None:
    """Reports nothing."""


@dataclass(frozen=True, slots=True)
class Rules:
    """When a memory ends, and which memories say the same (seed 000)."""

    ttl: timedelta = timedelta(hours=720)
    """of a memory with the lifetime ``ttl``, counted from when it was said; neither use nor a rewording prolongs it"""
    idle: timedelta = timedelta(hours=24)
    """time without use after which a ``session`` memory ends"""
    same: float = 0.92
    """cosine above which two permanent memories say the same; without an embedder, Jaccard similarity of words"""
    delete_expired: bool = False
    """whether expired memories are deleted, those of earlier runs too; otherwise they stay for history"""
    archive_unused: bool = False
    """whether memories of priority P1 and P2 are archived that no block has had for long"""
    p1: timedelta = timedelta(days=90)
    p2: timedelta = timedelta(days=30)

    def unused(self, priority: Priority) -> timedelta | None:
        """The time without use after which a memory of this priority is archived; None: never."""
        return {"P1": self.p1, "P2": self.p2}.get(priority) if self.archive_unused else None

    @classmethod
    def of(cls, given: Mapping[str, Any], otherwise: Rules | None = None) -> Rules:
        """Rules of the settings in ``[lifecycle]``; what is left out is as ``otherwise``.

        Raises BadInput.
        """
        names = {"ttl_hours": "ttl", "idle_hours": "idle", "p1_days": "p1", "p2_days": "p2"}
        changes: dict[str, Any] = {}
        for name, value in given.items():
            period = timedelta(days=value) if name.endswith("_days") else _hours(value) if name in names else value
            changes[names.get(name, name)] = period
        return replace(otherwise or cls(), **changes)


_ASKED = ("ttl_hours", "idle_hours", "delete_expired", "archive_unused")


@dataclass(frozen=True, slots=True)
class LifecycleRequest:
    """One run over the memories that ``scope`` admits; with ``dry_run`` nothing changes. None: as the home's rules."""

    scope: Scope
    dry_run: bool = False
    ttl_hours: float | None = None
    idle_hours: float | None = None
    delete_expired: bool | None = None
    archive_unused: bool | None = None

    def rules(self, of_home: Rules) -> Rules:
        """The rules of this run. Raises BadInput."""
        given = {name: getattr(self, name) for name in _ASKED}
        return Rules.of({name: value for name, value in given.items() if value is not None}, of_home)


@dataclass(frozen=True, slots=True)
class Report:
    """Numbers of memories that a run changed, or with ``dry_run`` would change.

    ``released`` can be found again, since the memory that they had been merged into ended. ``archived_by`` counts the
    archived ones by priority, trust and importance, and names no memory. ``run`` names the run in the log of decisions;
    it is empty if nothing was decided.
    """

    expired: int = 0
    decayed: int = 0
    consolidated: int = 0
    retired: int = 0
    conflicts_resolved: int = 0
    scanned: int = 0
    released: int = 0
    deleted: int = 0
    archived: int = 0
    archived_by: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    dry_run: bool = False
    run: str = ""
    notes: tuple[str, ...] = ()


def ending(memory: Memory, now: datetime, rules: Rules) -> tuple[TimeUp, datetime] | None:
    """Why and when a memory's time is up, None if it is not by ``now``. A clock that went back ends nothing."""
    deadlines: list[tuple[TimeUp, datetime]] = []
    if memory.state.lifetime == "ttl":  # an end of its own counts instead of the home's
        deadlines.append(("expired", memory.event.valid_to or memory.said_at + rules.ttl))
    if memory.state.lifetime == "session":
        deadlines.append(("decayed", max(memory.said_at, memory.last_used or memory.said_at) + rules.idle))
    if memory.event.valid_to is not None:
        deadlines.append(("retired", memory.event.valid_to))
    unused = rules.unused(priority_of(memory.state))
    if unused is not None and (memory.state.due is None or is_over(memory.state.due, now)):
        deadlines.append(("archived", max(memory.said_at, memory.last_used or memory.said_at) + unused))
    return next(((why, at) for why, at in deadlines if at <= now), None)


def settled(group: Sequence[Memory], now: datetime) -> dict[str, StateChange]:
    """The changes that resolve a conflict: its best member stays current, the others end."""
    winner = best(group)
    lost: StateChange = {"conflict_status": "resolved", "ended_at": now, "ended": "lost"}
    return {member.id: {"conflict_status": None} if member is winner else lost for member in group}


@dataclass(slots=True, eq=False)
class Lifecycle:
    """Runs the lifecycle of one journal, one run at a time.

    ``settle`` returns once the backends have the new states. ``delete`` deletes expired memories by id, and returns how
    many. ``flush`` writes what is not yet counted of the use of memories. ``classify`` tells the kind of a note, and
    ``extract`` applies the rules to an event.
    """

    journal: Journal
    embedder: Embedder | None
    settle: Callable[[], Awaitable[None]]
    delete: Callable[[Sequence[str]], Awaitable[int]]
    flush: Callable[[], Awaitable[None]]
    classify: Callable[[str], Kind]
    extract: Callable[[Event], Extraction]
    rules: Rules = field(default_factory=Rules)
    window: int = WINDOW
    page: int = PAGE
    _running: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def run(self, request: LifecycleRequest, now: datetime, progress: Progress = no_progress) -> Report:
        """Run all phases; raises BadInput. May be stopped anywhere and run again; a second run waits for the first."""
        request.rules(self.rules)
        async with self._running:
            await self.flush()
            run = _Run(self, request, now, progress)
            report = await run.report()
        if report.run:
            with suppress(TimeoutError):
                async with asyncio.timeout(SETTLE_S):
                    await self.settle()
        return report


@dataclass(slots=True)
class _Review:
    """What a run finds in a page of memories."""

    ended: defaultdict[TimeUp, list[tuple[Memory, datetime]]] = field(default_factory=lambda: defaultdict(list))
    disputed: list[Memory] = field(default_factory=list)
    """the members of open conflicts; they are never merged"""
    comparable: list[Memory] = field(default_factory=list)
    """those that may have near-duplicates"""


class _Run:
    """One run of the lifecycle."""

    def __init__(self, parts: Lifecycle, request: LifecycleRequest, now: datetime, progress: Progress) -> None:
        self._parts = parts
        self._journal = parts.journal
        self._request = request
        self._rules = request.rules(parts.rules)
        self._now = now
        self._progress = progress
        self._id = str(uuid7())
        self._counts: Counter[str] = Counter()
        self._decided = False
        self._archived: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._would_end: list[str] = []
        """memories that only a dry run has ended"""

    async def report(self) -> Report:
        """Do all phases."""
        conflicts: defaultdict[tuple[str | None, str], list[Memory]] = defaultdict(list)
        merger = None
        if find_spec("datasketch"):
            parts = self._parts
            merger = MergeFinder(
                self._get, _apart, lambda one: parts.extract(one.event), parts.embedder, self._rules.same, parts.window
            )
        total = await self._journal.read(lifecycle.count, self._request.scope)
        async for page in self._pages():
            review = await self._review(page)
            for member in review.disputed:
                conflicts[member.event.scope.user_id, member.state.conflict_group or ""].append(member)
            pairs = [] if merger is None else await merger.pairs(review.comparable)
            await self._decide([*self._endings(review), *await self._merges(pairs)])
            self._counts["scanned"] += len(page)
            self._progress(self._counts["scanned"], total)
        await self._resolve(list(conflicts.values()))
        await self._release()
        if self._rules.delete_expired:
            await self._delete_expired()
        notes = (UNSKETCHED,) if merger is None else merger.notes()
        run = self._id if self._decided else ""
        archived = {name: dict(counts) for name, counts in self._archived.items()}
        return Report(**self._counts, archived_by=archived, dry_run=self._request.dry_run, run=run, notes=notes)

    async def _pages(self) -> AsyncIterator[Sequence[Memory]]:
        after = 0
        while page := await self._journal.read(lifecycle.page, self._request.scope, after, self._parts.page):
            yield page
            after = page[-1].seq

    async def _get(self, event_ids: Sequence[str]) -> dict[str, Memory]:
        return await self._journal.read(lifecycle.get, event_ids) if event_ids else {}

    async def _decide(self, planned: Sequence[Planned]) -> None:
        if planned and not self._request.dry_run:
            made = await self._journal.decide_all(planned, NAME, run=self._id, now=self._now)
            self._decided = self._decided or bool(made)

    async def _review(self, page: Sequence[Memory]) -> _Review:
        found = _Review()
        over: list[tuple[Memory, TimeUp, datetime]] = []
        for memory in page:
            current = memory.state
            if current.ended_at is not None or current.merged_into is not None:
                continue
            end = ending(memory, self._now, self._rules)
            if end is not None:
                over.append((memory, *end))
            elif current.conflict_status == "active" and current.conflict_group is not None:
                found.disputed.append(memory)
            elif (
                current.conflict_group is None
                and current.lifetime == "permanent"
                and _is_statement(memory, self._parts.classify)
            ):
                found.comparable.append(memory)
        reverted = await self._endings_reverted([memory for memory, *_ in over])
        for memory, why, at in over:
            if (memory.id, why) not in reverted:
                found.ended[why].append((memory, at))
        return found

    async def _endings_reverted(self, memories: Sequence[Memory]) -> set[tuple[str, str]]:
        ids = [memory.id for memory in memories]
        return await self._journal.read(state.endings_reverted, ids) if ids else set()

    def _endings(self, review: _Review) -> list[Planned]:
        """One decision for each owner and reason."""
        planned = []
        for why, ended in review.ended.items():
            self._counts[why] += len(ended)
            if why == "archived":
                self._count_archived([memory for memory, _ in ended])
            if self._request.dry_run:
                self._would_end += [memory.id for memory, _ in ended]
            owners: defaultdict[str | None, list[tuple[Memory, datetime]]] = defaultdict(list)
            for memory, at in ended:
                owners[memory.event.scope.user_id].append((memory, at))
            for mine in owners.values():
                changes: dict[str, StateChange] = {memory.id: {"ended_at": at, "ended": why} for memory, at in mine}
                planned.append(Planned(changes, self._reason(why), {m.id: m.state for m, _ in mine}, whole=False))
        return planned

    def _count_archived(self, memories: Sequence[Memory]) -> None:
        for memory in memories:
            self._archived["priority"][priority_of(memory.state)] += 1
            self._archived["trust"][memory.trust] += 1
            self._archived["importance"][label_of(memory.state.importance)] += 1

    def _reason(self, why: TimeUp) -> str:
        rules = self._rules
        return {
            "archived": f"archived: in no block for {rules.p1.days} days (P1) or {rules.p2.days} days (P2)",
            "expired": f"expired: lifetime ttl, {_worded(rules.ttl)} after it was said",
            "decayed": f"decayed: lifetime session, not used for {_worded(rules.idle)}",
            "retired": "retired: the time until which it is valid has passed",
        }[why]

    async def _merges(self, pairs: Sequence[tuple[Memory, Memory]]) -> list[Planned]:
        """One decision for each memory that says what another one says."""
        if not pairs:
            return []
        apart = await self._journal.read(state.kept_apart, list({memory.id for pair in pairs for memory in pair}))
        pairs = [(one, kept) for one, kept in pairs if not {(one.id, kept.id), (kept.id, one.id)} & apart]
        self._counts["consolidated"] += len(pairs)
        return [
            Planned(
                {one.id: {"merged_into": kept.id}},
                f"consolidated: it says the same as {kept.record.ref}",
                {one.id: one.state, kept.id: kept.state},
            )
            for one, kept in pairs
        ]

    async def _resolve(self, groups: Sequence[Sequence[Memory]]) -> None:
        """Resolve each conflict by a decision of its own, those of one page in one transaction."""
        reverted = await self._endings_reverted([member for group in groups for member in group])
        planned = []
        for group in groups:
            changes = settled(group, self._now)
            if any((id_, "lost") in reverted for id_, change in changes.items() if "ended" in change):
                continue
            self._counts["conflicts_resolved"] += len(group) - 1
            winner = best(group)
            why = f"conflict resolved: {winner.record.ref} is the most certain, or the newest of those that are"
            planned.append(Planned(changes, why, {member.id: member.state for member in group}))
        for first, after in pairwise([*range(0, len(planned), self._parts.page), len(planned)]):
            await self._decide(planned[first:after])

    async def _release(self) -> None:
        """Unmerge memories that have not ended from one that has.

        Not from one that lost a conflict or was archived: they say the same.
        """
        orphans = await self._journal.read(lifecycle.orphans, self._request.scope, self._would_end)
        free = {
            memory.id: memory
            for memory, why in orphans
            if why not in ("lost", "archived")
            and memory.state.ended_at is None
            and ending(memory, self._now, self._rules) is None
        }
        owners: defaultdict[str | None, dict[str, Memory]] = defaultdict(dict)
        for id_, memory in free.items():
            if memory.state.merged_into not in free:  # the others are merged into one of these
                owners[memory.event.scope.user_id][id_] = memory
        self._counts["released"] = sum(map(len, owners.values()))
        await self._decide(
            [
                Planned(
                    {id_: {"merged_into": None} for id_ in mine},
                    "released: the memory that it was merged into has ended",
                    {id_: memory.state for id_, memory in mine.items()},
                    whole=False,
                )
                for mine in owners.values()
            ]
        )

    async def _delete_expired(self) -> None:
        """Delete what expired. A dry run counts what would expire, too."""
        scope = self._request.scope
        if self._request.dry_run:
            there = await self._journal.read(lifecycle.expired, scope, -1)
            self._counts["deleted"] = len(there) + self._counts["expired"]
            return
        while there := await self._journal.read(lifecycle.expired, scope, self._parts.page):
            gone = await self._parts.delete([record.event.event_id for record in there])
            self._counts["deleted"] += gone
            if not gone:
                return


def _is_statement(memory: Memory, classify: Callable[[str], Kind]) -> bool:
    """Whether a memory may be merged with another: it is valid on its own, independent of where and when it was said.

    Turns, episodes, notes and parts of documents are events: saying "yes" twice is two of them.
    """
    event = memory.event
    kind = classify(event.text) if event.kind == "note" else event.kind
    return kind in STATEMENT_KINDS and event.place is None


def _apart(memory: Memory) -> tuple[object, ...]:
    """The fields in which two memories must agree to be merged."""
    event, state = memory.event, memory.state
    return event.scope, state.project, event.speaker, memory.trust, event.valid_from, event.valid_to


def _hours(count: float) -> timedelta:
    """So many hours, at least the shortest time that there is. Raises BadInput."""
    if not 0 < count <= MAX_TIME / timedelta(hours=1):
        raise BadInput("ttl_hours and idle_hours: give hours, more than 0 and at most a million")
    return max(timedelta(hours=count), timedelta.resolution)


def _worded(period: timedelta) -> str:
    return f"{period / timedelta(hours=1):g} h"


def step(
    run: Callable[[str, bool, Progress], Awaitable[Mapping[str, Any]]],
) -> Callable[[JobContext, str], Awaitable[None]]:
    """The step of the job for one tenant; ``run`` takes ``dry_run`` and the progress, and returns counts."""

    async def one(context: JobContext, tenant: str) -> None:
        found = await run(tenant, context.dry_run, context.report)
        context.add(found)
        for name, counts in found["archived_by"].items():
            added = context.result.setdefault("archived_by", {}).setdefault(name, {})
            added.update({key: added.get(key, 0) + count for key, count in counts.items()})

    return one
