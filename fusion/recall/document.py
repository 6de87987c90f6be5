"""Pages of a cited document, without forgotten lines and without secrets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fusion.contract import Place, Unit
from fusion.lib.budget import clip
from fusion.lib.chunk import unix
from fusion.lib.redact import redact_lines

PAGE_LINES = 200
MAX_LINES = 2000
MAX_VERSIONS = 50
"""earlier versions of a file that are read at once"""
MAX_CHARS = 20_000
"""maximum characters of one page: about the most that an agent's prompt has room for from a single tool"""

Forgotten = Callable[[Sequence[str]], Mapping[int, str]]
"""Of a document's lines, those with forgotten text: by number from 1, the part that may be shown."""


def lines_of_file(text: str, forgotten: Forgotten) -> Mapping[int, str]:
    """A file's lines by number. Lines that may not be shown are blank, so that numbers stay."""
    text = unix(text)
    lines = text.split("\n")
    shown = redact_lines(text)
    for number, left in forgotten(lines).items():
        # Redaction looks at the lines around a secret: with a part taken out it could miss the secret.
        shown[number - 1] = left if shown[number - 1] == lines[number - 1] else ""
    return dict(enumerate(shown, start=1))


def lines_of_memories(found: Sequence[tuple[Place, str]]) -> Mapping[int, str]:
    """The lines or turns of one document's memories, by number; of two at one place the later one."""
    lines: dict[int, str] = {}
    for place, text in found:
        parts = unix(text).split("\n") if place.unit == "line" else [text]
        lines.update(enumerate(parts, start=place.start))
    return dict(sorted(lines.items()))


def page(path: str, unit: Unit, known: Mapping[int, str], start: int, count: int) -> dict[str, Any]:
    """A page: at most ``count`` lines or turns from number ``start``, at most `MAX_CHARS`; ``known`` is sorted.

    ``next_from`` is the start of the next page, None at the end. A start after the end gives an empty page. Turns have
    the numbers of their source, which may begin at 0, so those before 1 are on the page that starts at 1.
    """
    last = max(known, default=0)
    if unit == "turn" and start == 1:
        start = min((1, *known))
    # A file has blank lines between two memories; a conversation has nothing between turns.
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
