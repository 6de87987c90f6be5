"""Which hits a question admits by time: one rule, in the contract, and the same in SQL."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusion.contract import Event, Hit, Moment, Query, Scope
from fusion.recall.filter import admit
from fusion.store.rows import EVENT_COLUMNS, INSERT_EVENT, event_row, visible
from tests.recall.helpers import StoredRecord

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def day(n: int) -> datetime:
    return NOW + timedelta(days=n)


DAYS = st.integers(-3, 3).map(day)
MAYBE = st.none() | DAYS
QUERIES = st.builds(Query, st.just("pump"), st.just(Scope()), st.just(NOW), as_of=MAYBE, known_at=MAYBE)
EVENTS = st.builds(
    Event,
    st.just("e1"),
    st.just("the pump is green"),
    DAYS,
    at=st.none() | DAYS.map(Moment),
    valid_from=MAYBE,
    valid_to=MAYBE,
)


@pytest.mark.parametrize(
    ("times", "asked", "why"),
    [
        ({"valid_to": day(0)}, {}, "no longer valid"),
        ({"valid_to": day(1)}, {}, None),
        ({"valid_from": day(1)}, {}, None),
        ({"valid_to": day(-1)}, {"as_of": day(-2)}, None),
        ({"valid_to": day(-2)}, {"as_of": day(-2)}, "no longer valid then"),
        ({"valid_from": day(-1)}, {"as_of": day(-2)}, "not yet true then"),
        ({"at": Moment(day(-1))}, {"as_of": day(-2)}, "not yet true then"),
        ({"recorded_at": day(-1)}, {"as_of": day(-2)}, "not yet true then"),
        ({"valid_from": day(-3), "at": Moment(day(-1))}, {"as_of": day(-2)}, None),
        ({"recorded_at": day(-1)}, {"known_at": day(-2)}, "not yet recorded then"),
        ({}, {"as_of": day(-2), "known_at": day(-2)}, None),
    ],
)
def test_query_admits_by_time(times: dict[str, object], asked: dict[str, datetime], why: str | None) -> None:
    query = replace(Query("pump", Scope(), NOW), **asked)  # type: ignore[arg-type]
    hit = Hit("n1", "the pump is green", **times)  # type: ignore[arg-type]
    assert query.out_of_time(hit) == why
    assert query.admits(hit) == (why is None)


def test_query_admits_its_scope_alone() -> None:
    assert not Query("pump", Scope(user_id="ada"), NOW).admits(Hit("n1", "the pump", Scope(user_id="bo")))


@settings(max_examples=300, deadline=None)
@given(EVENTS, QUERIES)
def test_query_admits_what_the_condition_in_sql_admits(event: Event, query: Query) -> None:
    """Every store in SQLite filters before its limit, by a condition that says the same."""
    database = sqlite3.connect(":memory:")
    database.row_factory = sqlite3.Row
    database.execute(f"create table memory(id integer primary key, {EVENT_COLUMNS})")
    database.execute(INSERT_EVENT, event_row(event))
    condition, values = visible(query)
    found = database.execute(f"select 1 from memory m where {condition}", values).fetchone()
    database.close()
    assert (found is not None) == query.admits(Hit.of(event))


@pytest.mark.feature("a question about the past uses the journal's times if a backend has none")
def test_the_times_of_the_journal_count_where_the_backend_has_none() -> None:
    """The event began today; the hit of it has no times. A question of two days ago does not see it."""
    event = Event("e1", "the pump is green", day(-3), valid_from=NOW)
    records = {"e1": StoredRecord("m1", event)}
    query = replace(Query("pump", Scope(), NOW), as_of=day(-2))
    assert admit("one", [Hit("n1", event.text, event_id="e1")], query, records) == ((), {"not yet true then": 1})
