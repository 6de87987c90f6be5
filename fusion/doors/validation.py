"""Strict parsing of requests, and error messages that name the wrong field and never repeat a sent value."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from pydantic import ValidationError

from fusion.errors import BadInput
from fusion.problem import NO_SUCH_FIELD

ONE, MANY = _TAGS = ("(one memory)", "(many memories)")
"""pydantic tags of the two forms of `schemas.MemoriesBody`; a message leaves them out of a field's path"""


def content_of(body: bytes) -> object:
    """The JSON of a body. Raises BadInput if it is not JSON, or if an object has a field twice."""
    try:
        content: object = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadInput(f"The body is not JSON: {error}") from None
    if _has_duplicate_field(body, content):
        raise BadInput("The body has a field twice in one object; send it once.")
    return content


_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""Possessive, and an unclosed string ends with the body, so that matching is linear."""


def _has_duplicate_field(body: bytes, content: object) -> bool:
    """Whether an object in this JSON has a name twice. Parsers differ in which one they keep; orjson reports nothing.

    Outside strings JSON has one colon for each member; more colons than parsed members mean a duplicate.
    """
    colons = _STRING.sub(b"", body).count(b":")
    stack, members = [content], 0
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            members += len(value)
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)
    return colons != members


def refuse_duplicates(parameters: Sequence[tuple[str, str]]) -> None:
    """Raise BadInput if a parameter is given twice."""
    if len(dict(parameters)) != len(parameters):
        raise BadInput("A parameter is given twice.")


def explain(error: ValidationError) -> str:
    """The first five errors with their fields, without sent values."""
    return summary(error.errors(include_input=False, include_url=False, include_context=False))


def summary(errors: Sequence[Mapping[str, Any]]) -> str:
    """The first five of pydantic's errors as one line."""
    lines = [
        f"{_field_path(e['loc'])}: {_MESSAGES.get(e['type'], e['msg'].removeprefix('Value error, '))}"
        for e in errors[:5]
    ]
    more = f" (and {len(errors) - 5} more)" if len(errors) > 5 else ""
    return "; ".join(lines) + more


def _field_path(loc: Sequence[int | str]) -> str:
    """The path of a field, "memories[3].at"; long names are cut."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part[:64]}" for part in loc if part not in _TAGS)
    return path.lstrip(".").encode("utf-8", "replace").decode() or "body"


_MESSAGES = {
    "extra_forbidden": NO_SUCH_FIELD,
    "missing": "is missing",
    "string_too_short": "is empty",
    "tuple_type": "must be a list",
}
