"""The gate against growth of CPU: its arithmetic on given rounds, and one real run of this commit against itself."""

from __future__ import annotations

import json
import subprocess
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from benchmarks import gate
from benchmarks.__main__ import main
from benchmarks.gate import LEAST_MS, Compared, compare, measure, report

ROOT = Path(__file__).parents[2]


def test_a_figure_is_the_median_ratio_of_its_rounds() -> None:
    """Ratios 2.2/2, 3.6/3 and 4/4: 1.1, 1.2 and 1. A slow round of both sides changes none of them."""
    found = compare([{"pack": 2.0}, {"pack": 3.0}, {"pack": 4.0}], [{"pack": 2.2}, {"pack": 3.6}, {"pack": 4.0}])
    assert found == {"pack": Compared(3.0, 3.6, 1.1)}


def test_only_what_both_sides_measure_is_compared() -> None:
    """A stage that a commit adds has nothing to be compared with."""
    assert list(compare([{"pack": 1.0, "old": 1.0}], [{"pack": 1.0, "new": 1.0}])) == ["pack"]


@pytest.mark.parametrize(
    ("one", "grown"),
    [
        (Compared(1.0, 1.1, 1.1), False),
        (Compared(1.0, 1.11, 1.11), True),
        (Compared(0.1, 0.1 + LEAST_MS / 2, 1.25), False),  # 25 % more, and too little to matter
        (Compared(1.0, 0.5, 0.5), False),
    ],
)
def test_a_figure_has_grown_beyond_a_tenth(one: Compared, grown: bool) -> None:
    """The limit itself is allowed."""
    assert one.has_grown is grown


@pytest.mark.feature(
    "figures: a gate compares the CPU of a commit with its parent's by turns, and names the stage that grew beyond 10 %"
)
def test_a_stage_is_named_if_it_has_grown_in_both_runs() -> None:
    """`rrf` stood out in the first run alone, `pack` in both."""
    first = {"pack": Compared(1.0, 1.3, 1.3), "rrf": Compared(1.0, 1.3, 1.3), "dedup": Compared(1.0, 1.0, 1.0)}
    second = {"pack": Compared(1.0, 1.25, 1.25), "rrf": Compared(1.0, 1.0, 1.0), "dedup": Compared(1.0, 1.3, 1.3)}
    found = report(first, second)
    assert found["grown"] == ["pack: 1.0 → 1.25 ms of CPU, +25%"]
    assert found["ratio"] == {"pack": 1.25, "rrf": 1.0, "dedup": 1.3}


def test_the_sides_take_turns() -> None:
    """Neither side is always the first: what runs second finds a warmer machine."""
    order: list[str] = []

    def side(name: str) -> dict[str, float]:
        order.append(name)
        return {"pack": 1.0}

    measure({"before": lambda: side("before"), "after": lambda: side("after")}, 2)
    assert order == ["after", "before", "before", "after"]


def test_a_commit_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The error names the option."""
    assert main(["gate", "--base", "no-such-commit"]) == 2
    assert "name another one with --base" in capsys.readouterr().err


@pytest.mark.model
@pytest.mark.timeout(600)
def test_a_commit_is_compared_with_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sides serve, and every figure is there; what they are is of no matter here.

    Nor is what stands out by chance among so few, which a second run would measure again.
    """
    for name, few in (("MEMORIES", 20), ("QUESTIONS", 5), ("STAGE_REQUESTS", 2), ("LEAST_MS", 1e9)):
        monkeypatch.setattr(gate, name, few)
    if subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, check=False).returncode:
        pytest.skip("this folder is no clone of a repository")
    said = StringIO()
    with redirect_stdout(said):
        main(["gate", "--base", "HEAD", "--rounds", "1", "--json"])
    figures = json.loads(said.getvalue())
    assert {"a memory", "a question", "stage dedup", "stage pack"} <= figures["ratio"].keys()
    assert all(cost["before"] > 0 and cost["after"] > 0 for cost in figures["cpu_ms"].values())
