"""A memory as named columns, which every store keeps: SQLite in a row, a graph database on a node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from json import dumps, loads
from typing import Any

from adapters.cortex.port import Change, Memory, State
from adapters.cortex.records import extraction_of
from fusion.lib.sqlite import Fields, event_of, microseconds, storable, time_of

FIELDS = tuple(Change.__annotations__)
"""the columns of a `State`"""

REINFORCED_BY = 0.05
"""what confidence gains each time, up to 1: seed 000's number"""

_TIMES = frozenset({"last_accessed", "reinforced_at", "ended_at"})


def columns(fields: Mapping[str, Any]) -> Iterable[object]:
    """The values of these fields of a `State`, as they are stored: times in microseconds, tags as JSON."""
    for name, value in fields.items():
        if name == "tags":
            yield dumps([storable(tag) for tag in value])
        elif name in _TIMES and value is not None:
            yield microseconds(value)
        else:
            yield storable(value) if isinstance(value, str) else value


def memory_in(row: Fields) -> Memory:
    """The memory of a row that has the columns of its event, of its state and ``extraction``."""
    tags = row["tags"]
    return Memory(
        event_of(row),
        extraction_of(row["extraction"]),
        State(
            lifetime=row["lifetime"],
            confidence=row["confidence"],
            tags=() if tags == "[]" else tuple(loads(tags)),
            access_count=row["access_count"],
            last_accessed=_time(row["last_accessed"]),
            reinforced_count=row["reinforced_count"],
            reinforced_at=_time(row["reinforced_at"]),
            conflict_group=row["conflict_group"],
            conflict_status=row["conflict_status"],
            contradicts=row["contradicts"],
            merged_into=row["merged_into"],
            ended_at=_time(row["ended_at"]),
        ),
    )


def _time(since_1970: int | None) -> datetime | None:
    return None if since_1970 is None else time_of(since_1970)
