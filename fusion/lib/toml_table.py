"""Replaces one table of a TOML text, and leaves every other line as it is, with its comments."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

_HEADER = re.compile(r"^[ \t]*\[", re.MULTILINE)


def with_table(text: str, table: str, name: str, values: Mapping[str, Any] | None) -> str:
    """A text in which ``table.name`` has these values, which are texts and lists of texts; None removes it.

    Raises ValueError for a text that is not TOML, and for one in which the table is not written with a header.
    """
    before = tomllib.loads(text)
    start, end = _span(text, table, name)
    if start < 0 and name in before.get(table, {}):
        raise ValueError(f"{table}.{name} is not written as a table of its own")
    if values is None:
        return text if start < 0 else text[:start] + text[end:]
    lines = [f"[{table}.{name}]", *(f"{key} = {_value(value)}" for key, value in values.items())]
    written = "\n".join(lines) + "\n"
    if start >= 0:
        return text[:start] + written + ("\n" if text[end:] else "") + text[end:]
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return text + gap + written


def _span(text: str, table: str, name: str) -> tuple[int, int]:
    """Where a table begins and ends, with those below it; (-1, -1) if there is none."""
    quoted = rf'(?:{re.escape(name)}|"{re.escape(name)}"|\'{re.escape(name)}\')'
    header = re.compile(rf"^[ \t]*\[[ \t]*{re.escape(table)}[ \t]*\.[ \t]*{quoted}[ \t]*(?P<end>[\].])", re.MULTILINE)
    first = header.search(text)
    if first is None:
        return -1, -1
    end = len(text)
    for following in _HEADER.finditer(text, first.end()):
        if header.match(text, following.start()) is None:
            end = following.start()
            break
    return first.start(), end


def _value(value: Any) -> str:
    """A text or a list of texts in TOML, whose basic strings are those of JSON."""
    return json.dumps(value, ensure_ascii=False)
