"""The filter that every hit must pass: scope, time, trust, tombstones.

Backends were asked for this scope only; hits are checked again, so that a leaking backend cannot make the gateway leak.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple, Protocol

from fusion.contract import Event, Hit, Query, Scope, State, Trust
from fusion.lib.ids import external_ref
from fusion.lib.words import normalise

JOURNAL = "journal"
"""where memories come from that no backend found"""
TEXT_CHARS = 4_000
"""maximum characters of one hit; limits the work of later stages"""
MAX_VERSIONS = 8
"""newer versions of a memory that are looked at, one after the other"""


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
    have is external: it gets an `external_ref`, and only that backend vouches for it. So does a text that the backend
    changed after the journal recorded its own (`Hit.version_of`); the journal's follows it.
    """
    kept: list[Admitted] = []
    dropped: Counter[str] = Counter()
    for rank, hit in enumerate(hits, start=1):
        item = admit_one(backend, hit, rank, query, records)
        if not isinstance(item, Admitted):
            dropped[item] += 1
            continue
        kept.append(item)
        if item.hit.version_of is not None and (original := original_of(hit, records)) is not None:
            kept.append(_journalled(hit, original, rank, query))
    return tuple(kept), dropped


async def records_of(
    hits: Iterable[Hit], read: Callable[[Sequence[str]], Awaitable[Mapping[str, Record]]]
) -> Mapping[str, Record]:
    """The journal's records of the events that hits are, are versions of, or were derived from, as ``read`` gives them;
    also the newer versions of an event that a backend has another text of."""
    ids = dict.fromkeys(i for hit in hits for i in hit.event_ids)
    records = await read(list(ids)) if ids else {}
    changed = (records.get(hit.version_of) for hit in hits if hit.version_of is not None)
    versions = [one for one in changed if one is not None]
    for _ in range(MAX_VERSIONS):
        newer = {one.superseded_by for one in versions if one.superseded_by is not None} - records.keys()
        found = await read(sorted(newer)) if newer else {}
        if not found:
            break
        records = {**records, **found}
        versions = list(found.values())
    return records


def admit_one(backend: str, hit: Hit, rank: int, query: Query, records: Mapping[str, Record]) -> Admitted | str:
    """One hit as ``query`` may see it, or the reason for dropping it."""
    record = records.get(hit.event_id) if hit.event_id else None
    original = original_of(hit, records)
    if original is not None and not _is_newer_version(hit, original, query):
        record, original = original, None
        hit = replace(hit, recorded_at=None)
    reason = _refusal(hit, query, record or original)
    if reason is None and hit.derived_from:
        reason = _unsupported(hit, query, records)
    if reason is None and _is_left_out(hit, query, record):
        reason = "where"
    if reason is not None:
        return reason
    if record is not None:
        return _journalled(hit, record, rank, query)
    external = hit.external_to(backend)
    if original is not None and original.trust == "untrusted":
        external.trust = "untrusted"
    return Admitted(external_ref(backend, hit.native_id), external, rank)


def _journalled(found: Hit, record: Record, rank: int, query: Query) -> Admitted:
    return Admitted(record.ref, _as_journalled(found, record, query), rank, found)


def original_of(hit: Hit, records: Mapping[str, Record]) -> Record | None:
    """The journal's newest version of the memory that a backend has another text of; None where it has none."""
    record = records.get(hit.version_of) if hit.version_of else None
    for _ in range(MAX_VERSIONS):
        if record is None or record.superseded_by is None or (newer := records.get(record.superseded_by)) is None:
            break
        record = newer
    return record


def _words(text: str) -> list[str]:
    return normalise(text).split()


def _is_newer_version(hit: Hit, original: Record, query: Query) -> bool:
    """Whether a backend's text of a memory is another one than the journal's, was recorded later but not after now, and
    before the time that the query asks about."""
    said_at = original.said_at or original.event.recorded_at
    return (
        hit.recorded_at is not None
        and said_at < hit.recorded_at <= query.now
        and _words(hit.text) != _words(original.event.text[:TEXT_CHARS])
        and query.out_of_time(hit) is None
    )


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
    reasons = [hidden(records[i], query) if i in records else None for i in hit.derived_from]
    return reasons[0] if all(reasons) else None


def hidden(record: Record, query: Query, admitted: Scope | None = None) -> str | None:
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
    if record is not None and (reason := hidden(record, query, hit.scope)):
        return reason
    if query.as_of is None and query.known_at is None:  # most questions ask about now, and most memories have no end
        ends = hit.valid_to is not None or (record is not None and record.event.valid_to is not None)
        if not ends:
            return None
    if record is not None and (reason := query.out_of_time(record.event)):
        return reason
    return query.out_of_time(hit)
