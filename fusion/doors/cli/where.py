"""Reads ``--where NAME=VALUE`` options into the filter of a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusion.errors import BadInput

SINGLE = frozenset({"after", "before"})
PROPERTY = "property."


def where_of(options: Sequence[str] | None) -> dict[str, Any] | None:
    """The filter that some options name; the server says which names exist. Raises BadInput without a name or value."""
    found: dict[str, Any] = {}
    for option in options or ():
        name, equals, value = option.partition("=")
        if not (name and equals and value):
            raise BadInput(f"--where {option!r}: write NAME=VALUE, tag=reefer or property.type=customer")
        if name.startswith(PROPERTY):
            found.setdefault("property", {}).setdefault(name.removeprefix(PROPERTY), []).append(value)
        elif name in SINGLE:
            found[name] = value
        else:
            found.setdefault(name, []).append(value)
    return found or None
