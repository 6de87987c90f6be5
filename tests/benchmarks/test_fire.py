"""`python -m benchmarks fire`: which figures it prints, and which of them miss their bound."""

from __future__ import annotations

import json
import math

import pytest

from benchmarks.__main__ import main
from benchmarks.datasets import DataError
from benchmarks.fire import AIMS, PARTS, Aim, run


def test_fire_names_the_figures_that_miss_their_bound() -> None:
    """0.04 ≤ 0.05 is met, 251 > 250 and 0.94 < 0.95 are not."""
    parts = {
        "lies": lambda full: {"lie_only": 0.04, "pairs": 200},
        "stalls": lambda full: {"loop_stall_ms": 251.0},
        "secrets": lambda full: {"secrets_masked": 0.94},
    }
    figures = run(parts=parts)
    assert (figures["lie_only"], figures["loop_stall_ms"], figures["secrets_masked"]) == (0.04, 251.0, 0.94)
    assert figures["missed"] == ["loop_stall_ms", "secrets_masked"]
    assert figures["counts"]["lies"] == {"pairs": 200}


def test_fire_runs_only_the_named_parts() -> None:
    asked: list[tuple[str, bool]] = []
    parts = {
        "a": lambda full: asked.append(("a", full)) or {},
        "b": lambda full: asked.append(("b", full)) or {},
    }
    run(["b"], full=False, parts=parts)
    assert asked == [("b", False)]


def test_fire_refuses_an_unknown_part(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DataError, match="there is no part 'c'"):
        run(["c"], parts={"a": lambda full: {}})
    assert main(["fire", "no-such-part", "--json"]) == 2
    assert "no-such-part" in capsys.readouterr().err


def test_a_bound_is_inclusive_and_nan_never_meets_it() -> None:
    assert Aim(0).met(0)
    assert not Aim(0).met(1)
    assert Aim(0.95, at_least=True).met(0.95)
    assert not Aim(0.05).met(math.nan)
    assert not Aim(0.95, at_least=True).met(math.nan)


TIMED = {"stalls"}
"""parts whose figures a busy machine makes worse: the command holds them to their bounds"""


@pytest.mark.timeout(600)  # some seconds of CPU for each part, which a busy machine gives in minutes
@pytest.mark.parametrize("name", sorted(PARTS.keys() - TIMED))
def test_every_part_keeps_to_its_bounds_in_a_short_run(name: str) -> None:
    figures = run([name], full=False)
    assert figures["missed"] == [], json.dumps(figures["counts"])


@pytest.mark.feature(
    "hostile model answers, replies and connections never block a server's event loop for 250 ms of CPU time"
)
def test_hostile_answers_leave_the_event_loop_to_other_requests() -> None:
    """CPU time of the loop's thread between two turns, the smallest of several runs: other processes add none to it.

    The judge, the model and the backend are all asked, as a server that asks none of them would show nothing.
    """
    counts = run(["stalls"], full=False)["counts"]["stalls"]
    assert all(counts["calls"].values())
    assert counts["loop_cpu_ms"] <= AIMS["loop_stall_ms"].bound, json.dumps(counts)
