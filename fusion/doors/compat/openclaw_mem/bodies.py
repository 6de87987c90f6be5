"""The fields of requests to openclaw-mem's gateway, read as leniently as it reads them.

A number that is none takes its default, and one that is out of range the nearest that is in it; unknown fields are
ignored. What is missing or too long is refused with openclaw-mem's sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, cast, get_args

from fusion.doors.schemas.proposals import Category
from fusion.errors import BadInput

MAX_TEXT_CHARS = 8000
Body = Mapping[str, Any]


def text(body: Body, name: str, most: int) -> str:
    """A field that must say something. Raises BadInput."""
    found = optional_text(body, name, most)
    if found is None:
        raise BadInput(f"missing required field: {name}")
    return found


def optional_text(body: Body, name: str, most: int) -> str | None:
    """A field that may be left out; None if it is empty. Raises BadInput for a text that is too long."""
    value = body.get(name)
    said = "" if value is None else value.strip() if isinstance(value, str) else str(value)
    if len(said) > most:
        raise BadInput(f"field too large: {name}; {most} characters are the most")
    return said or None


def integer(body: Body, name: str, default: int, most: int, least: int = 1) -> int:
    """A whole number within its limits."""
    return int(number(body, name, default, least, most))


def number(body: Body, name: str, default: float, least: float = 0.0, most: float = 1.0) -> float:
    """A number within its limits."""
    value = body.get(name)
    try:
        found = default if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = default
    return min(max(found if isfinite(found) else default, least), most)


def category(body: Body, default: Category) -> Category:
    """What sort of thing a text is. Raises BadInput."""
    found = str(body.get("category") or default).strip().lower()
    if found not in get_args(Category):
        raise BadInput(f"invalid category; there are {', '.join(get_args(Category))}")
    return cast("Category", found)


def texts(body: Body, name: str) -> list[str]:
    """A list of texts, which may be left out. Raises BadInput."""
    found = body.get(name) or []
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise BadInput(f"{name} must be a list of strings")
    return found
