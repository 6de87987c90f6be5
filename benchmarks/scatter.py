"""Scatters one conversation over several stores, as real memories are.

Each session lies in one or two stores. Where it lies in two, half of its turns are in both: about a third of all turns.
The second copy has small edits and another document's name, and no common id.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from benchmarks.datasets import Item

TWO_STORES = 2 / 3
"""share of the sessions that lie in two stores"""
IN_BOTH = 1 / 2
"""share of such a session's turns that the second store has, too"""

SYNONYMS = {
    "awesome": "great", "big": "large", "children": "kids", "glad": "happy", "great": "wonderful", "happy": "glad",
    "kids": "children", "lovely": "beautiful", "photo": "picture", "picture": "photo", "really": "truly",
    "started": "began", "totally": "completely", "wow": "oh",
}  # fmt: skip
PREFIXES = ("Note: ", "Remember: ", "From chat: ")


@dataclass(frozen=True, slots=True)
class Copy:
    """A turn as one store has it. ``verbatim`` is False for the edited second copy."""

    turn: Item
    store: str
    document: str
    text: str
    verbatim: bool


def scatter(turns: Sequence[Item], stores: Sequence[str], seed: str) -> tuple[Copy, ...]:
    """Which store has which turn, the same for the same seed."""
    draw = Random(seed)
    copies: list[Copy] = []
    for session in dict.fromkeys(turn.document for turn in turns):
        first, second = draw.sample(list(stores), 2)
        twice = draw.random() < TWO_STORES
        for turn in turns:
            if turn.document != session:
                continue
            copies.append(Copy(turn, first, f"{first}/{session}", turn.text, True))
            if twice and draw.random() < IN_BOTH:
                copies.append(Copy(turn, second, f"{second}/{session}", edited(turn, draw), False))
    return tuple(copies)


def edited(turn: Item, draw: Random) -> str:
    """The turn's text with one small edit: case, punctuation, a synonym, or a prefix such as a date."""
    text = turn.text
    edits = [text.lower(), _punctuated(text), _prefixed(turn, draw), _with_synonym(text)]
    return draw.choice([edit for edit in edits if edit != text])


def _punctuated(text: str) -> str:
    return re.sub(r"[!,;]", "", text).replace("?", " ?").rstrip(". ") + "."


def _prefixed(turn: Item, draw: Random) -> str:
    date = [f"[{turn.at:%Y-%m-%d}] "] if turn.at else []
    return draw.choice([*PREFIXES, *date]) + turn.text


def _with_synonym(text: str) -> str:
    """With the first word that has a synonym replaced."""

    def swap(match: re.Match[str]) -> str:
        word = match.group()
        new = SYNONYMS[word.lower()]
        return new.capitalize() if word[0].isupper() else new

    return re.sub(rf"\b(?:{'|'.join(SYNONYMS)})\b", swap, text, count=1, flags=re.IGNORECASE)


def held_alone(copies: Sequence[Copy], *, by_document: bool = False) -> Mapping[str, str]:
    """For each turn that only one store has, that store, by turn id; or for each document of which only one has any."""
    stores: dict[str, set[str]] = {}
    for copy in copies:
        stores.setdefault(copy.turn.document if by_document else copy.turn.id, set()).add(copy.store)
    return {name: next(iter(held)) for name, held in stores.items() if len(held) == 1}
