"""One block of what memory-fusion and other providers recall for a prompt.

The lines of the others stand at the end of memory-fusion's block, below the name of their provider. They are escaped,
and their secrets masked, as any memory's; none of them can close the block, or cite. A line that says what stands in
the block already is left out, by the rule with which the gateway merges duplicates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from fusion.lib.envelope import without_own_block, without_wrappers
from fusion.lib.escape import escape
from fusion.lib.fence import fenced, quoted
from fusion.lib.jaccard import jaccard
from fusion.lib.paraphrase import Kind, difference
from fusion.lib.redact import redact_lines
from fusion.lib.words import words

SIMILAR = 0.6
"""Jaccard of two lines from which on they may say the same, as in the recipe `default`"""
MAX_LINES = 200
"""lines of one provider that are looked at"""
_CLOSING = re.compile(r'\n</memories nonce="[^"<>\n]{1,80}">\s*\Z')
_MARKER = re.compile(
    r"\s*(?:[-*•]|\d{1,3}[.)])?\s*(?:\[[^\[\]\n]{1,24}\]\s*)?(?:(?:user|assistant):\s*)?", re.IGNORECASE
)
"""what a list puts before a statement: a bullet, a ref or score in brackets, the speaker"""


class _Statements:
    """The lines of a block so far, for what says the same."""

    def __init__(self) -> None:
        self._seen: list[tuple[str, frozenset[str]]] = []

    def is_new(self, line: str) -> bool:
        """Whether no line so far says the same; it then is one of them."""
        said = line[_MARKER.match(line).end() :]  # type: ignore[union-attr]  # it matches nothing, too
        found = words(said)
        if not found:
            return False
        for other, theirs in self._seen:
            if jaccard(found, theirs) >= SIMILAR and difference(said, other).kind is Kind.ALIKE:
                return False
        self._seen.append((said, found))
        return True


def joined(block: str, recalled: Mapping[str, str], chars: int) -> str:
    """The block with what other providers recalled, by their names; at most ``chars`` characters of each."""
    said = _Statements()
    for line in block.splitlines():
        said.is_new(line)
    sections = [section for name, text in recalled.items() if (section := _section(name, text, chars, said))]
    if not sections:
        return block
    added = "\n".join(sections)
    closing = _CLOSING.search(block)
    return f"{block[: closing.start()]}\n{added}{block[closing.start() :]}" if closing else fenced(added)


def _section(name: str, text: str, chars: int, said: _Statements) -> str:
    """The new lines of a provider below its name; "" if there are none."""
    kept = "\n".join(_new_lines(text, chars, said))
    return f"# {' '.join(escape(name).split())}\n{quoted(kept)}" if kept else ""


def _new_lines(text: str, chars: int, said: _Statements) -> Iterator[str]:
    left = chars
    for line in redact_lines(without_wrappers(without_own_block(text)))[:MAX_LINES]:
        line = line.rstrip()
        if line.lstrip().startswith("#") or not said.is_new(line):
            continue
        left -= len(line) + 1
        if left < 0:
            return
        yield line
