"""The values of a graph's rows as times."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from adapters.neo4j.rows import time_of


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2021-06-01", datetime(2021, 6, 1, tzinfo=UTC)),
        ("2021-06-01T10:00:00+02:00", datetime(2021, 6, 1, 8, tzinfo=UTC)),
        (date(2021, 6, 1), datetime(2021, 6, 1, tzinfo=UTC)),
        (1_622_505_600, datetime(2021, 6, 1, tzinfo=UTC)),
        (1_622_505_600_000, datetime(2021, 6, 1, tzinfo=UTC)),
        (1_622_505_600_000_000, datetime(2021, 6, 1, tzinfo=UTC)),
        ("soon", None),
        (True, None),
        (float("nan"), None),
        (10**30, None),
        ([1], None),
    ],
)
def test_times_of_any_kind(value: object, expected: datetime | None) -> None:
    """ISO 8601, the databases' own, and numbers since 1970; what is none of these is no time."""
    assert time_of(value) == expected


def test_times_of_the_driver() -> None:
    """The driver's own class for a time, zone and all."""
    from neo4j.time import DateTime

    assert time_of(DateTime(2021, 6, 1, 8, 0, 0)) == datetime(2021, 6, 1, 8, tzinfo=UTC)
