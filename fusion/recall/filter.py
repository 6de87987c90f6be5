"""The filter that every hit must pass: scope, time, trust, tombstones.

Backends were asked for this scope only; hits are checked again, so that a leaking backend cannot make the gateway leak.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from fusion.contract import Event, Hit, Query, Scope, State, Trust
from fusion.lib.ids import external_ref

JOURNAL = "journal"
"""where memories come from that no backend found"""
TEXT_CHARS = 4_000
"""maximum characters of one hit; limits the work of later stages"""


class Record(Protocol):
    """The journal's record of an event: its ref, and whether it was forgotten or superseded."""

    @property
    def ref(self) -> str: ...
    @property
    def event(self) -> Event: ...
    @property
    def hit(self) -> Hit:
        """The event as a hit."""
        ...

    @property
    def forgotten(self) -> bool: ...
    @property
    def superseded_by(self) -> str | None: ...
    @property
    def said_at(self) -> datetime | None:
        """The time when it was last remembered, if more than once."""
        ...

    @property
    def state(self) -> State: ...
    @property
    def trust(self) -> Trust:
        """The trust that its state gives it, else that of the event."""
        ...


class Admitted(NamedTuple):
    """A hit that may be shown, with the ref that cites it. ``rank`` is the backend's and starts at 1.

    ``found`` is the backend's own hit, with native id and score; None if ``hit`` is that.
    """

    ref: str
    hit: Hit
    rank: int
    found: Hit | None = None


def admit(
    backend: str, hits: Sequence[Hit], query: Query, records: Mapping[str, Record]
) -> tuple[tuple[Admitted, ...], Mapping[str, int]]:
    """The hits of one backend that ``query`` may see, in their order, and the number dropped by reason.

    ``records`` are the journal's records of the events. Their text, place, speaker, times, scope and trust are shown,
    regardless of what the backend sends; the backend adds its rank and score. A hit whose event the journal does not
    have is external: it gets an `external_ref`, and only that backend vouches for it.
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
    """One hit as ``query`` may see it, or the reason for dropping it."""
    record = records.get(hit.event_id) if hit.event_id else None
    reason = _refusal(hit, query, record)
    if reason is None and hit.derived_from:
        reason = _unsupported(hit, query, records)
    if reason is None and _is_left_out(hit, query, record):
        reason = "where"
    if reason is not None:
        return reason
    if record is None:
        return Admitted(external_ref(backend, hit.native_id), hit.external_to(backend), rank)
    return Admitted(record.ref, _as_journalled(hit, record, query), rank, hit)


def _is_left_out(hit: Hit, query: Query, record: Record | None) -> bool:
    """Whether the query's ``where`` leaves a hit out. The journal knows an event; the backend may know its note."""
    if not query.where:
        return False
    if record is None:
        return not query.where.admits(hit)
    known = record.hit.found_as(hit)
    known.properties = hit.properties
    return not query.where.admits(known, record.state.tags)


def _as_journalled(found: Hit, record: Record, query: Query) -> Hit:
    """The journal's version of a hit; usually the record's own hit object.

    Of a text longer than `TEXT_CHARS` it has the part around the found text. An event that was remembered several times
    is recorded at the last of them, unless that is after the time that the query asks about.
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


def _unsupported(hit: Hit, query: Query, records: Mapping[str, Record]) -> str | None:
    """The reason why this query may see no source of a fact, or None. A source that the journal lacks supports it."""
    if hit.event_id is not None or not hit.derived_from:
        return None
    reasons = [_hidden(records[i], query) if i in records else None for i in hit.derived_from]
    return reasons[0] if all(reasons) else None


def _hidden(record: Record, query: Query, admitted: Scope | None = None) -> str | None:
    """The journal's reason for hiding an event, or None. ``admitted`` is a scope that the query admits."""
    if record.forgotten:
        return "forgotten"
    if record.event.scope is not admitted and not query.scope.admits(record.event.scope):
        return "scope"
    if record.superseded_by is not None and query.as_of is None and query.known_at is None:
        return "superseded"
    if query.known_at is not None and record.event.recorded_at > query.known_at:
        return "not yet recorded then"
    return hidden_by_state(record.state, query) or ("quarantined" if record.trust == "quarantined" else None)


_ENDED = {"lost": "lost a conflict"}


def hidden_by_state(state: State, query: Query) -> str | None:
    """The reason why a memory's state hides it from a question, or None.

    A question about an earlier time sees what had not ended then, and both of two memories that say the same: the
    other one may be later. To others, what has ended has ended, also when the clock went back since.
    """
    if state.merged_into is not None and query.as_of is None and query.known_at is None:
        return "merged"
    if query.archived and state.ended == "archived":
        return None
    if state.ended_at is not None and (query.as_of is None or state.ended_at <= query.as_of):
        return _ENDED.get(state.ended or "", state.ended) or "no longer current"
    return None


def _refusal(hit: Hit, query: Query, record: Record | None) -> str | None:
    """The reason for dropping a hit, or None."""
    if not query.scope.admits(hit.scope):
        return "scope"
    if hit.trust == "quarantined":
        return "quarantined"
    if record is not None and (reason := _hidden(record, query, hit.scope)):
        return reason
    if query.as_of is None and query.known_at is None:  # most questions ask about now, and most memories have no end
        ends = hit.valid_to is not None or (record is not None and record.event.valid_to is not None)
        if not ends:
            return None
    if record is not None and (reason := query.out_of_time(record.event)):
        return reason
    return query.out_of_time(hit)
