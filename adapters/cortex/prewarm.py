"""What the questions of a session found, kept ready for the next one: seed 000's pre-warm cache.

The original writes a list into a file named by the session and reads it for the next turn, whatever that asks. Here

- it is used by the same session of the same user alone, for a question of the same terms in the same order: "How long
  is a slot held?" and "how long are slots held";
- it keeps what was looked at, not what came of it: the memories are read again, held against scope and time again, and
  ranked anew, by how near they are to the question that was asked first. A memory that may not be seen any more makes
  it look anew;
- whatever changes the store makes it stale at once, and the session's last question is then asked anew behind, so that
  the next one finds it ready;
- it lives in memory, bounded in entries, bytes and time. A session's id comes from outside: it is part of a hash, and
  never a name of anything.
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
from fusion.lib.jaccard import telling
from fusion.lib.words import words

ENTRIES = 128
BYTES = 4 << 20
"""about, of all entries; one of fifty candidates a list takes some 50 kB"""
KEPT = timedelta(minutes=5)
"""seed 000's"""
AGAIN = 4
"""sessions whose last question is asked anew after one batch"""

_OF_AN_ID = 400
"""bytes, about, that a candidate takes in all lists"""


@dataclass(frozen=True, slots=True)
class _Entry:
    query: Query
    history: bool
    generation: str
    pool: Pool
    size: int


class Warm:
    """The entries of one cortex. ``entries`` and ``total`` (bytes, about) are what it holds now."""

    def __init__(self) -> None:
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self.total = 0

    @property
    def entries(self) -> int:
        return len(self._entries)

    def get(self, query: Query, history: bool, generation: str | None) -> Pool | None:
        """What was looked at for such a question of this session, if nothing has changed since."""
        key = key_of(query, history)
        entry = None if key is None else self._entries.get(key)
        if key is None or entry is None:
            return None
        if entry.generation != generation or not timedelta(0) <= query.now - entry.query.now <= KEPT:
            return None
        self._entries.move_to_end(key)
        return entry.pool

    def put(self, query: Query, history: bool, generation: str | None, pool: Pool) -> None:
        """Keeps it where a session is named, the store stood still (``generation`` is from before it was looked at) and
        nothing was cut off."""
        key = key_of(query, history)
        if key is None or generation is None or not pool.whole:
            return
        size = _OF_AN_ID * len(pool.scores) + sum(len(part) for link in pool.links for part in link.path)
        self._drop(key)
        self._entries[key] = _Entry(query, history, generation, pool, size)
        self.total += size
        while len(self._entries) > ENTRIES or self.total > BYTES:
            self._drop(next(iter(self._entries)))

    def stale(self, sessions: Collection[str | None], now: datetime) -> Sequence[tuple[Query, bool]]:
        """The last question of each of these sessions, to be asked anew at ``now``; at most ``AGAIN``."""
        last: dict[object, tuple[Query, bool]] = {}
        for entry in reversed(self._entries.values()):
            scope, age = entry.query.scope, now - entry.query.now
            if len(last) < AGAIN and scope.session_id in sessions and timedelta(0) <= age <= KEPT:
                last.setdefault(scope, (replace(entry.query, now=now), entry.history))
        return list(last.values())

    def _drop(self, key: bytes) -> None:
        if (entry := self._entries.pop(key, None)) is not None:
            self.total -= entry.size


def key_of(query: Query, history: bool) -> bytes | None:
    """Names a question by whose it is, its time and its terms. ``None`` without a session, or a term."""
    asked = terms(query.text)
    if query.scope.session_id is None or not asked:
        return None
    meant = query.scope, history, query.as_of, query.known_at, asked, sorted(telling(words(query.text)))
    return blake2b(repr(meant).encode("utf-8", "backslashreplace"), digest_size=16).digest()
