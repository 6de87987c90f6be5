"""The columns of a memory, the same in every store: in a SQLite row or on a node of a graph database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from json import dumps, loads
from operator import itemgetter
from typing import Any

from adapters.cortex.port import Change, Memory, State
from adapters.cortex.records import extraction_of
from fusion.store.rows import Fields, event_of, microseconds, storable, time_of

FIELDS = tuple(Change.__annotations__)
"""the columns of a `State`"""

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
def state_of(*values: Any) -> State:
    """The `State` of the stored values of ``FIELDS``. Cached: most memories share the same unchanged state."""
    fields = dict(zip(FIELDS, values, strict=True))
    fields["tags"] = tuple(loads(fields["tags"]))
    return State(**fields | {name: time_of(fields[name]) for name in _TIMES if fields[name] is not None})
