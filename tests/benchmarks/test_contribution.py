"""What a backend is worth, from rows by hand."""

from __future__ import annotations

import pytest

from benchmarks.contribution import SubsetResult, figures, sentence
from benchmarks.recordings import Cost
from benchmarks.scored_rows import Row


def _row(question: int, backends: tuple[str, ...], eib: float) -> Row:
    return Row(
        dataset="own",
        corpus="kitchen",
        question=question,
        query="?",
        category="single",
        arm="+".join(backends),
        recipe="default",
        recipe_hash="0",
        backends=backends,
        budget=6000,
        block="",
        members=(),
        ranked=(),
        gold=("t",),
        found=(eib == 1.0,),
        eib=eib,
        took_ms=0.0,
        cpu_ms=0.0,
        abstained=True,
        duplicates=0,
    )


@pytest.mark.feature("… and each is stated in a sentence with its cost", of="the contributions of the backends")
def test_contribution_by_hand() -> None:
    """a finds question 0, b both: v(a) = ½, v(b) = v(ab) = 1. a: (½ + 0) / 2 = ¼; b: (1 + ½) / 2 = ¾; together 1.

    Without a nothing is lost, without b a half. Asking both took 30 and 50 ms, without a 20 and 30: 15 ms saved.
    """
    rows = [_row(0, ("a",), 1.0), _row(1, ("a",), 0.0)]
    rows += [_row(q, names, 1.0) for q in (0, 1) for names in (("b",), ("a", "b"))]
    costs = ({"a": Cost(10.0, 4.0), "b": Cost(5.0, 2.0)}, {"a": Cost(20.0, 6.0), "b": Cost(5.0, 2.0)})
    told = SubsetResult(tuple(rows), costs, {"": (30.0, 50.0), "a": (20.0, 30.0), "b": (30.0, 49.0)})
    out = figures(rows, [told], ("a", "b"))
    assert (out["n"], out["eib_frac"]) == (2, 1.0)
    assert out["shapley"] == {"a": 0.25, "b": 0.75}
    assert sum(out["shapley"].values()) == pytest.approx(out["eib_frac"])
    assert (out["alone"], out["leave_one_out"]) == ({"a": 0.5, "b": 1.0}, {"a": 0.0, "b": 0.5})
    assert out["saves_ms"] == {"a": 15.0, "b": 0.5}
    assert (out["p50_ms_alone"], out["cpu_ms_per_query"]) == ({"a": 10.0, "b": 5.0}, {"a": 5.0, "b": 2.0})
    assert out["verdicts"][1].startswith("dropping b costs 50.0 points and saves 0 ms")


def test_a_contribution_in_a_sentence() -> None:
    """Points are hundredths; what gains by going says so, and what was not timed says nothing of time."""
    assert sentence("mem0", 0.004, 0.1, 30.2, 4.3) == (
        "dropping mem0 costs 0.4 points and saves 30 ms; "
        "its fair share of what all find together is 10.0 points, for 4.3 ms of CPU a question"
    )
    assert sentence("mem0", -0.004, 0.0, None, None).startswith("dropping mem0 gains 0.4 points; its fair share")
