"""How far something long is, where there is no terminal."""

from __future__ import annotations

import pytest

from fusion.doors.cli.progress import Lines, bar


@pytest.mark.feature(
    "… without a terminal, a line now and then reports the progress", of="benchmarks: a kept home holds"
)
def test_a_line_now_and_then_says_how_far_it_is() -> None:
    """A step a second of 40: nothing for ten seconds, then a line at 10 and at 20, with what is left at that pace."""
    seconds = iter(range(26))
    said: list[str] = []
    lines = Lines("questions", 40, said.append, lambda: float(next(seconds)))
    for _ in range(25):
        lines.advance(1)
    assert said == [
        "questions: 10 of 40 after 0:10, about 0:30 left",
        "questions: 20 of 40 after 0:20, about 0:20 left",
    ]


def test_what_is_quick_or_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither before ten seconds are over, nor where nobody wants to hear of it."""
    for quiet in (False, True):
        with bar("questions", 2, quiet=quiet) as advance:
            advance(2)
    assert capsys.readouterr() == ("", "")
