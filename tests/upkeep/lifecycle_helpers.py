"""Memories in a journal with any state, and runs of the lifecycle over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from fusion.contract import Embedder, Event, Hit, Query, Scope, State, StateChange
from fusion.ingest.extract import classify, extract
from fusion.journal import Journal, lifecycle, state
from fusion.recall.filter import admit
from fusion.store.sqlite import Connection
from fusion.upkeep.lifecycle import Lifecycle, LifecycleRequest, Report
from tests.backend_contract import NOW, event_id, make_event

ADA, BEN = Scope(user_id="ada"), Scope(user_id="ben")
EVERYBODY = Scope(audience="private")
HOUR = timedelta(hours=1)


class Made(NamedTuple):
    """An event, and how its state differs from that of a new memory."""

    event: Event
    state: StateChange


def memory(n: int, text: str, state: StateChange | None = None, **fields: object) -> Made:
    """A statement of Ada's, a minute later than the one before."""
    return Made(make_event(n, text, **({"kind": "fact", "scope": ADA} | fields)), state or {})  # type: ignore[arg-type]


def said(n: int, ago: timedelta, text: str = "Tea is ready.", **state: object) -> Made:
    """A memory of Ada's that was recorded so long ago."""
    made = memory(n, text)
    return Made(replace(made.event, recorded_at=NOW - ago), StateChange(**state))  # type: ignore[typeddict-item]


def disputed(confidence: float, with_: int, group: str = "g") -> StateChange:
    return {
        "confidence": confidence,
        "conflict_group": group,
        "conflict_status": "active",
        "contradicts": event_id(with_),
    }


async def add(journal: Journal, *memories: Made) -> None:
    """Store memories, each also where its words are known."""
    await journal.append([made.event for made in memories], apart=True)

    def decide(db: Connection) -> None:
        for made in memories:
            if made.state:
                state.decide(db, {made.event.event_id: made.state}, "test", "as the test has it", NOW)

    await journal.write(decide)


async def nothing() -> None:
    """Waits for nothing."""


def over(journal: Journal, embedder: Embedder | None = None, *, window: int = 50_000, page: int = 500) -> Lifecycle:
    return Lifecycle(
        journal, embedder, nothing, journal.delete_expired, nothing, classify, extract, window=window, page=page
    )


async def tend(
    journal: Journal,
    embedder: Embedder | None = None,
    now: datetime = NOW,
    *,
    scope: Scope = EVERYBODY,
    dry_run: bool = False,
    delete_expired: bool = False,
) -> Report:
    """The report of a run, without the name of the run."""
    request = LifecycleRequest(scope, dry_run, delete_expired=delete_expired)
    return replace(await over(journal, embedder).run(request, now), run="")


async def states(journal: Journal) -> Mapping[int, State]:
    """The states of all current memories, by number."""
    page = await journal.read(lifecycle.page, EVERYBODY, 0, 1000)
    return {int(one.id[-12:], 16): one.state for one in page}


async def found(
    journal: Journal, numbers: Sequence[int], *, now: datetime = NOW, as_of: datetime | None = None
) -> set[int]:
    """Those of these memories that a question of Ada's sees when a backend answers all of them."""
    records = await journal.records([event_id(n) for n in numbers])
    query = Query("tea", ADA, now, as_of=as_of)
    admitted, _ = admit("any", [Hit.of(record.event) for record in records.values()], query, records)
    return {int((item.hit.event_id or "")[-12:], 16) for item in admitted}
