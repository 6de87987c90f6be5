"""A document for whoever follows a citation: without what was forgotten, without secrets, a page at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fusion.contract import Place, Unit
from fusion.lib.budget import clip
from fusion.lib.chunk import unix
from fusion.lib.redact import redact_lines

PAGE_LINES = 200
MAX_LINES = 2000
MAX_CHARS = 20_000
"""of one page: about what an agent's prompt can bear of a single tool"""

Forgotten = Callable[[Sequence[str]], Mapping[int, str]]
"""Of those lines of a document that say what was forgotten, by number from 1, what may be shown."""


def lines_of_file(text: str, forgotten: Forgotten) -> Mapping[int, str]:
    """A file's lines by number, as they may be shown. What may not leaves blank lines, so that numbers stay."""
    text = unix(text)
    lines = text.split("\n")
    shown = redact_lines(text)
    for number, left in forgotten(lines).items():
        # A line with a secret is masked by what stands around it, too: without a part of it that may be missed.
        shown[number - 1] = left if shown[number - 1] == lines[number - 1] else ""
    return dict(enumerate(shown, start=1))


def lines_of_memories(found: Sequence[tuple[Place, str]]) -> Mapping[int, str]:
    """The lines or turns that memories of one document stand at, by number; of two at one place the later one."""
    lines: dict[int, str] = {}
    for place, text in found:
        parts = unix(text).split("\n") if place.unit == "line" else [text]
        lines.update(enumerate(parts, start=place.start))
    return dict(sorted(lines.items()))


def page(path: str, unit: Unit, known: Mapping[int, str], start: int, count: int) -> dict[str, Any]:
    """At most ``count`` lines or turns from number ``start``, in at most `MAX_CHARS`; ``known`` is in order.

    ``next_from`` is where the next page begins, None at the end. A start behind the end is an empty page.
    """
    last = max(known, default=0)
    # Blank lines between two memories of a file are lines of it; between turns there is nothing.
    numbers = range(start, min(start + count - 1, last) + 1) if unit == "line" else [n for n in known if n >= start]
    shown: list[str] = []
    room = MAX_CHARS
    for number in numbers[:count]:
        line = known.get(number, "")
        if shown and len(line) > room:
            break
        shown.append(clip(line, MAX_CHARS))
        room -= len(line) + 1
    end = numbers[len(shown) - 1] if shown else start
    following = next((n for n in known if n > end), None) if shown else None
    return {
        "path": path,
        "unit": unit,
        "from": numbers[0] if shown else start,
        "lines": len(shown),
        "text": "\n".join(shown),
        "truncated": following is not None,
        "next_from": following,
    }
