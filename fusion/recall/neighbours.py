"""Reads the neighbours of ranked candidates, those of the best first, as many as the pool has room for.

Among many memories, two hundred candidates have twice as many neighbours as fit. Those without room are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from fusion.contract import Hit, Query
from fusion.recall.expand import Pooled, expand
from fusion.recall.filter import Admitted, Record, admit_one, records_of
from fusion.recall.rrf import Ranked
from fusion.recipe import DedupSettings, ExpandSettings

BackendHits = tuple[str, Sequence[Hit]]
"""a backend's name and its hits"""
SHARE = 0.5
"""share of the time left that a backend gets to read neighbours, in all portions together"""
LEAST = 16
"""candidates whose neighbours are read at a time: a few reads of many are cheaper than many of a few"""
MARGIN = 8
"""one neighbour in so many may say the same as another memory: as many more are read, as merging takes longer"""


class Reads(Protocol):
    """What this stage needs of `fusion.recall.engine.RecallIO`."""

    async def records(self, event_ids: Sequence[str]) -> Mapping[str, Record]: ...

    async def neighbours(
        self, finds: Sequence[tuple[str, str, Hit]], span: int, deadline_s: float
    ) -> Mapping[str, Sequence[Hit]]: ...


class Neighbours:
    """The neighbours of ranked candidates that were read so far.

    ``left_s`` is the time left of the question, in seconds.
    """

    def __init__(
        self, ranked: Sequence[Ranked], query: Query, io: Reads, left_s: Callable[[], float], span: int
    ) -> None:
        self._query, self._io, self._span = query, io, span
        self._left_s, self._spare_s = left_s, left_s() * (1 - SHARE)
        finds = [(r.candidate.ref, r.candidate.source_hits[0].backend, r.candidate.hit) for r in ranked]
        self._waiting = finds if span else []
        # What was found itself joins as no neighbour, so it need not be admitted again.
        self._seen: set[tuple[str, str | None]] = {("", hit.event_id) for _, _, hit in finds if hit.event_id}
        self.admitted: dict[str, list[Admitted]] = {}
        """those that may be shown, by the ref of their best candidate"""
        self.hits: list[BackendHits] = []
        """all, by the backend of their candidate"""
        self.records: dict[str, Record] = {}
        """the journal's records of them"""
        self.count = 0
        """those that may be shown"""

    @property
    def are_read(self) -> bool:
        """Whether those of all candidates are read."""
        return not self._waiting

    async def read(self, wanted: int | None = None) -> None:
        """Read until there are ``wanted`` that may be shown, or those of all candidates are read."""
        while self._waiting and (wanted is None or self.count < wanted):
            every = len(self._waiting)
            portion = every if wanted is None else max(LEAST, -(-(wanted - self.count) // (2 * self._span)))
            finds, self._waiting = self._waiting[:portion], self._waiting[portion:]
            found = await self._io.neighbours(finds, self._span, max(0.0, self._left_s() - self._spare_s))
            self.records |= await records_of([hit for hits in found.values() for hit in hits], self._io.records)
            for ref, backend, _ in finds:
                if ref in found:
                    self.hits.append((backend, found[ref]))
                    self._admit(ref, backend, found[ref])

    def _admit(self, ref: str, backend: str, hits: Sequence[Hit]) -> None:
        for hit in hits:
            # A turn can be a neighbour of several candidates: it counts once, with the best of them.
            identity = ("", hit.event_id) if hit.event_id in self.records else (backend, hit.native_id)
            if identity in self._seen:
                continue
            self._seen.add(identity)
            item = admit_one(backend, hit, len(self._seen), self._query, self.records)
            if isinstance(item, Admitted):
                self.admitted.setdefault(ref, []).append(item)
                self.count += 1


async def expanded(
    ranked: Sequence[Ranked],
    neighbours: Neighbours,
    numbers: ExpandSettings,
    rules: DedupSettings,
    happened: Sequence[Admitted] = (),
) -> tuple[Pooled, ...]:
    """The pool of `expand`, as if all neighbours were read."""
    room = numbers.max_pool - len(ranked) - len(happened)
    # At least one, even if there is no room: a recording gets the neighbours of all hits with the first.
    await neighbours.read(max(1, room + room // MARGIN))
    pool = expand(ranked, neighbours.admitted, numbers, rules, happened)
    if len(pool) < numbers.max_pool and not neighbours.are_read:  # many of them say the same as others
        await neighbours.read()
        pool = expand(ranked, neighbours.admitted, numbers, rules, happened)
    return pool
