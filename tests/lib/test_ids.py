"""Ids of events and the refs that cite them."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.lib.ids import UuidSource, cursor, parse_cursor, parse_short_ref, short_ref


@given(st.lists(st.integers(0, 2**40), min_size=2, max_size=50))
def test_ids_only_grow_whatever_the_clock_does(clock):
    """A clock that stands still or jumps back never gives an id twice, nor a smaller one."""
    source = UuidSource()
    ids = [source(ms) for ms in clock]
    assert ids == sorted(set(ids))


def test_an_id_is_a_uuid_of_version_7_and_begins_with_its_time():
    """The first 48 bits are the milliseconds; version and variant are where RFC 9562 has them."""
    found = UUID(UuidSource()(1_700_000_000_123))
    assert found.version == 7
    assert found.int >> 80 == 1_700_000_000_123


def test_more_ids_than_a_millisecond_counts_borrow_from_the_next():
    """5,000 ids in one millisecond, with room for 4,096: all differ, in order."""
    source = UuidSource()
    ids = [source(1000) for _ in range(5000)]
    assert ids == sorted(set(ids))
    assert UUID(ids[-1]).int >> 80 in (1001, 1002)


@pytest.mark.parametrize(("seq", "ref"), [(0, "m0"), (1, "m1"), (31, "mz"), (32, "m10"), (63, "m1z"), (1024, "m100")])
def test_a_ref_is_crockford_base_32(seq, ref):
    """63 = 1 × 32 + 31, so `m1z`."""
    assert short_ref(seq) == ref
    assert parse_short_ref(ref) == seq


@given(st.integers(0, 2**63 - 1))
def test_every_sequence_number_survives_its_ref(seq):
    """parse(short(n)) = n, in capitals too."""
    assert parse_short_ref(short_ref(seq)) == seq
    assert parse_short_ref(short_ref(seq).upper()) == seq


@given(st.integers(0, 2**63 - 1))
def test_every_place_in_a_list_survives_its_cursor(seq):
    """parse(cursor(n)) = n; a cursor is no ref, and a ref no cursor."""
    assert parse_cursor(cursor(seq)) == seq
    assert parse_short_ref(cursor(seq)) is None
    assert parse_cursor(short_ref(seq)) is None


@pytest.mark.parametrize("text", ["", "c", "c-1", "cu", "1z", "c" + "z" * 14, "c1 ", "c١"])
def test_what_is_no_cursor_is_none(text):
    """Nothing else is taken for one, and nothing raises."""
    assert parse_cursor(text) is None


@pytest.mark.parametrize("ref", ["", "m", "x1", "m-1", "mu", "m1 ", "m" + "z" * 14, "mzzzzzzzzzzzzz", "mem0:17", "m١"])
def test_what_is_no_ref_is_none(ref):
    """Nothing else is taken for a ref, and nothing raises; `u` is not in Crockford's alphabet."""
    assert parse_short_ref(ref) is None
