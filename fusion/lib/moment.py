"""Points in time as people write them, with how precisely they did."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from fusion.contract import Moment, Precision

_ISO = re.compile(
    r"(?P<year>\d{4})(?:-(?P<month>\d\d)(?:-(?P<day>\d\d)"
    r"(?P<clock>[T ]\d\d(?P<minute>:\d\d(?P<second>:\d\d(?:[.,]\d{1,9})?)?)?(?:Z|[+-]\d\d(?::?\d\d)?)?)?)?)?",
    re.ASCII | re.IGNORECASE,
)


def moment(written: str) -> Moment:
    """ISO 8601, as precise as it is written: ``2026``, ``2026-01``, ``2026-01-31``, or with a time of day.

    A time without a zone is UTC. Raises ValueError.
    """
    match = _ISO.fullmatch(written.strip())
    if match is None:
        raise ValueError(f"{written!r} is not ISO 8601")
    finest = next(name for name in ("second", "minute", "clock", "day", "month", "year") if match[name])
    precision: Precision = "hour" if finest == "clock" else finest  # type: ignore[assignment]
    whole = match[0].upper() + {"year": "-01-01", "month": "-01"}.get(finest, "")
    try:
        found = datetime.fromisoformat(whole)
        return Moment(found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC), precision)
    except OverflowError:
        raise ValueError(f"{written!r} is out of range") from None
