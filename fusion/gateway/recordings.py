"""The recordings of the latest questions that asked for one, in memory alone, for replays with other numbers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from fusion.errors import NotFound
from fusion.recall.engine import FuseRequest
from fusion.recall.event_dates import EventTime
from fusion.recall.recording import Recording
from fusion.recall.shown_before import InContext
from fusion.recipe import Recipe

MAX_RECORDINGS = 8
KEPT_S = 600.0
MAX_BYTES = 64_000_000
"""estimated bytes of a tenant's recordings"""
_BYTES_OF_HIT = 1_000
"""an estimate of a hit without its text"""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A question with all input of its answer: what a replay needs."""

    request: FuseRequest
    recipe: Recipe
    context: InContext
    event: EventTime | None
    recording: Recording

    @property
    def receipt_id(self) -> str:
        return self.recording.receipt_id

    @property
    def bytes(self) -> int:
        """About how many bytes it takes."""
        one = self.recording
        hits = [*one.happened, *(hit for answer in one.answers.values() for hit in answer.hits)]
        hits += [hit for neighbours in one.neighbours.values() for hit in neighbours]
        texts = sum(len(hit.text) for hit in hits) + sum(len(record.event.text) for record in one.records.values())
        vectors = sum(match.nbytes for match in one.matches.values())
        return 2 * texts + vectors + _BYTES_OF_HIT * (len(hits) + len(one.records))


class Recordings:
    """The latest recordings of one tenant, by the id of the receipt, each kept for some minutes."""

    def __init__(self, kept_s: float = KEPT_S, max_bytes: int = MAX_BYTES) -> None:
        self._kept_s, self._max_bytes = kept_s, max_bytes
        self._kept: dict[str, Recorded] = {}
        self._sizes: dict[str, int] = {}
        self._ends: dict[str, asyncio.TimerHandle] = {}

    def keep(self, one: Recorded) -> None:
        """Keep a recording, and drop the oldest ones beyond the limits, itself if it is too large alone."""
        name = one.receipt_id
        self._kept[name], self._sizes[name] = one, one.bytes
        self._ends[name] = asyncio.get_running_loop().call_later(self._kept_s, self._drop, name)
        while len(self._kept) > MAX_RECORDINGS or sum(self._sizes.values()) > self._max_bytes:
            self._drop(next(iter(self._kept)))

    def of(self, receipt_id: str, user_id: str | None = None) -> Recorded:
        """The recording of an answer. Raises NotFound, also if ``user_id`` is given and another one asked."""
        one = self._kept.get(receipt_id)
        if one is None or (user_id is not None and one.request.scope.user_id != user_id):
            raise NotFound(
                f"there is no recording of {receipt_id}: only questions with record = true have one, the last "
                f"{MAX_RECORDINGS} of {self._kept_s / 60:g} minutes, until something is forgotten. Ask the question "
                f"again by POST /v1/ask with record = true"
            )
        return one

    def has(self, receipt_id: str) -> bool:
        """Whether an answer can be replayed."""
        return receipt_id in self._kept

    def clear(self) -> None:
        """Drop all: a memory in one of them may have been forgotten."""
        for name in [*self._kept]:
            self._drop(name)

    def _drop(self, name: str) -> None:
        del self._kept[name], self._sizes[name]
        self._ends.pop(name).cancel()
