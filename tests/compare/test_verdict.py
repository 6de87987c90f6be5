"""The paired verdict: its arithmetic, its interval, and what is said where nothing was expected."""

from __future__ import annotations

from statistics import NormalDist, fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.compare.verdict import agreement, interval, paired

shares = st.lists(st.tuples(st.sampled_from([0, 0.5, 1]), st.sampled_from([0, 0.5, 1])), min_size=1, max_size=20)


@pytest.mark.feature("many questions get wins, ties, losses and a seeded bootstrap interval")
def test_wins_ties_losses_and_means() -> None:
    """Four questions: b has more in two, as much in one, less in one; means 2/4 and 2.5/4, difference 0.5/4."""
    found = paired([0, 0, 1, 1], [1, 0.5, 1, 0])
    assert (found.n, found.win, found.tie, found.loss) == (4, 2, 1, 1)
    assert (found.a, found.b, found.difference) == (0.5, 0.625, 0.125)
    assert found.better is None


def test_the_interval_is_that_of_the_mean() -> None:
    """Over 400 differences it is near the normal one, mean ± 1.96 s/√400; another seed moves it only a little."""
    values = [((i * 7919) % 101) / 100 - 0.4 for i in range(400)]
    half = NormalDist().inv_cdf(0.975) * stdev(values) / 20
    for seed in (0, 1):
        assert interval(values, seed=seed) == pytest.approx((fmean(values) - half, fmean(values) + half), abs=0.004)


@given(shares)
def test_the_same_seed_gives_the_same_verdict_and_the_other_way_round_its_opposite(
    pairs: list[tuple[float, float]],
) -> None:
    """Reproducible; b against a is a against b with the sign turned; the interval lies within the differences."""
    a, b = zip(*pairs, strict=True)
    forth, back = paired(a, b, seed=7), paired(b, a, seed=7)
    assert forth == paired(a, b, seed=7)
    assert (forth.win, forth.loss) == (back.loss, back.win)
    assert (forth.low, forth.high) == pytest.approx((-back.high, -back.low))
    assert min(y - x for x, y in pairs) <= forth.low <= forth.high <= max(y - x for x, y in pairs)
    assert {forth.better, back.better} in ({None}, {"a", "b"})


def test_what_differs_by_rounding_alone_is_a_tie() -> None:
    """.1 + .2 is not .3 in binary; an interval that is printed as 0 shows nothing."""
    found = paired([0.3] * 12, [0.1 + 0.2] * 12)
    assert (found.win, found.tie, found.loss, found.low, found.better) == (0, 12, 0, 0.0, None)


def test_two_questions_by_hand() -> None:
    """Of differences 0 and 1, drawn twice: mean 0, ½, ½ or 1 with ¼ each, so 2.5 % and 97.5 % are 0 and 1."""
    found = paired([0, 0], [0, 1])
    assert (found.low, found.high) == (0.0, 1.0)


@pytest.mark.parametrize(("a", "b"), [([1], [1, 2]), ([], [])])
def test_pairs_are_pairs(a: list[float], b: list[float]) -> None:
    """Lists of different length, or empty ones, are refused."""
    with pytest.raises(ValueError, match=f"not {len(a)} and {len(b)} values"):
        paired(a, b)


def test_one_arm_that_is_always_better_is_said_to_be() -> None:
    """Every resample has it better."""
    assert paired([0.0] * 12, [0.5] * 12).better == "b"
    assert paired([1.0] * 12, [0.5] * 12).better == "a"


def row(both: int, a: dict[str, list[str]], b: dict[str, list[str]], characters: int) -> dict[str, object]:
    side = {"characters": characters, "waited_ms": 10.0, "took_ms": 2.0}
    return {"both": ["m"] * both, "only_a": a, "only_b": b, "a": side, "b": {**side, "characters": 0}}


@pytest.mark.feature(
    "… without expectations, only agreement and cost are reported, no verdict", of="many questions get wins, ties"
)
def test_agreement_counts_shared_memories() -> None:
    """Overlap is both / either: 1 of 3, then 1 where both have nothing, so 2/3; who found what alone, by backend."""
    told = agreement([row(1, {"m1": ["mem0"], "m2": ["mem0", "cortex"]}, {}, 100), row(0, {}, {}, 300)])
    assert (told["questions"], told["same_memories"], told["overlap"]) == (2, 1, round(2 / 3, 4))
    assert (told["a"]["only"], told["a"]["alone"]) == (2, {"mem0": 2, "cortex": 1})
    assert (told["a"]["characters"], told["a"]["empty"], told["b"]["empty"]) == (200.0, 0, 2)
    assert not {"better", "win"} & told.keys()
