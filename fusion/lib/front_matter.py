"""The fields between the `---` lines that open a Markdown document."""

from __future__ import annotations

import re

_FENCE = re.compile(r"-{3,}[ \t]*")
_FIELD = re.compile(r"([\w][\w .-]{0,63}?)\s*:(?:\s+(.*))?$")
_ITEM = re.compile(r"\s*-\s+(.*)$")


def front_matter(text: str) -> dict[str, str]:
    """The fields between the `---` lines that open a document: flat, keys in lower case, a list joined by ``, ``."""
    lines = _lines(text)
    fields: dict[str, str] = {}
    key = ""
    for line in lines[1 : max(0, _front_matter_end(lines) - 1)]:
        if field := _FIELD.match(line):
            key = field[1].lower()
            fields[key] = _unquoted(field[2] or "")
        elif key and (item := _ITEM.match(line)):
            fields[key] = f"{fields[key]}, {_unquoted(item[1])}" if fields[key] else _unquoted(item[1])
    return fields


def _unquoted(value: str) -> str:
    value = value.strip()
    if value.startswith("[") and value.endswith("]") and not value.startswith("[["):
        return ", ".join(_unquoted(part) for part in value[1:-1].split(",") if part.strip())
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value


def _lines(text: str) -> list[str]:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _front_matter_end(lines: list[str]) -> int:
    """How many lines the front matter takes, its fences included; 0 without one."""
    if not lines or lines[0].rstrip() != "---":
        return 0
    for number, line in enumerate(lines[1:], start=1):
        if _FENCE.fullmatch(line) or line.rstrip() == "...":
            return number + 1
    return 0
