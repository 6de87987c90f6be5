"""A Markdown text as sections: what stands under one heading, cut where its blocks end, with its lines.

CommonMark decides what is a heading: a `#` in a code fence is none, an underlined line is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_FENCE = re.compile(r"-{3,}[ \t]*")
_FIELD = re.compile(r"([\w][\w .-]{0,63}?)\s*:(?:\s+(.*))?$")
_ITEM = re.compile(r"\s*-\s+(.*)$")


@dataclass(frozen=True, slots=True)
class Section:
    """Lines ``start`` to ``end`` of a document, counted from 1, both included; ``text`` is those lines as they stand.

    ``heading`` is the path of headings above it, the outermost first and its own last. A line
    longer than a section may be makes several sections with the same line.
    """

    heading: tuple[str, ...]
    start: int
    end: int
    text: str


def sections(text: str, max_chars: int = 1600, overlap_lines: int = 0) -> list[Section]:
    """The sections of a Markdown text in their order, each of at most ``max_chars`` characters.

    A section begins with its heading's line and is cut, when it is too long, where a block
    ends (a list item, a line, a blank, in that order, where the block itself is too long).
    Pieces after the first repeat up to ``overlap_lines`` lines of the one before, as far as they
    fit. Front matter belongs to no section. A heading with nothing below it but deeper
    headings makes no section of its own: theirs carry it in ``heading``.
    """
    if max_chars < 1:
        raise ValueError("max_chars must be at least 1")
    lines = _lines(text)
    body = _front_matter_end(lines)
    tokens = _parser().parse("\n".join([""] * body + lines[body:]))
    path: list[tuple[int, str]] = []
    found: list[Section] = []
    for start, end, cuts, heading in _outline(tokens, body, len(lines)):
        if heading is not None:
            level, title = heading
            path = [(above, name) for above, name in path if above < level] + [(level, title)]
        names = tuple(name for _, name in path)
        found.extend(_pieces(lines, start, end, cuts, names, max_chars, overlap_lines))
    return found


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


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark")


_Outline = tuple[int, int, list[int], tuple[int, str] | None]


def _outline(tokens: list[Token], first: int, count: int) -> Iterator[_Outline]:
    """Each section as (first line, line after its last, lines at which it may be cut, its heading), from 0.

    Cuts are where a top-level block or an item of a top-level list begins.
    """
    start, has_body = first, False
    cuts: list[int] = []
    heading: tuple[int, str] | None = None
    for index, token in enumerate(tokens):
        if token.map is None or token.nesting < 0:
            continue
        if token.type == "heading_open" and token.level == 0:
            next_level = int(token.tag[1])
            if has_body or (heading is not None and next_level <= heading[0]):
                yield start, token.map[0], cuts, heading
                start = token.map[0]
            elif heading is not None:
                # Only deeper headings below: it gives them its name and yields no lines of its own.
                yield start, start, [], heading
                start = token.map[0]
            heading, cuts, has_body = (next_level, _title(tokens[index + 1])), [], False
        elif token.level == 0 or (token.type == "list_item_open" and token.level == 1):
            cuts.append(token.map[0])
            has_body = True
    yield start, count, cuts, heading


def _title(inline: Token) -> str:
    parts = (child.content or " " for child in inline.children or () if child.nesting == 0)
    return " ".join("".join(parts).split())


def _pieces(
    lines: list[str], start: int, end: int, cuts: list[int], heading: tuple[str, ...], max_chars: int, overlap: int
) -> Iterator[Section]:
    while end > start and not lines[end - 1].strip():
        end -= 1
    while start < end and not lines[start].strip():
        start += 1
    allowed = set(cuts)
    at, first = start, start
    while at < end:
        size = len(lines[at])
        if size > max_chars:
            for part in _parts(lines[at], max_chars):
                yield Section(heading, at + 1, at + 1, part)
            at = first = at + 1
            while at < end and not lines[at].strip():
                at = first = at + 1
            continue
        stop, best = at + 1, 0
        used = len("\n".join(lines[first : at + 1]))
        while stop < end and used + 1 + len(lines[stop]) <= max_chars:
            used += 1 + len(lines[stop])
            stop += 1
            if stop in allowed:
                best = stop
        # Half a section is enough to prefer a clean cut; below that a short scrap would stand alone.
        if stop < end and best and len("\n".join(lines[first:best])) * 2 >= max_chars:
            stop = best
        last = stop
        while last > at + 1 and not lines[last - 1].strip():
            last -= 1
        yield Section(heading, first + 1, last, "\n".join(lines[first:last]))
        while stop < end and not lines[stop].strip():
            stop += 1
        at = first = stop
        if stop < end:
            room = max_chars - len(lines[stop])
            while first > max(start, stop - overlap) and (room := room - 1 - len(lines[first - 1])) >= 0:
                first -= 1


def _parts(line: str, max_chars: int) -> Iterator[str]:
    line = line.strip()
    while len(line) > max_chars:
        blank = line.rfind(" ", max_chars // 2, max_chars + 1)
        cut = blank if blank > 0 else max_chars
        yield line[:cut]
        line = line[cut:].lstrip()
    if line:
        yield line
