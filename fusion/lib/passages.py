"""Splits a long text into passages: the parts of it that are found, ranked and shown by themselves.

A short text is one passage: what somebody said up to `SAID_CHARS` characters, and what was written up to
`WRITTEN_CHARS`, since a writer keeps to one subject for longer. A longer text is cut where its writer cut it: at
paragraphs, list items and code blocks. A block that is too long is cut between sentences, code between lines, and what
is still too long between two words. Short neighbours stay together up to `PASSAGE_CHARS`. A heading, or a line that
ends in a colon, belongs to what follows it. Every character that is not white space is in exactly one passage.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from fusion.lib.text_cache import text_cache
from fusion.lib.words import spoken

SAID_CHARS = 600
"""characters up to which what somebody said is one passage"""
WRITTEN_CHARS = 1_000
"""characters up to which a text without a speaker is one passage: with 600, MuSiQue's paragraphs lose 1.6 points R@5"""
PASSAGE_CHARS = 450
"""characters of a passage, about a hundred tokens; a block that is not much longer is not cut"""
_WHOLE_CHARS = PASSAGE_CHARS * 4 // 3
"""characters up to which a single block stays whole: a cut would leave a very short rest"""
_LEAD_CHARS = 200
"""maximum characters of a line that introduces the next block"""
_LONGEST_CHARS = 2 * PASSAGE_CHARS
"""characters from which a sentence or a line of code is cut between words"""

_FENCE = re.compile(r"\s{0,3}(```|~~~)")
_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s+\S")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s|\s*\*\*[^*\n]+\*\*:?\s*$")
_SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’)\]]*\s+(?=\S)|[。！？]")


class Span(NamedTuple):
    """The characters ``start`` to ``end`` of a text, end excluded."""

    start: int
    end: int


class _Block(NamedTuple):
    start: int
    end: int
    kind: str
    """``text``, ``item``, ``code`` or ``heading``"""


def is_long(text: str, speaker: str | None) -> bool:
    """Whether a text has several passages."""
    return len(text) > (SAID_CHARS if speaker else WRITTEN_CHARS)


@text_cache(8192)
def passages(text: str, speaker: str | None) -> tuple[Span, ...]:
    """The passages of a text in reading order, without white space around them; none of an empty text.

    Cached, since the same memories are ranked again and again.
    """
    if not is_long(text, speaker):
        return _without_space(text, [Span(0, len(text))])
    pieces: list[Span] = []
    lead: Span | None = None
    for block in _blocks(text):
        start = block.start if lead is None else lead.start
        introduces = block.kind == "text" and text[block.start : block.end].rstrip().endswith(":")
        if block.kind == "heading" or (introduces and block.end - block.start <= _LEAD_CHARS):
            lead = Span(start, block.end)
            if lead.end - lead.start <= _LEAD_CHARS:
                continue
        pieces += _cut(text, _Block(start, block.end, block.kind))
        lead = None
    if lead is not None:
        pieces.append(lead)
    return _without_space(text, _joined(pieces))


def passage_texts(text: str, speaker: str | None) -> list[str]:
    """The texts of the passages, in reading order."""
    return [text[start:end] for start, end in passages(text, speaker)]


def spoken_passages(text: str, speaker: str | None) -> tuple[str, ...]:
    """The texts of a memory that have a vector each: its passages with the speaker, or all of a short text."""
    parts = passage_texts(text, speaker) if is_long(text, speaker) else []
    return tuple(spoken(part, speaker) for part in parts or [text])


def _blocks(text: str) -> Iterator[_Block]:
    """The blocks of a text: paragraphs, list items, fenced code and headings."""
    open_block: _Block | None = None
    fence: str | None = None
    end = 0
    for line in text.splitlines(keepends=True):
        start, end = end, end + len(line)
        mark = _FENCE.match(line)
        if fence is not None:
            assert open_block is not None  # noqa: S101 - a fence opens a block
            open_block = open_block._replace(end=end)
            if mark is not None and mark[1] == fence:
                yield open_block
                open_block, fence = None, None
            continue
        kind = _kind(line, mark)
        if open_block is not None and kind == "text":
            open_block = open_block._replace(end=end)
            continue
        if open_block is not None:
            yield open_block
            open_block = None
        if kind == "heading":
            yield _Block(start, end, kind)
        elif kind:
            open_block = _Block(start, end, kind)
            fence = mark[1] if mark is not None else None
    if open_block is not None:
        yield open_block


def _kind(line: str, mark: re.Match[str] | None) -> str:
    """The kind of block that a line begins; ``text`` may also go on with the block before, and "" ends it."""
    if mark is not None:
        return "code"
    if not line.strip():
        return ""
    if _ITEM.match(line):
        return "item"
    return "heading" if _HEADING.match(line) else "text"


def _cut(text: str, block: _Block) -> Iterator[Span]:
    """A block in parts of about `PASSAGE_CHARS`, cut at sentences, or at lines of code; whole if it is short enough."""
    if block.end - block.start <= _WHOLE_CHARS:
        yield Span(block.start, block.end)
        return
    start = last = block.start
    for end in (*_ends(text, block), block.end):
        if end - start > PASSAGE_CHARS and last > start:
            yield Span(start, last)
            start = last
        last = end
        while last - start > _LONGEST_CHARS:
            space = text.rfind(" ", start + 1, start + PASSAGE_CHARS)
            cut = space if space > start else start + PASSAGE_CHARS
            yield Span(start, cut)
            start = cut
    if start < block.end:
        yield Span(start, block.end)


def _ends(text: str, block: _Block) -> Iterator[int]:
    """Where the sentences of a block end, or the lines of code."""
    if block.kind == "code":
        at = text.find("\n", block.start, block.end)
        while at >= 0:
            yield at + 1
            at = text.find("\n", at + 1, block.end)
    else:
        for match in _SENTENCE_END.finditer(text, block.start, block.end):
            yield match.end()


def _joined(pieces: list[Span]) -> list[Span]:
    """Neighbours as one while they fit into a passage."""
    found: list[Span] = []
    for piece in pieces:
        if found and piece.end - found[-1].start <= PASSAGE_CHARS:
            found[-1] = Span(found[-1].start, piece.end)
        else:
            found.append(piece)
    return found


def _without_space(text: str, spans: list[Span]) -> tuple[Span, ...]:
    found = []
    for start, end in spans:
        part = text[start:end]
        begin = start + len(part) - len(part.lstrip())
        stop = begin + len(part.strip())
        if stop > begin:
            found.append(Span(begin, stop))
    return tuple(found)
