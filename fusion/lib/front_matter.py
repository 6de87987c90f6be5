"""Reads the front matter of a Markdown document (YAML between two `---` lines) leniently.

If the front matter is not valid YAML, each entry is read separately, and an invalid entry is taken as plain text: a
fault in one entry affects neither the other entries nor the note. Aliases (`*name`) are plain text as well: aliases of
aliases would make gigabytes of a few kilobytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeGuard

HEAD_CHARS = 8_000
"""characters of a front matter that are read"""
BRACKETS = 100
"""maximum brackets in a YAML text that is parsed: libyaml takes quadratic time for brackets that are never closed"""
KEY_CHARS = 80
VALUE_CHARS = 1_000
"""characters of a value that are kept: a title precedes every chunk of its note"""

_FENCE = re.compile(r"-{3,}[ \t]*|\.\.\.[ \t]*")
_ENTRY = re.compile(r"([^\s:#\-\[{&*!|>'\"%@`][^:]{0,79}?)\s*:(?:\s+(.*))?$")


def front_matter(text: str) -> dict[str, str]:
    """The fields of the front matter, with keys in lower case and lists joined by ``, `` and cut at VALUE_CHARS."""
    joined: dict[str, str] = {}
    for key, values in read(text)[0]:
        joined[key.lower()] = ", ".join(values)[:VALUE_CHARS]
    return joined


def read(text: str) -> tuple[list[tuple[str, list[str]]], list[str]]:
    """The fields of the front matter, each with its value or values, and the lines of the body.

    Nested mappings are left out. A front matter without a closing line is part of the body.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines[0].rstrip() != "---":
        return [], lines
    end = next((number for number, line in enumerate(lines[1:], start=1) if _FENCE.fullmatch(line)), 0)
    return (_fields(lines[1:end]), lines[end + 1 :]) if end else ([], lines)


def _fields(lines: Sequence[str]) -> list[tuple[str, list[str]]]:
    head = "\n".join(lines)[:HEAD_CHARS]
    found = _parsed(head)
    if found is None:
        found = {}
        for entry in _entries(head.split("\n")):
            key, raw = entry[0]
            read = _parsed("\n".join([f"{key}: {raw}", *(line for _, line in entry[1:])]))
            found |= read if read is not None else {key: raw.strip().strip("\"'")}
    return [
        (key.strip(), list(_values(value)))
        for key, value in found.items()
        if isinstance(key, str) and 0 < len(key.strip()) <= KEY_CHARS and "\n" not in key
    ]


def _entries(lines: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Each line that begins with a key, as key and rest, with the following lines that have none."""
    entries: list[list[tuple[str, str]]] = []
    for line in lines:
        if begin := _ENTRY.match(line):
            entries.append([(begin[1], begin[2] or "")])
        elif entries:
            entries[-1].append(("", line))
    return entries


def _parsed(yaml: str) -> dict[Any, Any] | None:
    """The mapping in a YAML text, with all scalars as text; empty for other types.

    None for invalid YAML, and for YAML with aliases: they are found before any value is built.
    """
    if yaml.count("[") + yaml.count("{") > BRACKETS:
        return None
    import yaml as library

    loader = getattr(library, "CBaseLoader", library.BaseLoader)
    try:
        if "*" in yaml and any(isinstance(event, library.AliasEvent) for event in library.parse(yaml, Loader=loader)):
            return None
        found = library.load(yaml, Loader=loader)  # noqa: S506 - strings only
    except (library.YAMLError, RecursionError, ValueError):
        return None
    return found if isinstance(found, dict) else {}


def _values(value: object) -> Iterator[str]:
    """The texts of a scalar or a list of scalars; a wiki link, which YAML reads as nested lists, is written back."""
    for one in value if isinstance(value, list) and not _is_link(value) else [value]:
        if _is_link(one):
            yield f"[[{', '.join(one[0])[: VALUE_CHARS - 4]}]]"
        elif isinstance(one, str) and one.strip():
            yield " ".join(one.split())[:VALUE_CHARS]


def _is_link(value: object) -> TypeGuard[list[list[str]]]:
    return (
        isinstance(value, list)
        and len(value) == 1
        and isinstance(value[0], list)
        and bool(value[0])
        and all(isinstance(part, str) for part in value[0])
    )
