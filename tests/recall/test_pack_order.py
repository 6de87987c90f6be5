"""The order in which openclaw-mem takes memories into a pack."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.contract import Trust
from fusion.lib.importance import LABELS
from fusion.recall.pack_order import TRUST_ORDER, Merit, in_pack_order, sort_key

NOW = datetime(2026, 11, 24, tzinfo=UTC)

MERITS = st.builds(
    Merit,
    trust=st.sampled_from(TRUST_ORDER),
    importance=st.sampled_from(LABELS),
    rrf=st.sampled_from([0.0, 0.01, 0.02]),
    matches=st.integers(0, 2),
    at=st.one_of(st.none(), st.integers(0, 3).map(lambda days: NOW - timedelta(days=days))),
    synthesised=st.booleans(),
)

BETTER_FIRST = [
    Merit("untrusted", "ignore", synthesised=True),
    Merit("trusted", "ignore"),
    Merit("unknown", "must_remember"),
    Merit("unknown", "nice_to_have", 0.01),
    Merit("unknown", "unknown", 0.03),
    Merit("unknown", "unknown", 0.02, 3),
    Merit("unknown", "unknown", 0.02, 2, NOW),
    Merit("unknown", "unknown", 0.02, 2, NOW - timedelta(days=1)),
    Merit("unknown", "unknown", 0.02, 2),
    Merit("unknown", "ignore", 0.03, 5, NOW),
    Merit("untrusted", "must_remember", 0.03, 5, NOW),
    Merit("quarantined", "must_remember", 0.03, 5, NOW),
]


@pytest.mark.row(
    "A137", "pack order: synthesis, trust, importance, RRF, matches and recency, each among what is equal before it"
)
def test_pack_order_compares_one_thing_after_the_other() -> None:
    assert in_pack_order(reversed(BETTER_FIRST), lambda merit: merit) == BETTER_FIRST


@given(st.lists(MERITS, max_size=12))
def test_pack_order_is_stable_and_complete(merits: list[Merit]) -> None:
    """The items are the same ones, no later one goes before an earlier one, and equal ones keep their order."""
    ordered = in_pack_order(enumerate(merits), lambda item: item[1])
    assert sorted(number for number, _ in ordered) == list(range(len(merits)))
    for (n, one), (m, other) in pairwise(ordered):
        assert sort_key(one) < sort_key(other) or (sort_key(one) == sort_key(other) and n < m)


def test_pack_order_knows_every_tier_of_trust() -> None:
    assert {*TRUST_ORDER} == {*get_args(Trust)}
