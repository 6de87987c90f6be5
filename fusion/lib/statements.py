"""Splits a note into statements (its lines, and the sentences of its paragraphs), each identified by its words.

A forgotten statement stays forgotten when it moves within its note or changes its list marker, case or line breaks. All
functions are pure and take time linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fusion.lib.redact import redact_lines
from fusion.lib.text_cache import text_cache
from fusion.lib.words import content_hash, words_and_pictures

HEADING_WORDS = 3
"""minimum words of a heading without a digit that is a statement; a shorter one names a section ("# Notes")"""

_HEADING = re.compile(r"\s{0,3}#{1,6}(?:\s|$)")
_BEGINS = re.compile(r"\s*(?:[-*+]\s|1[.)]\s|[>|#]|```|~~~)")
"""a line that does not continue the one before it"""
_NUMBERED = re.compile(r"\s*\d{1,9}[.)]\s")
"""the same after another numbered line; otherwise a paragraph may be wrapped before a number"""
_SENTENCE_END = re.compile(r"[.!?\u2026\u3002\uff01\uff1f][\"')\]\u201d\u2019]{0,3}\s+")
_DIGIT = re.compile(r"\d")
_KEY_HINTS = ("PRIVATE KEY", "Private-Lines:")
"""strings in the lines that name a PEM or PuTTY key; the other lines of a key are plain base64"""


@dataclass(frozen=True, slots=True)
class Statement:
    """Characters ``start`` to ``end`` of a text, and the key of their words."""

    start: int
    end: int
    key: str


CACHED_CHARS = 8_000
"""maximum characters of a text whose statements are cached: chunks of files are queried repeatedly, files are not"""


def statements(text: str) -> tuple[Statement, ...]:
    """All statements of a text. They may overlap: a line may be part of a sentence, or a sentence part of a line."""
    return _cached(text) if len(text) <= CACHED_CHARS else _found(text)


def _found(text: str) -> tuple[Statement, ...]:
    found: dict[tuple[int, int], Statement] = {}
    for start, end in _lines(text):
        line = text[start:end]
        words = words_and_pictures(line)
        if words and not (_HEADING.match(line) and len(words) < HEADING_WORDS and not _DIGIT.search(line)):
            found[start, end] = Statement(start, end, _key(words))
    for start, end in sentences(text):
        words = words_and_pictures(text[start:end])
        if (start, end) not in found and (len(words) > 1 or _DIGIT.search("".join(words))):
            found[start, end] = Statement(start, end, _key(words))
    return tuple(found.values())


_cached = text_cache(1024)(_found)


def without(text: str, forgotten: Callable[[str], bool]) -> str:
    """The text without its forgotten statements; the number of lines stays the same, so that line numbers hold.

    ``forgotten`` says whether a statement's key was forgotten.
    """
    gone = [one for one in statements(text) if forgotten(one.key)]
    if not gone:
        return text
    hidden = bytearray(len(text))
    for one in gone:
        hidden[one.start : one.end] = b"\1" * (one.end - one.start)
    # A private key is recognised by its first or last line, so the other lines are masked before one of these goes.
    masked = redact_lines(text) if any(hint in text for hint in _KEY_HINTS) else None
    kept = []
    for number, (start, end) in enumerate(_all_lines(text)):
        line = text[start:end]
        if 1 in hidden[start:end]:
            line = "".join(c for c, gone_here in zip(line, hidden[start:end], strict=True) if not gone_here).rstrip()
            line = line if words_and_pictures(line) else ""
        if masked is not None and number < len(masked) and masked[number] != text[start:end]:
            line = "" if 1 in hidden[start:end] else masked[number]
        kept.append(line)
    return "\n".join(kept)


def says_something(text: str) -> bool:
    """Whether a text has anything but headings and horizontal rules."""
    return any(not _HEADING.match(text[s:e]) and words_and_pictures(text[s:e]) for s, e in _lines(text))


def _key(words: list[str]) -> str:
    return f"said:{content_hash(' '.join(words))}"


def _all_lines(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for line in text.split("\n"):
        yield start, start + len(line)
        start += len(line) + 1


def _lines(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each line that is not blank."""
    return ((start, end) for start, end in _all_lines(text) if text[start:end].strip())


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each sentence of a paragraph; a list item counts as a paragraph."""
    for start, end in _paragraphs(text):
        at = start
        for stop in _SENTENCE_END.finditer(text, start, end):
            yield at, stop.end()
            at = stop.end()
        if at < end:
            yield at, end


def _paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each run of lines that continue one another."""
    first = last = -1
    closed, numbered = True, False
    for start, end in _all_lines(text):
        line = text[start:end]
        number = bool(_NUMBERED.match(line))
        if not line.strip() or closed or _BEGINS.match(line) or (number and numbered):
            if first >= 0:
                yield first, last
            first = -1
        if line.strip():
            first = start if first < 0 else first
            last = end
        numbered = number and (first == start or numbered)
        closed = not line.strip() or bool(_HEADING.match(line))
    if first >= 0:
        yield first, last
