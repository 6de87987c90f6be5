"""Edits one member of a JSON text with comments, and leaves every other character as it is.

Editors and agents keep their settings in JSON with comments and trailing commas, which a parser would lose.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

MAX_DEPTH = 100
# What is not closed ends with its line, or with the text: so no character is looked at twice.
_STRING = re.compile(r'"(?:[^"\\\n]++|\\.)*+"?')
_TOKEN = re.compile(rf"{_STRING.pattern}|//[^\n]*+|/\*(?s:.*?)(?:\*/|\Z)")
_TRAILING_COMMA = re.compile(r",(?=\s*[}\]])")
_SCALAR = re.compile(r"[^\s,}\]{\[\":]+")


class Member(NamedTuple):
    """A member of an object: its name, where it begins, and where its value begins and ends."""

    name: str
    start: int
    value: int
    end: int


def parse(text: str) -> dict[str, Any]:
    """The object that a text has; {} for an empty one. Raises ValueError for anything else."""
    plain = _without_comments(text)
    if not plain.strip():
        return {}
    found = json.loads(_without_trailing_commas(plain))
    if not isinstance(found, dict):
        raise ValueError("it is no object")
    return found


def with_member(text: str, path: Sequence[str], value: Any) -> str:
    """A text in which the member at ``path`` is ``value``; objects on the way are added. Raises ValueError."""
    parse(text)
    text = text if _without_comments(text).strip() else text + "{}\n"
    plain = _without_comments(text)
    start = plain.index("{")
    for depth, name in enumerate(path):
        members = {one.name: one for one in _members(plain, start)}
        last = depth == len(path) - 1
        if name not in members:
            inner = value
            for missing in reversed(path[depth + 1 :]):
                inner = {missing: inner}
            return _inserted(text, start, [*members.values()], name, inner, depth + 1)
        found = members[name]
        if last:
            return text[: found.value] + _written(value, _indent_at(text, found.start)) + text[found.end :]
        if plain[found.value] != "{":
            raise ValueError(f"{'.'.join(path[: depth + 1])} is no object")
        start = found.value
    raise ValueError("there is no path")


def without_member(text: str, path: Sequence[str]) -> str:
    """A text without the member at ``path``, with its comma; the text itself if there is none. Raises ValueError."""
    parse(text)
    plain = _without_comments(text)
    start = plain.find("{")
    for depth, name in enumerate(path):
        members = [*_members(plain, start)] if start >= 0 else []
        place = next((n for n, one in enumerate(members) if one.name == name), None)
        if place is None:
            return text
        found = members[place]
        if depth < len(path) - 1:
            start = found.value if plain[found.value] == "{" else -1
            continue
        if place + 1 < len(members):
            return text[: found.start] + text[members[place + 1].start :]
        before = members[place - 1].end if place else start + 1
        return text[:before] + text[found.end :]
    return text


def _inserted(text: str, start: int, members: Sequence[Member], name: str, value: Any, depth: int) -> str:
    """A text with a new first member in the object that begins at ``start``."""
    indent = _indent_at(text, members[0].start) if members else "  " * depth
    added = f"\n{indent}{json.dumps(name)}: {_written(value, indent)}"
    rest = text[start + 1 :]
    if members:
        rest = rest if rest.startswith(("\n", "\r\n")) else f"\n{indent}{rest.lstrip(' ')}"
        return f"{text[: start + 1]}{added},{rest}"
    return f"{text[: start + 1]}{added}\n{indent[:-2]}{rest.lstrip()}"


def _written(value: Any, indent: str) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", f"\n{indent}")


def _indent_at(text: str, place: int) -> str:
    """The blanks before a place, if it is the first on its line."""
    before = text[text.rfind("\n", 0, place) + 1 : place]
    return before if not before.strip() else "  "


def _without_comments(text: str) -> str:
    """The text with blanks in place of its comments, so that every place stays the same."""

    def blank(found: re.Match[str]) -> str:
        token = found.group()
        return token if token.startswith('"') else re.sub(r"[^\n]", " ", token)

    return _TOKEN.sub(blank, text)


def _without_trailing_commas(plain: str) -> str:
    """The text without commas before the end of a list or an object; strings are left alone."""
    parts, at = [], 0
    for found in _STRING.finditer(plain):
        parts += [_TRAILING_COMMA.sub(" ", plain[at : found.start()]), found.group()]
        at = found.end()
    return "".join([*parts, _TRAILING_COMMA.sub(" ", plain[at:])])


def _members(plain: str, start: int) -> Iterator[Member]:
    """The members of the object that begins at ``start``, in a text that `parse` accepts."""
    at = start + 1
    while plain[at] != "}":
        if plain[at] != '"':
            at += 1
            continue
        begin, at = at, _end_of(plain, at)
        name: str = json.loads(plain[begin:at])
        value = plain.index(":", at) + 1
        while plain[value].isspace():
            value += 1
        at = _end_of(plain, value)
        yield Member(name, begin, value, at)


def _end_of(plain: str, at: int) -> int:
    """Where the value that begins at a place ends."""
    depth = 0
    while True:
        if plain[at] == '"':
            found = _STRING.match(plain, at)
            at = found.end() if found else at + 1
        elif plain[at] in "{[":
            depth += 1
            at += 1
        elif plain[at] in "}]":
            depth -= 1
            at += 1
        elif found := _SCALAR.match(plain, at):
            at = found.end()
        else:
            at += 1
        if not depth:
            return at


def members_of(value: Mapping[str, Any], path: Sequence[str]) -> Any:
    """The value at a path; None if there is none."""
    found: Any = value
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found
