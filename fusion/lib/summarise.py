"""The sections of a Markdown text, and a summary of each by rules: its most central sentence, in its own words.

All functions are pure and take time linear in the text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fusion.lib.budget import clip
from fusion.lib.chunk import chunks
from fusion.lib.statements import sentences
from fusion.lib.words import stems

MAX_SUMMARY_CHARS = 220
"""maximum characters of a summary, those of an episode's in seed 004"""
HEADING_WEIGHT = 2
"""how often a word of the headings counts more than one of the text"""
SHORT_WORDS = 5
"""words that are added to a sentence's length, so that a short one does not win by a single frequent word"""

_MARKUP = re.compile(r"\s*(?:#{1,6}(?:\s|$)|```|~~~|\||---\s*$)", re.MULTILINE)
"""the beginning of a heading, fence, table, rule or front matter"""
_MARKER = re.compile(r"\s*(?:[-*+>]|\d{1,9}[.)])\s+(?:\[[ xX]\]\s+)?")
"""the marker of a list item, task or quote"""


@dataclass(frozen=True, slots=True)
class Section:
    """Lines ``start`` to ``end`` (from 1, both included) under the same headings, outermost first."""

    headings: tuple[str, ...]
    start: int
    end: int
    text: str


def sections(text: str) -> list[Section]:
    """The sections of a text in order, those with text alone."""
    found: list[Section] = []
    for chunk in chunks(text):
        last = found[-1] if found else None
        if last is not None and last.headings == chunk.headings:
            joined = last.text + ("" if chunk.part > 1 else "\n") + chunk.text
            found[-1] = replace(last, end=max(last.end, chunk.end), text=joined)
        else:
            found.append(Section(chunk.headings, chunk.start, chunk.end, chunk.text))
    return [section for section in found if section.text.strip()]


def summary(section: Section) -> str:
    """The sentence or list item that has most of the section's frequent words, as one line.

    Of a section without one, such as code or a table, the first line with words; "" if it has none.
    """
    candidates = list(_candidates(section.text))
    weights = Counter(term for _, terms in candidates for term in terms)
    for term in stems(" ".join(section.headings)):
        weights[term] += HEADING_WEIGHT
    best, most = "", 0.0
    for line, terms in candidates:
        score = sum(weights[term] for term in terms) / (SHORT_WORDS + len(terms))
        if score > most:
            best, most = line, score
    return clip(best or _first_line(section.text), MAX_SUMMARY_CHARS)


def _first_line(text: str) -> str:
    lines = (" ".join(line.split()) for line in text.splitlines() if not _MARKUP.match(line) or "|" in line)
    return next((line for line in lines if stems(line)), "")


def _candidates(text: str) -> Iterator[tuple[str, Sequence[str]]]:
    """Each sentence and list item outside of markup, as one line without its marker, and its terms."""
    for start, end in sentences(text):
        said = text[start:end]
        if _MARKUP.match(said):
            continue
        marker = _MARKER.match(said)
        line = " ".join(said[marker.end() if marker else 0 :].split())
        if terms := frozenset(stems(line)):
            yield line, sorted(terms)
