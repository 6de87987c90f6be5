"""A cache of a session's query candidates, so that a repeated query is answered at once: seed 000's pre-warm cache.

openclaw-cortex writes results into a file named by the session and returns them for the next turn, regardless of its
query. Here

- an entry serves the same session of the same user, for a query with the same terms in the same order: "How long is a
  slot held?" and "how long are slots held";
- an entry holds candidates, not results: memories are read, filtered by scope and time, and ranked again, with the
  cosines of the first query. If a memory is no longer visible, the query runs in full;
- every change of the store makes all entries stale; the session's last query then runs again in the background;
- the cache is in RAM, bounded in entries, bytes and time. The session id, which is external, is only part of a hash.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import blake2b

from adapters.cortex.recall import Pool
from fusion.contract import Query
from fusion.lib.bm25 import terms
from fusion.lib.jaccard import guard_words
from fusion.lib.words import words

MAX_ENTRIES = 128
MAX_BYTES = 4 << 20
"""maximum estimated bytes of all entries; one with fifty candidates a list takes some 50 kB"""
TTL = timedelta(minutes=5)
"""time for which an entry may be used (seed 000)"""
MAX_REFRESHED = 4
"""maximum sessions whose last query runs again after one batch"""

_BYTES_PER_CANDIDATE = 400
"""estimated bytes of a candidate, over all lists"""


@dataclass(frozen=True, slots=True)
class _Entry:
    query: Query
    history: bool
    generation: str
    pool: Pool
    size: int


class PrewarmCache:
    """The cache of one cortex; ``entries`` counts them, ``total`` is their estimated size in bytes."""

    def __init__(self) -> None:
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self.total = 0

    @property
    def entries(self) -> int:
        return len(self._entries)

    def get(self, query: Query, history: bool, generation: str | None) -> Pool | None:
        """The candidates of this query, if they are cached, at most 5 minutes old, and the store has not changed."""
        key = key_of(query, history)
        entry = None if key is None else self._entries.get(key)
        if key is None or entry is None:
            return None
        if entry.generation != generation or not timedelta(0) <= query.now - entry.query.now <= TTL:
            return None
        self._entries.move_to_end(key)
        return entry.pool

    def put(self, query: Query, history: bool, generation: str | None, pool: Pool) -> None:
        """Cache the candidates, if the query has a session, the store has a ``generation`` and nothing was cut off.

        ``generation`` is the store's before it was searched.
        """
        key = key_of(query, history)
        if key is None or generation is None or not pool.whole:
            return
        size = _BYTES_PER_CANDIDATE * len(pool.scores) + sum(len(part) for link in pool.links for part in link.path)
        self._drop(key)
        self._entries[key] = _Entry(query, history, generation, pool, size)
        self.total += size
        while len(self._entries) > MAX_ENTRIES or self.total > MAX_BYTES:
            self._drop(next(iter(self._entries)))

    def stale(self, sessions: Collection[str | None], now: datetime) -> Sequence[tuple[Query, bool]]:
        """The last query of each of these sessions, with its time set to ``now``; at most four."""
        last: dict[object, tuple[Query, bool]] = {}
        for entry in reversed(self._entries.values()):
            scope, age = entry.query.scope, now - entry.query.now
            if len(last) < MAX_REFRESHED and scope.session_id in sessions and timedelta(0) <= age <= TTL:
                last.setdefault(scope, (replace(entry.query, now=now), entry.history))
        return list(last.values())

    def _drop(self, key: bytes) -> None:
        if (entry := self._entries.pop(key, None)) is not None:
            self.total -= entry.size


def key_of(query: Query, history: bool) -> bytes | None:
    """The cache key: a hash of scope, times, filter and terms. ``None`` without a session or without terms."""
    asked = terms(query.text)
    if query.scope.session_id is None or not asked:
        return None
    parts = (
        query.scope,
        history,
        query.as_of,
        query.known_at,
        query.where,
        asked,
        sorted(guard_words(words(query.text))),
    )
    return blake2b(repr(parts).encode("utf-8", "backslashreplace"), digest_size=16).digest()
