"""Synthesis cards: a short, cited summary of one subject, compiled by rules from facts, edges and memories.

A language model may word what was compiled. A card is derived. Its digest covers everything that it was made of, so it
is stale as soon as a new one would differ: a source was changed or forgotten, or a newer fact holds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

MAX_FACTS, MAX_EDGES, MAX_MEMORIES = 8, 4, 4
MAX_LINE_CHARS = 240
METHOD = "rules-1"
"""the method and version of a card that no model worded"""


@dataclass(frozen=True, slots=True)
class CardLine:
    """One line of a card, and the ref that says so; ``more`` are further refs of a line that joins several."""

    ref: str
    text: str
    more: tuple[str, ...] = ()

    @property
    def refs(self) -> tuple[str, ...]:
        """Every ref that the line cites."""
        return (self.ref, *self.more)


@dataclass(frozen=True, slots=True)
class Card:
    """A card of a subject, by its ref; ``sources`` are the ids of the events that it is made of."""

    subject: str
    lines: tuple[CardLine, ...]
    sources: tuple[str, ...]

    @property
    def digest(self) -> str:
        """The hash of what it says and of what it is made of."""
        parts = [self.subject, [[line.ref, line.text] for line in self.lines], sorted(self.sources)]
        return blake2b(json.dumps(parts, ensure_ascii=True).encode(), digest_size=16).hexdigest()

    @property
    def body(self) -> str:
        """Its lines as JSON, as they are stored."""
        return written_lines(self.lines)


def compile_card(
    subject: str,
    facts: Sequence[CardLine],
    edges: Sequence[CardLine],
    memories: Sequence[CardLine],
    sources: Iterable[str],
) -> Card:
    """A card of the first facts, edges and memories, each line once and cut to `MAX_LINE_CHARS`."""
    chosen = [*facts[:MAX_FACTS], *edges[:MAX_EDGES], *memories[:MAX_MEMORIES]]
    lines = {line.text: CardLine(line.ref, line.text[:MAX_LINE_CHARS]) for line in reversed(chosen)}
    return Card(subject, tuple(lines.values())[::-1], tuple(sorted(set(sources))))


def written_lines(lines: Iterable[CardLine]) -> str:
    """Lines as JSON, as they are stored."""
    return json.dumps([[line.ref, line.text, *line.more] for line in lines], ensure_ascii=False)


def read_lines(body: str) -> tuple[CardLine, ...]:
    """The lines of a stored card."""
    return tuple(CardLine(ref, text, tuple(more)) for ref, text, *more in json.loads(body))


def differences(old: Sequence[CardLine], new: Sequence[CardLine]) -> list[str]:
    """Why a card is stale, in words: which refs say something new, and which say what it has no more."""
    before, after = set(old), set(new)
    gone = [f"{line.ref} does not say any more what the card cites" for line in old if line not in after]
    added = [f"{line.ref} says something that the card does not have" for line in new if line not in before]
    return [*gone, *added] or ["a source was replaced"]
