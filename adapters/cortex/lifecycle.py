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
from hashlib import blake2b
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from adapters.cortex.conflict import free_orphans, restored
from adapters.cortex.port import Change, Graph, Memory
from adapters.index import vectors_of
from fusion.contract import STATEMENT_KINDS, Embedder, Scope
from fusion.errors import FusionError
from fusion.lib.conflict import best
from fusion.lib.jaccard import guard_words, jaccard
from fusion.lib.words import words

if TYPE_CHECKING:
    from datasketch import MinHash

PAGE = 500
"""memories read and written at a time"""
WINDOW = 50_000
"""memories compared with each other; a larger store is processed in windows of this size, oldest first"""
BANDS, ROWS = 8, 4
"""of a sketch: two memories of Jaccard similarity s are compared with probability 1 - (1 - s**4)**8, which is .99 at
.8 and .4 at .5; each further band costs 400 bytes a memory"""
PERMUTATIONS = BANDS * ROWS

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
    merger = MergeFinder(graph, embedder, rules.same, window) if find_spec("datasketch") else None
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
        merges = {} if merger is None else await merger.merged(review.comparable)
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
    """All memories in the order of their ids, ``size`` at a time, including those added meanwhile with later ids."""
    after = ""
    while page := await graph.page(after, size, scope):
        yield page
        after = page[-1].id


async def _settle(graph: Graph, group: Sequence[Memory], now: datetime) -> None:
    """Resolve a conflict. If the winner is deleted meanwhile, reinstate the best of the others."""
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


class MergeFinder:
    """Find near-duplicates among all memories passed so far: MinHash-LSH proposes pairs, which are then compared.

    Broder, "On the resemblance and containment of documents", 1997; Indyk and Motwani, "Approximate nearest
    neighbors", 1998. Memories that differ in owner, speaker, trust, validity, or in a negation, number or date, are
    never proposed: each sketch is XORed with a hash of those, which moves it to separate buckets.
    """

    def __init__(self, graph: Graph, embedder: Embedder | None, same: float, window: int) -> None:
        self._graph = graph
        self._embedder = embedder
        self._same = same
        self._window = window
        self._windows = 0
        self._fault = ""
        self._begin()

    def _begin(self) -> None:
        from datasketch import MinHashLSH

        self._windows += 1
        self._index = MinHashLSH(num_perm=PERMUTATIONS, params=(BANDS, ROWS))
        self._size = 0

    def notes(self) -> tuple[str, ...]:
        """Caveats for the counts."""
        notes = []
        if self._windows > 1:
            notes.append(
                f"near-duplicates were searched among {self._window:,} memories at a time, oldest first: "
                "memories further apart were not compared"
            )
        if self._fault:
            notes.append(f"near-duplicates were found by words alone, as the embedder failed: {self._fault}")
        return tuple(notes)

    async def merged(self, page: Sequence[Memory]) -> dict[str, Change]:
        """The merges for a page: changes to its memories, or earlier ones, that say what a better one says."""
        found: dict[str, Change] = {}
        sketches = {memory.id: self._sketch(memory) for memory in page}
        met = {memory.id: memory for memory in page}
        for memory in page:
            if self._size >= self._window:
                self._begin()
            near = [str(id_) for id_ in self._index.query(sketches[memory.id])]
            met |= await self._graph.get([id_ for id_ in near if id_ not in met])
            near = [id_ for id_ in near if id_ in met]
            if not (alike := await self._alike(memory, [met[id_] for id_ in near])):
                self._add(memory.id, sketches[memory.id])
                continue
            keeps = best([memory, *alike])
            found |= {one.id: {"merged_into": keeps.id} for one in (memory, *alike) if one is not keeps}
            for one in alike:
                if one is not keeps:
                    self._drop(one.id)
            if keeps is memory:
                self._add(memory.id, sketches[memory.id])
        return found

    def _sketch(self, memory: Memory) -> MinHash:
        from datasketch import MinHash

        said = words(memory.spoken)
        sketch = MinHash(num_perm=PERMUTATIONS)
        sketch.update_batch([word.encode("utf-8", "replace") for word in said])
        apart = repr((_apart(memory), sorted(guard_words(said)))).encode("utf-8", "replace")
        salt = int.from_bytes(blake2b(apart, digest_size=4).digest(), "big")
        sketch.hashvalues ^= salt
        return sketch

    def _add(self, id: str, sketch: MinHash) -> None:
        self._index.insert(id, sketch)
        self._size += 1

    def _drop(self, id: str) -> None:
        self._index.remove(id)
        self._size -= 1

    async def _alike(self, memory: Memory, others: Sequence[Memory]) -> list[Memory]:
        """The duplicates of ``memory`` among ``others``: their cosine, or else Jaccard similarity, is above
        ``same``."""
        others = [one for one in others if _may_be_one(memory, one)]
        if not others:
            return []
        cosines = await self._cosines(memory, [one.id for one in others])
        mine = words(memory.spoken)
        return [one for one in others if cosines.get(one.id, jaccard(mine, words(one.spoken))) > self._same]

    async def _cosines(self, memory: Memory, others: Sequence[str]) -> Mapping[str, float]:
        """Cosines by id, empty without an embedder; one that failed is not asked again in this run."""
        if self._embedder is None:
            return {}
        try:
            vectors = await vectors_of(self._embedder, [memory.spoken])
        except FusionError as error:
            self._embedder, self._fault = None, str(error)
            return {}
        return await self._graph.cosines(vectors[0], others)


def _may_be_one(a: Memory, b: Memory) -> bool:
    """Whether two memories may be merged; checked on the memories themselves, as buckets may collide."""
    return _apart(a) == _apart(b) and not guard_words(words(a.event.text) ^ words(b.event.text))


def _apart(memory: Memory) -> tuple[object, ...]:
    """The fields in which two memories must agree to be merged."""
    event = memory.event
    return event.scope, event.speaker, event.trust, event.valid_from, event.valid_to
