"""The columns of a memory, the same in every store: in a SQLite row or on a node of a graph database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from json import dumps, loads
from operator import itemgetter
from typing import Any, Literal

from adapters.cortex.port import Change, Lifetime, Memory, State
from adapters.cortex.records import extraction_of
from fusion.store.rows import Fields, event_of, microseconds, storable, time_of

FIELDS = tuple(Change.__annotations__)
"""the columns of a `State`"""

REINFORCEMENT = 0.05
"""added to the confidence by each reinforcement, up to 1 (seed 000)"""

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
    return Memory(event_of(row), extraction_of(row["extraction"]), state_of(*_FIELDS(row)))


_FIELDS = itemgetter(*FIELDS)


@lru_cache(1024)
def state_of(
    lifetime: Lifetime,
    confidence: float,
    tags: str,
    access_count: int,
    last_accessed: int | None,
    reinforced_count: int,
    reinforced_at: int | None,
    conflict_group: str | None,
    conflict_status: Literal["active", "resolved"] | None,
    contradicts: str | None,
    merged_into: str | None,
    ended_at: int | None,
) -> State:
    """The `State` of the stored values of ``FIELDS``. Cached: most memories share the same unchanged state."""
    return State(
        lifetime,
        confidence,
        () if tags == "[]" else tuple(loads(tags)),
        access_count,
        _time(last_accessed),
        reinforced_count,
        _time(reinforced_at),
        conflict_group,
        conflict_status,
        contradicts,
        merged_into,
        _time(ended_at),
    )


def _time(since_1970: int | None) -> datetime | None:
    return None if since_1970 is None else time_of(since_1970)
