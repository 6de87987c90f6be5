"""Figures as people see them."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from benchmarks.print_figures import show


def shown(figures: dict[str, object]) -> str:
    """As a wide terminal without colours has it."""
    out = StringIO()
    show(figures, Console(file=out, width=160, color_system=None))
    return out.getvalue()


@pytest.mark.feature(
    "… backends and arms are in one table for people, with sentences below",
    of="the contributions of the backends",
)
def test_backends_are_printed_as_columns() -> None:
    """One line a backend with what it is worth and costs, what was not timed as a dash, and the sentence by itself."""
    text = shown(
        {
            "n": 2,
            "backends": ["a", "b"],
            "shapley": {"a": 0.25, "b": 0.75},
            "leave_one_out": {"a": 0.0, "b": 0.5},
            "saves_ms": {"a": 15.0, "b": None},
            "verdicts": ["dropping b costs 50.0 points [of 100]"],
        }
    )
    lines = [line.split() for line in text.splitlines()]
    assert ["a", "0.25", "0.0", "15.0"] in lines
    assert ["b", "0.75", "0.5", "–"] in lines
    assert text.splitlines()[-1] == "dropping b costs 50.0 points [of 100]"


def test_arms_are_printed_with_their_difference() -> None:
    """One line an arm; the one that the others are compared with has no verdict, and parts of figures a line each."""
    verdict = {"difference": -0.1, "low": -0.2, "high": 0.05, "win": 1, "tie": 7, "loss": 2}
    text = shown(
        {
            "dataset": "[notes]",
            "by_category": {"people": {"n": 1}},
            "arms": {
                "default": {"eib_frac": 1.0, "chars": 5056.0},
                "hook@a": {"eib_frac": 0.9, "against": {"baseline": "default", "eib_frac": verdict}},
            },
        }
    )
    lines = [" ".join(line.replace("│", " ").split()) for line in text.splitlines()]
    assert "default 1.0 – – – 5056.0" in lines
    assert "hook@a 0.9 – – – – -10.0 (-20.0 to +5.0) 1/7/2" in lines
    assert "dataset [notes]" in lines
    assert 'by_category · people {"n": 1}' in lines
    assert any("points over default" in line for line in lines)
