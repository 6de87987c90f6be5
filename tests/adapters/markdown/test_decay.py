"""Day notes fade, what is evergreen does not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from adapters.markdown.decay import age_days, dated, decay

MODIFIED = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.row(
    "A064", "decay: after 7 days 85.07 % remain, after 30 days 50 %, after 90 days 12.5 %, after 180 days 1.56 %"
)
@pytest.mark.parametrize(
    ("days", "left"),
    [(0, 1.0), (7, 0.8507), (30, 0.5), (60, 0.25), (90, 0.125), (180, 0.0156), (-3, 1.0)],
)
def test_half_is_left_after_thirty_days(days: float, left: float) -> None:
    """0.5^(days/30): 7 days leave 85.07 % (the seed's table says about 84), 30 days 50 %, 90 days 12.5 %, 180 1.56 %.
    What is yet to come has lost nothing."""
    assert decay(days) == pytest.approx(left, abs=5e-5)


def test_another_half_life() -> None:
    """0.5^(14/7) = a quarter."""
    assert decay(14, half_life_days=7) == 0.25


@pytest.mark.row(
    "A065",
    "… by the date in the file's name; evergreen files do not decay; otherwise by the file's date",
    of="decay: after 7 days 85.07 % remain",
)
@pytest.mark.parametrize(
    ("document", "noted"),
    [
        ("workspace/memory/2026-03-24.md", datetime(2026, 3, 24, tzinfo=UTC)),
        ("memory/2026-03-24.md", datetime(2026, 3, 24, tzinfo=UTC)),
        ("workspace/MEMORY.md", None),
        ("workspace/memory.md", None),
        ("workspace/memory/projects.md", None),
        ("workspace/memory/people/marta.md", None),
        ("workspace/memory/2026-13-45.md", None),
        ("workspace/sessions/abc.md", MODIFIED),
        ("vault/2026-03-24.md", MODIFIED),
        ("vault/deep/MEMORY.md", MODIFIED),
    ],
)
def test_the_date_is_the_names_then_none_then_the_files(document: str, noted: datetime | None) -> None:
    """A daily log has the day of its name; MEMORY.md and other files in memory/ do not age; others have their mtime."""
    assert dated(document, MODIFIED) == noted


def test_age_counts_whole_and_broken_days() -> None:
    """36 hours are a day and a half."""
    assert age_days(MODIFIED, MODIFIED + timedelta(hours=36)) == 1.5
