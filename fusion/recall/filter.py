"""The one filter that everything passes on its way in: scope, time, trust, tombstones.

A backend was already asked for this scope only; it is checked again here, because a backend that leaks must not
make the gateway leak.
"""

from __future__ import annotations

from base64 import b32encode
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple, Protocol

from fusion.contract import Event, Hit, Query

TEXT_CHARS = 4_000
"""of one hit; a flood of words must not become a flood of work in the later stages"""


class Record(Protocol):
    """What the journal knows of an event: its ref, and whether it was forgotten or superseded since."""

    @property
    def ref(self) -> str: ...
    @property
    def event(self) -> Event: ...
    @property
    def hit(self) -> Hit:
        """The event as what a search finds."""
        ...

    @property
    def forgotten(self) -> bool: ...
    @property
    def superseded_by(self) -> str | None: ...
    @property
    def said_at(self) -> datetime | None:
        """When it was remembered for the last time, if more than once."""
        ...


class Admitted(NamedTuple):
    """A hit that may be shown, under the ref that cites it. ``rank`` starts at 1 and is the backend's own.

    ``found`` is the hit as the backend found it, with its native id and score; without it, ``hit`` is.
    """

    ref: str
    hit: Hit
    rank: int
    found: Hit | None = None


def admit(
    backend: str, hits: Sequence[Hit], query: Query, records: Mapping[str, Record]
) -> tuple[tuple[Admitted, ...], Mapping[str, int]]:
    """The hits of one backend that ``query`` may see, in their order, and how many were dropped for which reason.

    ``records`` has the journal's word on each event that came through the gateway: its text, place, speaker, times,
    scope and trust are shown, whatever the backend says of them; the backend adds its rank and score. A hit whose
    event the journal does not know is foreign, has a `external_ref`, and is the word of that backend alone.
    """
    kept: list[Admitted] = []
    dropped: Counter[str] = Counter()
    for rank, hit in enumerate(hits, start=1):
        item = admit_one(backend, hit, rank, query, records)
        if isinstance(item, Admitted):
            kept.append(item)
        else:
            dropped[item] += 1
    return tuple(kept), dropped


def admit_one(backend: str, hit: Hit, rank: int, query: Query, records: Mapping[str, Record]) -> Admitted | str:
    """One hit as ``query`` may see it, or the reason why it may not."""
    record = records.get(hit.event_id) if hit.event_id else None
    reason = _refusal(hit, query, record)
    if reason is None and hit.derived_from:
        reason = _unsupported(hit, query, records)
    if reason is not None:
        return reason
    if record is None:
        return Admitted(external_ref(backend, hit.native_id), hit.external_to(backend), rank)
    return Admitted(record.ref, _as_journalled(hit, record, query), rank, hit)


def _as_journalled(found: Hit, record: Record, query: Query) -> Hit:
    """What a backend found of an event, as the journal has that event: mostly the very hit that the journal makes.

    Of a text longer than `TEXT_CHARS` it is the part around what was found. What was remembered several times counts as
    recorded when it was remembered last, unless that was after the time that is asked about.
    """
    said_at = record.said_at
    if said_at is not None and any(asked is not None and said_at > asked for asked in (query.as_of, query.known_at)):
        said_at = None
    if said_at is None and not found.path and len(record.event.text) <= TEXT_CHARS:
        return record.hit
    hit = record.hit.found_as(found)
    if said_at is not None:
        hit.recorded_at = said_at
    if len(hit.text) > TEXT_CHARS:
        at = hit.text.find(found.text)
        begin = max(0, at - (TEXT_CHARS - len(found.text)) // 2) if at >= 0 else 0
        hit.text = hit.text[begin : begin + TEXT_CHARS]
    return hit


@lru_cache(maxsize=65_536)
def external_ref(backend: str, native_id: str) -> str:
    """What cites a memory that did not come through the gateway: ``x`` and ten characters.

    A hash of (backend, native id), because a citation must be short where native ids are paths and UUIDs: 50 bits keep
    a million memories apart. The receipt has the backend and the native id behind it.
    """
    digest = blake2b(f"{backend}\0{native_id}".encode("utf-8", "replace"), digest_size=7).digest()
    return "x" + b32encode(digest).decode().lower()[:10]


def _unsupported(hit: Hit, query: Query, records: Mapping[str, Record]) -> str | None:
    """Why a fact has no source left that this query may see, or None. A source unknown to the journal supports it."""
    if hit.event_id is not None or not hit.derived_from:
        return None
    reasons = [_silenced(records[i], query) if i in records else None for i in hit.derived_from]
    return reasons[0] if all(reasons) else None


def _silenced(record: Record, query: Query) -> str | None:
    """Why the journal does not let an event be shown, or None."""
    if record.forgotten:
        return "forgotten"
    if not query.scope.admits(record.event.scope):
        return "scope"
    if record.superseded_by is not None and query.as_of is None and query.known_at is None:
        return "superseded"
    if query.known_at is not None and record.event.recorded_at > query.known_at:
        return "not yet recorded then"
    return None


def _refusal(hit: Hit, query: Query, record: Record | None) -> str | None:
    """Why a hit may not be shown, or None."""
    if not query.scope.admits(hit.scope):
        return "scope"
    if hit.trust == "quarantined":
        return "quarantined"
    if record is not None:
        if reason := _silenced(record, query):
            return reason
        if record.event.trust == "quarantined":
            return "quarantined"
        if reason := query.out_of_time(record.event):
            return reason
    return query.out_of_time(hit)
