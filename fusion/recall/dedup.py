"""Merges the backends' hits into distinct memories; each keeps all its source hits.

Two hits are the same memory if one of these holds, tested in this order: the same event; one's span contains the
other's and so do its words; the same content; a word-set Jaccard of 0.6 or more that the guard admits
(`fusion.lib.paraphrase`: no content word, name, negation, number or date differs, nor the order). Two memories that
the guard keeps apart are rivals. A fact and the event it was derived from are never the same memory.

Of several hits one is shown: the verbatim one, then one of the journal (only that can be forgotten by its ref), then
one whose document has most of the other memories, then the better ranked, then the one with the smaller ref.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from fusion.contract import Hit, document_of
from fusion.lib.paraphrase import Kind
from fusion.recall.document_place import PlaceIndex, in_one_document
from fusion.recall.filter import Admitted
from fusion.recall.near_duplicates import NearDuplicates, Texts
from fusion.recipe import DedupSettings


class SourceHit(NamedTuple):
    """A backend's hit of a memory: ``rank`` starts at 1, ``reason`` says why it is the same memory.

    ``graph_score`` is how strongly the backend's graph leads to it, 0 to 1, if it has a graph.
    """

    backend: str
    ref: str
    native_id: str
    rank: int
    score: float | None
    reason: str
    graph_score: float | None = None


class Rival(NamedTuple):
    """Another memory that shares most words and contradicts. ``kind`` says in what they differ.

    Of two `STRUCTURAL` rivals ``newer`` is the ref of the one that holds, asserted ``at`` then; None if both stand.
    """

    ref: str
    kind: Kind
    newer: str | None = None
    at: datetime | None = None


class Candidate(NamedTuple):
    """One memory with its source hits. ``hit`` is the one shown; of a pair of rivals either has the other."""

    ref: str
    hit: Hit
    source_hits: tuple[SourceHit, ...]
    rivals: tuple[Rival, ...] = ()
    last: datetime | None = None
    """date of its latest copy, of a memory with rivals and copies; see `_last_said`"""


_Found = tuple[Hit, SourceHit]


def dedup(
    answers: Mapping[str, Sequence[Admitted]], rules: DedupSettings, reworded: Collection[Texts] = ()
) -> tuple[Candidate, ...]:
    """The distinct memories of all ``answers``, best rank first; at most ``rules.max_candidates``.

    ``reworded`` are the pairs, of those in `AnsweredHits.doubtful`, that say the same in other words.
    """
    return AnsweredHits(answers, rules).candidates(reworded)


class AnsweredHits:
    """All hits of all answers, in the order in which they are compared."""

    def __init__(self, answers: Mapping[str, Sequence[Admitted]], rules: DedupSettings) -> None:
        hits = [(backend, item) for backend, items in answers.items() for item in items]
        hits.sort(key=lambda one: (bool(one[1].hit.derived_from), not _in_journal(one[1].hit), one[1].rank, one[1].ref))
        self._hits = hits
        self._max_candidates = rules.max_candidates
        self._distinct = DistinctHits(rules, [item.hit for _, item in hits])

    def doubtful(self) -> list[Texts]:
        """The pairs of texts that only a model can compare."""
        return self._distinct.similar.doubtful()

    def candidates(self, reworded: Collection[Texts] = ()) -> tuple[Candidate, ...]:
        """The distinct memories among the hits, best rank first."""
        distinct = self._distinct
        distinct.similar.reworded = reworded
        kept: dict[int, list[_Found]] = {}
        for i, (backend, item) in enumerate(self._hits):
            first, reason = distinct.find(i) or (i, "first seen")
            if first == i:
                if len(kept) >= self._max_candidates:
                    continue
                distinct.add(i)
                kept[i] = []
            kept[first].append((item.hit, _source_hit(backend, item, reason)))
        same = dict(zip(kept, _in_their_fullest_document(list(kept.values())), strict=True))
        rivals = {i: distinct.similar.rivals(i) for i in same}
        disputed = any(rivals.values())
        candidates = (
            Candidate(
                found[0][1].ref,
                found[0][0],
                tuple(source_hit for _, source_hit in found),
                tuple(Rival(same[j][0][1].ref, kind) for j, kind in rivals[i]),
                _last_said(found) if disputed and len(found) > 1 else None,
            )
            for i, found in same.items()
        )
        return tuple(sorted(candidates, key=lambda c: (min(s.rank for s in c.source_hits), c.ref)))


def _source_hit(backend: str, item: Admitted, reason: str) -> SourceHit:
    found = item.found or item.hit
    graph_score = None if item.hit.external else found.graph_score
    return SourceHit(backend, item.ref, found.native_id, item.rank, found.score, reason, graph_score)


def _in_their_fullest_document(same: list[list[_Found]]) -> list[list[_Found]]:
    """Each memory's hits, the one to show first: of equals the one whose document has most of the memories.

    Its neighbours are in that document. A copy that is alone in another file or store has lost them.
    """
    if all(in_one_document(found[0][0], hit) for found in same for hit, _ in found[1:]):
        return same
    memories = Counter(document for found in same for document in {document_of(hit) for hit, _ in found})

    def worse(one: _Found) -> tuple[bool, bool, int]:
        hit = one[0]
        return bool(hit.derived_from), not _in_journal(hit), -memories[document_of(hit)] if hit.place is not None else 0

    # The sort is stable: then by rank, then by ref.
    return [sorted(found, key=worse) if len(found) > 1 else found for found in same]


def _last_said(found: Sequence[_Found]) -> datetime | None:
    """The date of a memory's latest copy: of the journal's copies that are no tool's and not untrusted.

    Dates of events are compared with each other, and so are dates of recording; the recording of a file says nothing
    of when it was written.
    """
    shown = found[0][0]
    copies = [hit for hit, _ in found if _in_journal(hit) and hit.trust != "untrusted" and hit.origin != "tool"]
    if shown.at is not None:
        return max((hit.at.utc for hit in copies if hit.at is not None), default=None)
    if shown.place is not None:
        return None
    times = (hit.recorded_at for hit in copies if hit.at is None and hit.place is None)
    return max((time for time in times if time is not None), default=None)


def _in_journal(hit: Hit) -> bool:
    """Whether the journal has the hit's event: then it can be forgotten by its ref."""
    return hit.event_id is not None and not hit.external


