"""The reference backend: the most common abilities in about 100 lines, in memory only. For demos and tests.

Ranks by BM25 (Robertson & Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009) over stems, with
the usual k1 = 1.2 and b = 0.75, computed anew for each query: fast enough for a few thousand memories.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from math import log
from typing import Self

from adapters.options import EMBEDDED_FEATURES
from fusion.contract import Description, Event, Extracted, Forgotten, Hit, Opening, Query
from fusion.lib.words import spoken, stems

K1, B = 1.2, 0.75


class InMemory:
    """Remembers events in a dict. The native id of a memory is its event's id."""

    features = EMBEDDED_FEATURES

    def __init__(self) -> None:
        self._hits: dict[str, Hit] = {}
        self._terms: dict[str, Counter[str]] = {}
        self.uses: Counter[str] = Counter()

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        return cls()

    async def search(self, query: Query) -> Sequence[Hit]:
        asked = set(stems(query.text))
        visible = {i: self._terms[i] for i, hit in self._hits.items() if query.admits(hit)}
        mean = sum(terms.total() for terms in visible.values()) / max(1, len(visible)) or 1.0
        idf = {}
        for term in asked:
            holders = sum(term in terms for terms in visible.values())
            idf[term] = log(1 + (len(visible) - holders + 0.5) / (holders + 0.5))
        scores = {
            i: sum(
                idf[t] * terms[t] * (K1 + 1) / (terms[t] + K1 * (1 - B + B * terms.total() / mean))
                for t in sorted(asked & terms.keys())
            )
            for i, terms in visible.items()
            if asked & terms.keys()
        }
        best = sorted(scores, key=lambda i: (-scores[i], i))[: query.limit]
        return [self._hits[i].scored(scores[i]) for i in best]

    def accepts(self, event: Event) -> bool:
        return True

    async def remember(self, batch: Sequence[Extracted]) -> Sequence[tuple[str, ...]]:
        for extracted in batch:
            event = extracted.event
            self._hits[event.event_id] = Hit.of(event)
            self._terms[event.event_id] = Counter(stems(spoken(event.text, event.speaker)))
        return [(extracted.event.event_id,) for extracted in batch]

    async def forget(self, event_id: str, native_ids: Sequence[str]) -> Forgotten:
        known = self._hits.keys() & {event_id, *native_ids}
        for native_id in known:
            del self._hits[native_id], self._terms[native_id]
        return "deleted" if known else "absent"

    async def neighbours(self, hits: Sequence[Hit], span: int) -> Sequence[Sequence[Hit]]:
        return [self._neighbours(hit, span) for hit in hits]

    def _neighbours(self, hit: Hit, span: int) -> list[Hit]:
        if hit.place is None:
            return []
        document = [
            (other.place.start, other.place.end, i, other)
            for i, other in self._hits.items()
            if other.place and other.place.document == hit.place.document and other.scope == hit.scope
        ]
        document.sort(key=lambda entry: entry[:3])
        ids = [i for _, _, i, _ in document]
        if hit.native_id not in ids:
            return []
        here = ids.index(hit.native_id)
        near = document[max(0, here - span) : here] + document[here + 1 : here + 1 + span]
        return [other for *_, other in near]

    async def used(self, native_ids: Sequence[str], at: datetime) -> None:
        self.uses.update(i for i in native_ids if i in self._hits)

    async def describe(self) -> Description:
        return Description(items=len(self._hits))

    async def settle(self) -> None:
        """Returns at once: there is no background work."""

    async def close(self) -> None:
        """Nothing to release."""
