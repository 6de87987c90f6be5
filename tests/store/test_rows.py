"""The columns of an event: every field comes back from every store that keeps events."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from adapters.cortex import Cortex
from adapters.markdown import Markdown
from adapters.mem0 import Mem0
from adapters.triples import Triples
from adapters.vector_sqlite import VectorSqlite
from fusion.contract import (
    KINDS,
    Event,
    Extracted,
    Hit,
    ListsEvents,
    Moment,
    Opening,
    Origin,
    Place,
    Scope,
    Trust,
    Where,
)
from fusion.journal import Journal
from fusion.store.rows import EVENT_COLUMNS, INSERT_EVENT, event_of, event_row, fits, hit_of, microseconds, time_of
from fusion.store.sqlite import Database
from tests.backend_contract import event_id

names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)
times = st.datetimes(datetime(1, 1, 2), datetime(9999, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
maybe = st.none() | names

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "event_id": names,
    "text": st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=50),
    "recorded_at": times,
    "scope": st.builds(Scope, names, maybe, maybe, maybe, maybe, maybe, st.sampled_from(["private", "group"])),
    "kind": st.sampled_from(KINDS),
    "raw_kind": maybe,
    "speaker": maybe,
    "at": st.none() | st.builds(Moment, times, st.sampled_from(["second", "day", "year"]), maybe),
    "place": st.none()
    | st.builds(Place, names, st.integers(-5, 2**62), st.integers(-5, 2**62), st.sampled_from(["turn", "line"])),
    "source": maybe,
    "revision": st.just("") | names,
    "trust": st.sampled_from(get_args(Trust)),
    "origin": st.sampled_from(get_args(Origin)),
    "valid_from": st.none() | times,
    "valid_to": st.none() | times,
    "supersedes": maybe,
    "derived_from": st.lists(names, max_size=3).map(tuple),
    "stated": st.just(()),
    "file": st.none(),
}
"""by field of an event, how a store changes it; only the journal stores ``stated`` and ``file``"""

events = st.builds(Event, **VALUES)


def test_every_field_of_an_event_is_generated() -> None:
    """A field that is added to `Event` is added to ``VALUES``, so that every store shows that it keeps it."""
    assert [field.name for field in fields(Event)] == list(VALUES)


@given(events)
def test_an_event_survives_its_row(event: Event) -> None:
    """Row and back: every field is the same to the letter and the microsecond."""
    db = sqlite3.connect(":memory:")
    try:
        db.row_factory = sqlite3.Row
        db.execute(f"create table memory (id integer primary key, {EVENT_COLUMNS})")
        db.execute(INSERT_EVENT, event_row(event))
        row = db.execute("select * from memory").fetchone()
        assert event_of(row) == event
        assert hit_of(row, 0.5) == replace(Hit.of(event), score=0.5)
    finally:
        db.close()


async def _held_by(store: Any, folder: Path, batch: Sequence[Event]) -> dict[str, Event]:
    backend = await store.open(Opening("store", folder, tenant=batch[0].scope.tenant))
    try:
        await backend.remember([Extracted(event) for event in batch])
        if isinstance(backend, VectorSqlite):
            rows = await backend.database.read(lambda db: db.execute("select * from memory").fetchall())
            return {event.event_id: event for event in map(event_of, rows)}
        assert isinstance(backend, ListsEvents)
        return {event.event_id: event for event, _ in await backend.events("", 100)}
    finally:
        await backend.close()


async def _held_by_the_journal(folder: Path, batch: Sequence[Event]) -> dict[str, Event]:
    journal = await Journal.open(folder / "journal.sqlite")
    try:
        await journal.append(batch)
        return {id_: record.event for id_, record in (await journal.records([e.event_id for e in batch])).items()}
    finally:
        await journal.close()


@pytest.mark.parametrize("store", [Journal, Cortex, Triples, VectorSqlite, Mem0, Markdown])
@settings(max_examples=4, deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.too_slow])
@given(batch=st.lists(events, min_size=1, max_size=20))
async def test_every_field_of_an_event_comes_back_from_the_store(store: Any, batch: list[Event]) -> None:
    """No two are one memory: ids, sources and texts differ. The journal refuses a predecessor that it does not have."""
    kept = [
        replace(
            event,
            event_id=event_id(n),
            text=f"{event.text} {n}",
            scope=replace(event.scope, tenant="one"),
            **({"source": f"list:{n}", "supersedes": None} if store is Journal else {}),
        )
        for n, event in enumerate(batch, start=1)
    ]
    with TemporaryDirectory() as folder:
        held = _held_by_the_journal(Path(folder), kept) if store is Journal else _held_by(store, Path(folder), kept)
        found = await held
    assert found == {event.event_id: event for event in kept}


async def test_an_older_file_gets_missing_event_columns(tmp_path: Path) -> None:
    """What it has stays as it is, and what comes now is kept with every field."""
    older = tuple(f"create table memory (id integer primary key, {EVENT_COLUMNS})".split(", supersedes text"))
    path, moment = tmp_path / "store.sqlite", datetime(2026, 3, 4, tzinfo=UTC)
    database = await Database.open(path, ("".join(older),))
    await database.write(
        lambda db: db.execute(
            "insert into memory (event_id, text, recorded_at, tenant, audience, kind, revision, trust, origin, "
            "derived_from) values ('a', 'Tea.', ?, 'default', 'group', 'note', '', 'unknown', 'owner', '[]')",
            (microseconds(moment),),
        )
    )
    await database.close()
    database = await Database.open(path, ("".join(older),), events="memory")
    try:
        newer = Event("b", "Coffee.", moment, supersedes="a")
        await database.write(lambda db: db.execute(INSERT_EVENT, event_row(newer)))
        rows = await database.read(lambda db: db.execute("select * from memory order by id").fetchall())
        assert [event_of(row) for row in rows] == [Event("a", "Tea.", moment), newer]
    finally:
        await database.close()


WHERES = [
    Where(kind=("decision",)),
    Where(kind=("decision", "fact")),
    Where(after=datetime(2026, 2, 1, tzinfo=UTC)),
    Where(before=datetime(2026, 2, 1, tzinfo=UTC)),
    Where(folder=("Customers/",)),
    Where(folder=("customers/north", "élan")),
    Where(speaker=("ADA",)),
    Where(speaker=("Élodie",)),
    Where(tag=("reefer",)),
    Where(property=(("type", "customer"),)),
    Where(kind=("note",), folder=("customers",), speaker=("ada ito",), after=datetime(2026, 1, 1, tzinfo=UTC)),
]


@pytest.mark.parametrize("where", WHERES, ids=str)
def test_rows_that_fit_a_filter_meet_its_conditions(where: Where) -> None:
    """The conditions may let through what does not fit; of kinds and times they are exact."""
    begun = Event("", "The pump leaks #reefer", datetime(2026, 2, 10, tzinfo=UTC))
    batch = [
        replace(begun, event_id=f"{n}", kind=kind, speaker=speaker, at=at, place=place)
        for n, (kind, speaker, at, place) in enumerate(
            product(
                ("note", "decision"),
                (None, "Ada Ito", "Élodie"),
                (None, Moment(datetime(2026, 1, 5, tzinfo=UTC), "day")),
                (None, Place("a/customers/North/x.md", 1, 2, "line"), Place("Élan/x.md", 1, 2, "line")),
            )
        )
    ]
    terms, values = fits(where)
    db = sqlite3.connect(":memory:")
    db.execute(f"create table memory (id integer primary key, {EVENT_COLUMNS})")
    db.executemany(INSERT_EVENT, map(event_row, batch))
    found = {row[0] for row in db.execute(f"select event_id from memory m where {' and '.join(terms) or 1}", values)}
    fitting = {event.event_id for event in batch if replace(where, property=()).admits(Hit.of(event))}
    assert fitting <= found
    if not (where.folder or where.speaker or where.tag or where.property):
        assert fitting == found


def test_lone_surrogates_do_not_block_a_store() -> None:
    """Half a character cannot be stored: it becomes a question mark instead of an error at every retry."""
    assert event_row(Event("e", "half \ud83d here", datetime(2026, 1, 1, tzinfo=UTC)))[1] == "half ? here"


def test_times_are_exact() -> None:
    """Microseconds since 1970 as integers: 1 µs before the epoch is -1; nothing is rounded."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert microseconds(epoch - timedelta(microseconds=1)) == -1
    assert time_of(microseconds(epoch.replace(year=9998))) == epoch.replace(year=9998)
