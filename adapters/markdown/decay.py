"""Time decay of notes; evergreen files do not decay.

Exponential decay: score × 0.5^(age / half-life). With the seed's 30 days: 7 days leave 85.07 %, 30 days 50 %, 90 days
12.5 %, 180 days 1.56 %.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

HALF_LIFE_DAYS = 30.0

_DAILY = re.compile(r"(?:^|/)memory/(\d{4})-(\d{2})-(\d{2})\.md$")
_EVERGREEN = re.compile(r"(?:^|/)memory/(?:[^/]+/)*[^/]+$|^[^/]+/(?:MEMORY|memory)\.md$")
_DAY_S = 86_400


def day_of(document: str) -> date | None:
    """The day of a daily log of an OpenClaw workspace, ``memory/YYYY-MM-DD.md``; None for other files."""
    match = _DAILY.search(document)
    try:
        return date.fromisoformat("-".join(match.groups())) if match else None
    except ValueError:  # 2026-13-45 is a name, not a day: a topic like any other
        return None


def decay(age_days: float, half_life_days: float = HALF_LIFE_DAYS) -> float:
    """The remaining share of a score after so many days, from 1 to 0; 1 for a date in the future."""
    return float(0.5 ** (max(0.0, age_days) / half_life_days))


def age_days(then: datetime, now: datetime) -> float:
    return (now - then).total_seconds() / _DAY_S


def dated(document: str, modified: datetime | None) -> datetime | None:
    """The date of a file's content; ``None`` for an evergreen file.

    ``document`` begins with the name of its folder, as in "workspace/memory/2026-03-24.md". In this order: the day in
    the name of a daily log; None for MEMORY.md and every other file in ``memory``; else the time of the last write,
    None if that is not known yet.
    """
    if day := day_of(document):
        return datetime(day.year, day.month, day.day, tzinfo=UTC)
    return None if _EVERGREEN.search(document) else modified
