"""Memories as lines of JSON for an export, and extractions as JSON for a column.

The same memory gives the same bytes from every store. Fields with their default value are left out, so that a field
added later changes no existing line.
"""

from __future__ import annotations

import re
from functools import lru_cache
from json import loads
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from adapters.cortex.port import Memory
from fusion.contract import Entity, Extraction, Fact, Kind
from fusion.errors import BadInput

_MEMORY: TypeAdapter[Memory] = TypeAdapter(Memory)
_EXTRACTION: TypeAdapter[Extraction] = TypeAdapter(Extraction)
_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)

MAX_COUNT = 2**53
"""maximum count of uses and reinforcements: the largest integer that every store and JSON reader keeps exactly"""


def line_of(memory: Memory) -> str:
    """A memory as one line of JSON, without its line end."""
    return _MEMORY.dump_json(memory, exclude_defaults=True).decode()


def memory_of(line: str) -> Memory:
    """The memory of such a line. Raises ``BadInput`` with the fault of an invalid line."""
    try:
        memory = _MEMORY.validate_json(line)
    except ValidationError as error:
        raise BadInput(f"not a memory: {_first(error.errors(include_url=False, include_input=False))}") from None
    state = memory.state
    if not _ID.fullmatch(memory.id):
        raise BadInput("not a memory: event.event_id: letters, digits and . _ : - only, at most 128")
    if not 0 <= state.confidence <= 1:  # nor is NaN
        raise BadInput("not a memory: state.confidence: from 0 to 1")
    for name in ("access_count", "reinforced_count"):
        if not 0 <= getattr(state, name) <= MAX_COUNT:
            raise BadInput(f"not a memory: state.{name}: from 0 to {MAX_COUNT}")
    return memory


def json_of(extraction: Extraction) -> str:
    return _EXTRACTION.dump_json(extraction, exclude_defaults=True).decode()


def kind_in(start: str) -> Kind:
    """The kind in the first ``KIND_CHARS`` characters of what `json_of` wrote: the first field, unless it is a note."""
    field, _, kind = start[2:].partition('":"')
    return cast(Kind, kind.partition('"')[0]) if field == "kind" else "note"


KIND_CHARS = 32


def extraction_of(written: str) -> Extraction:
    """Read the JSON of `json_of`."""
    return _small(written) if len(written) < _SMALL else _read(written)


def _read(written: str) -> Extraction:
    # By hand where it is only names and facts, which takes a fifth of the time.
    fields = loads(written)
    if not _PLAIN.issuperset(fields):
        return _EXTRACTION.validate_json(written)
    return Extraction(
        fields.get("kind", "note"),
        tuple([Entity(**entity) for entity in fields.get("entities", ())]),
        tuple([Fact(**fact) for fact in fields.get("facts", ())]),
    )


_SMALL = 40
"""maximum characters of an extraction that has only a kind; recall reads a hundred at once"""

_small = lru_cache(64)(_read)

_PLAIN = frozenset({"kind", "entities", "facts"})


def _first(errors: list[Any]) -> str:
    where = ".".join(str(part) for part in errors[0]["loc"])
    return f"{where}: {errors[0]['msg']}" if where else str(errors[0]["msg"])
