"""The lifecycle of memories that only a cortex has, in seed 000's order.

Expire → decay → retire → consolidate → resolve conflicts.

Nothing is deleted: an ended memory keeps its row and its end time, for history and questions about the past. Decisions
depend on the store and the clock alone and are written page by page. So the next run finishes one that was killed, and
a run with nothing to do changes nothing.

The first pass notes which memories a newer version replaces, the second decides. Last, memories that outlive the one
that they were merged into are unmerged. RAM holds the texts of one page, a sketch of each memory that may have a
near-duplicate (at most `WINDOW`), and the members of open conflicts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib.util import find_spec
from typing import Literal

from adapters.cortex.conflict import free_orphans, restored
from adapters.cortex.port import Change, Graph, Memory
from fusion.contract import STATEMENT_KINDS, Embedder, Scope
from fusion.lib.conflict import best
from fusion.lib.merge_finder import WINDOW, MergeFinder

PAGE = 500
"""memories read and written at a time"""

UNSKETCHED = 'near-duplicates were not searched: pip install "/path/to/checkout[upkeep]"'

Ending = Literal["expired", "decayed", "retired"]
Progress = Callable[[int, int | None], None]
Leave = Callable[[Sequence[str]], Awaitable[Collection[str]]]


@dataclass(frozen=True, slots=True)
class Rules:
    """When a memory ends, and which memories say the same (seed 000)."""

    ttl: timedelta = timedelta(hours=720)
    """of a memory with the lifetime ``ttl``, counted from when it was recorded"""
    idle: timedelta = timedelta(hours=24)
    """time without use after which a ``session`` memory ends"""
    same: float = 0.92
    """cosine above which two permanent memories say the same; without an embedder, Jaccard similarity of words"""


@dataclass(frozen=True, slots=True)
class Report:
    """Numbers of memories that a run changed, or with ``dry_run`` would change."""

    expired: int = 0
    decayed: int = 0
    consolidated: int = 0
    retired: int = 0
    conflicts_resolved: int = 0
    scanned: int = 0
    dry_run: bool = False
    notes: tuple[str, ...] = ()


def ending(memory: Memory, now: datetime, rules: Rules) -> tuple[Ending, datetime] | None:
    """Why and when a memory ended, None if it has not by ``now``. A clock that went back ends nothing."""
    state, event = memory.state, memory.event
    deadlines: list[tuple[Ending, datetime]] = []
    if state.lifetime == "ttl":
        deadlines.append(("expired", event.recorded_at + rules.ttl))
    if state.lifetime == "session":
        deadlines.append(("decayed", max(event.recorded_at, state.last_accessed or event.recorded_at) + rules.idle))
    if event.valid_to is not None:
        deadlines.append(("retired", event.valid_to))
    return next(((why, at) for why, at in deadlines if at <= now), None)


def _is_comparable_kind(memory: Memory) -> bool:
    return memory.kind in STATEMENT_KINDS and memory.event.place is None


def settled(group: Sequence[Memory], now: datetime) -> dict[str, Change]:
    """The changes that resolve a conflict: its best member stays current, the others end."""
    winner = best(group)
    return {
        member.id: {"conflict_status": None} if member is winner else {"conflict_status": "resolved", "ended_at": now}
        for member in group
    }


async def tend(
    graph: Graph,
    embedder: Embedder | None,
    now: datetime,
    rules: Rules | None = None,
    *,
    scope: Scope | None = None,
    dry_run: bool = False,
    progress: Progress = lambda done, total: None,
    window: int = WINDOW,
    leave: Leave | None = None,
) -> Report:
    """Run the lifecycle over the memories that ``scope`` admits, or all. May be stopped anywhere and run again.

    Near-duplicates are searched among ``window`` memories at a time. The report's notes say if there was more than one
    window, and if words decided because the embedder failed. ``leave`` returns those of these memories that are left
    alone.
    """
    rules = rules or Rules()
    merger = None
    if find_spec("datasketch"):
        merger = MergeFinder(graph.get, _apart, lambda one: one.extraction, embedder, rules.same, window)
    counts: Counter[str] = Counter()
    superseded, total = await _superseded_and_total(graph, scope)
    conflicts: defaultdict[str, list[Memory]] = defaultdict(list)
    merged_into: dict[str, str] = {}
    passed = 0
    async for whole in pages(graph, scope):
        left = await leave([memory.id for memory in whole]) if leave is not None else ()
        page = [memory for memory in whole if memory.id not in left]
        review = _review(page, now, rules, superseded)
        counts.update(why for why, _ in review.ended.values())
        changes: dict[str, Change] = {id_: {"ended_at": at} for id_, (_, at) in review.ended.items()}
        merged_into |= review.merged_into
        for group, member in review.disputed:
            conflicts[group].append(member)
        pairs = [] if merger is None else await merger.pairs(review.comparable)
        merges: dict[str, Change] = {one.id: {"merged_into": kept.id} for one, kept in pairs}
        counts.update(consolidated=len(merges), scanned=len(page))
        changes |= merges
        if not dry_run and changes:
            await graph.alter(changes)
            await free_orphans(graph, {id_: into for id_, one in changes.items() if (into := one.get("merged_into"))})
        passed += len(whole)
        progress(passed, total)
    counts["conflicts_resolved"] = sum(len(group) - 1 for group in conflicts.values())
    if not dry_run:
        for members in conflicts.values():
            await _settle(graph, members, now)
        await _free_survivors(graph, merged_into)
    return Report(**counts, dry_run=dry_run, notes=(UNSKETCHED,) if merger is None else merger.notes())


@dataclass(frozen=True, slots=True)
class _Review:
    """What the lifecycle finds in a page of memories."""

    ended: dict[str, tuple[Ending, datetime]] = field(default_factory=dict)
    merged_into: dict[str, str] = field(default_factory=dict)
    """merged memories that have not ended, and their targets"""
    disputed: list[tuple[str, Memory]] = field(default_factory=list)
    """the members of open conflicts, each with its group; they are never merged"""
    comparable: list[Memory] = field(default_factory=list)
    """those that may have near-duplicates"""


def _review(page: Sequence[Memory], now: datetime, rules: Rules, superseded: Collection[str]) -> _Review:
    found = _Review()
    for memory in page:
        state = memory.state
        if state.ended_at is not None:
            continue
        over = ending(memory, now, rules)
        if state.merged_into is not None:
            if over is None:
                found.merged_into[memory.id] = state.merged_into
        elif over is not None:
            found.ended[memory.id] = over
        elif state.conflict_group is not None:
            if state.conflict_status == "active":
                found.disputed.append((state.conflict_group, memory))
        elif state.lifetime == "permanent" and memory.id not in superseded and _is_comparable_kind(memory):
            found.comparable.append(memory)
    return found


async def _superseded_and_total(graph: Graph, scope: Scope | None) -> tuple[set[str], int]:
    """The ids that a newer memory supersedes, and the number of memories."""
    superseded: set[str] = set()
    total = 0
    async for page in pages(graph, scope):
        superseded |= {memory.event.supersedes for memory in page if memory.event.supersedes is not None}
        total += len(page)
    return superseded, total


async def pages(graph: Graph, scope: Scope | None = None, size: int = PAGE) -> AsyncIterator[Sequence[Memory]]:
    """All memories in the order of their ids, ``size`` at a time, also those added during the scan with later ids."""
    after = ""
    while page := await graph.page(after, size, scope):
        yield page
        after = page[-1].id


async def _settle(graph: Graph, group: Sequence[Memory], now: datetime) -> None:
    """Resolve a conflict. If the winner has been deleted, reinstate the best of the others."""
    await graph.alter(settled(group, now))
    left = await graph.get([member.id for member in group])
    if stands_in := restored([member for member in group if member.id not in left], list(left.values())):
        await graph.alter(stands_in)


async def _free_survivors(graph: Graph, merged_into: Mapping[str, str]) -> None:
    """Unmerge memories whose target ended while they have not, unless the target lost a conflict: they say the same."""
    pairs = list(merged_into.items())
    for first in range(0, len(pairs), PAGE):
        some = pairs[first : first + PAGE]
        into = await graph.get(list({one for _, one in some}))
        over = {m.id for m in into.values() if m.state.ended_at and m.state.conflict_status != "resolved"}
        freed: dict[str, Change] = {id_: {"merged_into": None} for id_, one in some if one in over}
        if freed:
            await graph.alter(freed)


def _apart(memory: Memory) -> tuple[object, ...]:
    """The fields in which two memories must agree to be merged."""
    event = memory.event
    return event.scope, event.speaker, event.trust, event.valid_from, event.valid_to
