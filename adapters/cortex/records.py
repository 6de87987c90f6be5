"""Memories as JSON: one line each in an export, and what a store keeps of an extraction beside its rows.

The same memory is the same bytes, whichever store it comes from; fields that have their default are left out, so that
a field which is added later changes no line.
"""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter, ValidationError

from adapters.cortex.port import Memory
from fusion.contract import Extraction
from fusion.errors import BadInput

_MEMORY: TypeAdapter[Memory] = TypeAdapter(Memory)
_EXTRACTION: TypeAdapter[Extraction] = TypeAdapter(Extraction)


def line_of(memory: Memory) -> str:
    """A memory as one line of JSON, without its line end."""
    return _MEMORY.dump_json(memory, exclude_defaults=True).decode()


def memory_of(line: str) -> Memory:
    """The memory of such a line. Raises ``BadInput`` that says what is wrong with it."""
    try:
        return _MEMORY.validate_json(line)
    except ValidationError as error:
        raise BadInput(f"not a memory: {_first(error.errors(include_url=False, include_input=False))}") from None


def json_of(extraction: Extraction) -> str:
    return _EXTRACTION.dump_json(extraction, exclude_defaults=True).decode()


def extraction_of(written: str) -> Extraction:
    return Extraction() if written == "{}" else _EXTRACTION.validate_json(written)


def _first(errors: list[Any]) -> str:
    where = ".".join(str(part) for part in errors[0]["loc"])
    return f"{where}: {errors[0]['msg']}" if where else str(errors[0]["msg"])
