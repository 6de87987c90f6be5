"""Raises hits that share a name with the best hits (unlinked mentions).

A question that needs two notes often resembles only the first, and the first names the second. So the names in the
best hits (runs of capitalised words, and targets of ``[[wiki links]]``) are searched in the other hits, and the titles
of the others in the best hits; Obsidian calls these unlinked mentions. Only one step. A name in n hits counts 1/n.
Names in the question are ignored.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from fusion.lib.words import STOP_WORDS

HEAD = 3
"""leading hits whose names are followed"""

AMONG = 20
"""the best hits, which may be raised: as many as are read to be shown"""

NAMES = 40
"""maximum names of a hit that are followed, links first: a list of hundreds says little of each, and must stay cheap"""

_LINK = re.compile(r"\[\[([^\[\]|#\n]+)")
_ENDING = re.compile(r"\.(?:md|markdown)$", re.IGNORECASE)
_CAPITALISED = r"[A-ZÀ-ÖØ-ÞΑ-ΩА-Я][\w'’-]*"
_SMALL = r"(?:of|the|and|de|del|di|du|der|la|van|von)"
_NAME = re.compile(rf"(?<!\w){_CAPITALISED}(?: (?:{_SMALL} ){{0,2}}{_CAPITALISED})*")
_SHORTEST = 4
"""minimum letters of a name in ASCII, half as many in others: too many shorter ones are first words of sentences"""
_TOGETHER = "\u0e00"
"""first character of the scripts without blanks between words, or with attached particles: Thai, kana, Han, hangul"""


@dataclass(frozen=True, slots=True)
class Note:
    """A hit of a user's file: the file's path, and what the hit says."""

    document: str
    text: str

    @property
    def title(self) -> str:
        """The file's name in links: without folders and suffix."""
        return self.document.rpartition("/")[2].rpartition(".")[0]

    @property
    def intro(self) -> str:
        """The text in which names are looked for."""
        return f"{self.title}: {self.text}"

    @property
    def line(self) -> str:
        """The intro on one line, so that a name broken across lines is found."""
        return f"{self.title}: {self.text}".replace("\n", " ")


def led_to(question: str, scores: Sequence[tuple[str, float]], notes: Mapping[str, Note]) -> dict[str, float]:
    """The confidence, above 0 to 1, that the best hits lead to each key; ``scores`` are best first, between 0 and 1.

    Each name in common is a reason of its own (noisy-or: J. Pearl, "Probabilistic Reasoning in Intelligent Systems",
    1988), as strong as the hit that it comes from, shared by all that have it. Nothing leads on within a document, nor
    to one of the same name: every folder has its README.
    """
    asked = question.casefold()
    ranked = [(key, score) for key, score in scores if key in notes]
    titles = {key: notes[key].title for key, _ in ranked}
    lines = [notes[key].line for key, _ in ranked]
    page = "\n".join(lines)  # searched as a whole: so much cheaper than one by one
    ends = list(accumulate(len(line) + 1 for line in lines))
    head = "\n".join(lines[:HEAD])
    called: dict[str, set[str]] = defaultdict(set)
    for key, title in titles.items():
        called[title.casefold()].add(key)
    titled = {title for title in titles.values() if title in head}
    titled = {title for title in titled if _is_name(title) and title.casefold() not in asked}
    doubts: dict[str, float] = defaultdict(lambda: 1.0)
    for (key, score), line in zip(ranked[:HEAD], lines, strict=False):
        here = titles[key]
        linked = set(links(notes[key]))
        for name in names(notes[key]):
            if name.casefold() in asked:
                continue
            having = {ranked[bisect_right(ends, at)][0] for at in places(page, name)}
            if name in linked:  # to a file, however its name is capitalised
                having |= called.get(name.casefold(), set())
            others = [other for other in having if titles[other] != here]
            for other in others:
                doubts[other] *= 1 - score / len(others)
        named = {title for title in titled if title != here and next(places(line, title), None)}
        if named:
            for other, title in titles.items():
                if title in named:
                    doubts[other] *= 1 - score
    return {key: 1 - doubt for key, doubt in doubts.items()}


def links(note: Note) -> list[str]:
    """The targets of a note's links, each once, without folders and ending."""
    targets = (target.rpartition("/")[2].strip() for target in _LINK.findall(note.text))
    return list(dict.fromkeys(_ENDING.sub("", target) for target in targets))


def names(note: Note) -> list[str]:
    """The names in a note, each once, at most ``NAMES``, with its own title for notes that name it.

    A line end may part two names or be inside one: both readings are tried, and no other note has the wrong one.
    """
    found = dict.fromkeys(links(note))
    for text in (note.intro, note.line):
        found |= dict.fromkeys(_bare(name) for name in _NAME.findall(text))
    return [name for name in found if _long_enough(name)][:NAMES]


def places(text: str, name: str) -> Iterator[int]:
    """The ends of each occurrence of a name in a text, as a whole and not as part of a longer word."""
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        if not (_goes_on(text[max(start - 1, 0) : start]) or _goes_on(text[end : end + 1])):
            yield end
        start = text.find(name, end)


def _goes_on(character: str) -> bool:
    return character.isalnum() and character < _TOGETHER


def _bare(name: str) -> str:
    """A name without leading words that are capitalised only by position: "The", "In"."""
    words = name.split(" ")
    while words and words[0].lower() in STOP_WORDS:
        del words[0]
    return " ".join(words)


def _is_name(title: str) -> bool:
    """Whether a title in a text is likely a name: "water" is not, "Water" and "water pump" may be."""
    return _long_enough(title) and not (title.isascii() and title.isalpha() and title.islower())


def _long_enough(name: str) -> bool:
    return len(name) >= (_SHORTEST if name.isascii() else _SHORTEST / 2)
