"""Builders of small values for the tests of the read path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from fusion.calibration import Calibration, SortWeights, weights_hash
from fusion.contract import NEW, Event, Hit, Moment, Place, Query, Scope, State, Trust
from fusion.recall.dedup import Candidate, SourceHit
from fusion.recall.expand import Pooled
from fusion.recall.filter import Admitted
from fusion.recall.rerank import Scored
from fusion.recall.signals import Signals, SignalTable

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
WEIGHTS = {"window3": 3, "window5": 3, "similarity": 6, "bm25": 2, "fusion": 1}
MINILM = Calibration(
    "all-MiniLM-L6-v2-int8@8199be6f",
    weights_hash(WEIGHTS),
    turn=SortWeights(-11.13, 10.17, 6.68, -0.59, -1.05, 0.61, -0.98, -4.06),
    long_turn=SortWeights(-7.30, -0.87, 6.67, -0.39),
    note=SortWeights(-9.34, 8.52, 3.90, lead=13.52),
)
"""a calibration for a model and ``WEIGHTS``"""


def query(text: str = "what did we decide", scope: Scope | None = None, **more: datetime) -> Query:
    return Query(text=text, scope=scope or Scope(), now=NOW, **more)


def turn(position: int, text: str, speaker: str | None = None, document: str = "talk", **more: object) -> Hit:
    place = Place(document, position, position)
    return Hit(native_id=f"n{position}", text=text, speaker=speaker, place=place, **more)  # type: ignore[arg-type]


def standalone(native_id: str, text: str, **more: object) -> Hit:
    return Hit(native_id=native_id, text=text, **more)  # type: ignore[arg-type]


def admitted(*hits: Hit, refs: str = "") -> tuple[Admitted, ...]:
    """Admitted hits in this order, with these refs (one letter each) or their native ids."""
    return tuple(
        Admitted(refs[i] if refs else hit.native_id, hit, rank) for i, (rank, hit) in enumerate(enumerate(hits, 1))
    )


def found_by(ref: str, hit: Hit, **ranks: int) -> Candidate:
    return Candidate(
        ref, hit, tuple(SourceHit(name, ref, ref, rank, None, "first seen") for name, rank in ranks.items())
    )


def pooled(ref: str, hit: Hit, rrf: float = 0.0) -> Pooled:
    return Pooled(found_by(ref, hit), rrf, {})


def scored(ref: str, hit: Hit, local: float, judge: float | None = None, signals: Signals | None = None) -> Scored:
    return Scored(pooled(ref, hit), SignalTable.of([signals or {}]), 0, local, judge)


def at(text: str) -> Moment:
    return Moment(datetime.fromisoformat(text).replace(tzinfo=UTC))


@dataclass(frozen=True)
class StoredRecord:
    """A record as the journal gives it."""

    ref: str
    event: Event
    forgotten: bool = False
    superseded_by: str | None = None
    said_at: datetime | None = None
    state: State = NEW

    @property
    def hit(self) -> Hit:
        hit = Hit.of(self.event)
        hit.stated_by = self.event.stated_by
        hit.trust = self.trust
        return hit

    @property
    def trust(self) -> Trust:
        return self.state.trust or self.event.trust


def record(event_id: str, text: str = "", scope: Scope | None = None, **more: object) -> StoredRecord:
    """A record; other fields are those of its event."""
    of_record = {name: more.pop(name) for name in ("forgotten", "superseded_by", "said_at", "state") if name in more}
    event = Event(event_id=event_id, text=text, recorded_at=NOW, scope=scope or Scope(), **more)  # type: ignore[arg-type]
    return StoredRecord(ref=f"m{event_id}", event=event, **of_record)  # type: ignore[arg-type]


def by_id(*records: StoredRecord) -> Mapping[str, StoredRecord]:
    return {r.event.event_id: r for r in records}