def join(
    candidates: Sequence[Candidate], others: Iterable[tuple[str, Hit]], rules: DedupSettings
) -> tuple[Candidate, ...]:
    """Those of ``others`` (ref, hit) that are neither among ``candidates`` nor each other, as candidates."""
    waiting = list(others)
    if not waiting:
        return ()
    distinct = DistinctHits(rules, [*(c.hit for c in candidates), *(hit for _, hit in waiting)], since=len(candidates))
    for i in range(len(candidates)):
        distinct.add(i)
    new = []
    refs = {i: candidate.ref for i, candidate in enumerate(candidates)}
    for i, (ref, hit) in enumerate(waiting, start=len(candidates)):
        if distinct.find(i) is None:
            distinct.add(i)
            refs[i] = ref
            rivals = tuple(Rival(refs[j], kind) for j, kind in distinct.similar.rivals(i))
            new.append(Candidate(ref, hit, (), rivals))
    return tuple(new)


class DistinctHits:
    """The distinct memories so far, as indices into ``hits``; finds a hit's memory by event, place or words.

    Hits before ``since`` are distinct already and are not looked up.
    """

    def __init__(self, rules: DedupSettings, hits: Sequence[Hit], since: int = 0) -> None:
        self._hits = hits
        self._added: set[int] = set()
        self._events: dict[str, int] = {}
        self._places = PlaceIndex(hits)
        self.similar = NearDuplicates(rules, hits, since)

    def add(self, i: int) -> None:
        """Adds ``hits[i]`` as a memory of its own."""
        self._added.add(i)
        if event_id := self._hits[i].event_id:
            self._events[event_id] = i
        self._places.add(i)

    def find(self, i: int) -> tuple[int, str] | None:
        """The memory that ``hits[i]`` is, and the reason; None for a new one."""
        event_id = self._hits[i].event_id
        if event_id and (same := self._events.get(event_id)) is not None:
            return same, "same event"
        place = self._places.find(i)
        found = (place, "same span") if place is not None else self.similar.find(i, self._added)
        if found is not None and event_id:
            self._events[event_id] = found[0]
        return found
