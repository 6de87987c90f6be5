"""An event as a row: every field comes back."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from fusion.contract import Event, Hit, Moment, Place, Scope
from fusion.store.rows import EVENT_COLUMNS, INSERT_EVENT, event_of, event_row, hit_of, microseconds, time_of

names = st.text(max_size=8)
times = st.datetimes(datetime(1, 1, 2), datetime(9999, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
events = st.builds(
    Event,
    event_id=names,
    text=st.text(st.characters(exclude_categories=["Cs"]), max_size=50),
    recorded_at=times,
    scope=st.builds(Scope, names, st.none() | names, session_id=st.none() | names, audience=st.just("private")),
    speaker=st.none() | names,
    at=st.none() | st.builds(Moment, times, st.sampled_from(["second", "day", "year"]), st.none() | names),
    place=st.none() | st.builds(Place, names, st.integers(-5, 2**62), st.integers(-5, 2**62)),
    trust=st.sampled_from(["trusted", "untrusted"]),
    valid_from=st.none() | times,
    valid_to=st.none() | times,
    derived_from=st.lists(names, max_size=3).map(tuple),
)


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
        assert hit_of(row, 0.5, ("a", "b")) == replace(Hit.of(event), score=0.5, path=("a", "b"))
    finally:
        db.close()


def test_lone_surrogates_do_not_block_a_store() -> None:
    """Half a character cannot be stored: it becomes a question mark instead of an error at every retry."""
    assert event_row(Event("e", "half \ud83d here", datetime(2026, 1, 1, tzinfo=UTC)))[1] == "half ? here"


def test_times_are_exact() -> None:
    """Microseconds since 1970 as integers: 1 µs before the epoch is -1; nothing is rounded."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert microseconds(epoch - timedelta(microseconds=1)) == -1
    assert time_of(microseconds(epoch.replace(year=9998))) == epoch.replace(year=9998)
