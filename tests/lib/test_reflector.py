"""Pruning observations: which leave first, and how many."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.lib.reflector import Entry, pruned, worth

NOW = datetime(2026, 11, 28, 9, tzinfo=UTC)


def entry(number: int, importance: float | None, hours: float = 0.0, tokens: int = 10) -> Entry:
    return Entry(number, importance, NOW - timedelta(hours=hours), tokens)


@pytest.mark.row("A138", "the reflector drops unimportant and old observations first")
def test_the_least_important_and_oldest_go_first() -> None:
    entries = [entry(1, 0.9, 48), entry(2, 0.6, 1), entry(3, 0.3, 1), entry(4, 0.6, 72), entry(5, None, 1)]
    assert pruned(entries, NOW, 30, 30) == {3, 4}
    assert pruned(entries, NOW, 30, 10) == {2, 3, 4, 5}


def test_nothing_goes_while_all_fit() -> None:
    assert pruned([entry(n, 0.0) for n in range(5)], NOW, 50, 10) == frozenset()


def test_a_time_in_the_future_has_no_age() -> None:
    assert worth(entry(1, 0.8, -1000), NOW) == 0.8


@given(
    st.lists(st.tuples(st.none() | st.floats(0, 1), st.floats(-100, 10_000), st.integers(1, 200)), max_size=40),
    st.integers(0, 3000),
)
def test_what_stays_fits_and_what_went_was_worth_no_more(
    rows: list[tuple[float | None, float, int]], most: int
) -> None:
    entries = [entry(number, *row) for number, row in enumerate(rows)]
    gone = pruned(entries, NOW, most, most // 2)
    kept = [one for one in entries if one.number not in gone]
    assert sum(one.tokens for one in kept) <= most
    if gone and kept:
        assert max(worth(entries[n], NOW) for n in gone) <= min(worth(one, NOW) for one in kept)
