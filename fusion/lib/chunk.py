"""Splits a Markdown text into chunks: whole blocks of one section, with their line numbers.

A chunk never spans two sections. A block (paragraph, list, table, code fence) is split only if it is larger than a
chunk: a list at its items, a table at its rows, any other block at its lines, and a line that is still too long between
two words. Every line that is not blank is in exactly one chunk. If a section is split, a chunk also has the end of the
chunk before it (the overlap), so that a text across the cut can be found. The overlap is searched and not shown:
forgetting a chunk removes exactly its lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token
from mdit_py_plugins.front_matter import front_matter_plugin

PARSING = 0.5
"""share of the time that parsing takes, roughly; the rest is for splitting the sections"""
BYTES_PER_TOKEN = 4
"""estimate: four bytes of UTF-8 are one token; close for English prose, too high for code and CJK"""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Lines ``start`` to ``end`` (from 1, both included) of a text, with the headings above them.

    ``part`` is 0 for whole lines; the parts of a line that was too long count from 1. ``lead`` is the overlap: the end
    of the previous chunk of the same section, whose lines belong to that chunk.
    """

    text: str
    start: int
    end: int
    headings: tuple[str, ...] = ()
    part: int = 0
    lead: str = ""

    @property
    def searched(self) -> str:
        """The chunk's text and the overlap before it, without the headings."""
        return f"{self.lead}\n{self.text}" if self.lead else self.text


def tokens(text: str) -> int:
    """The size of a text in tokens of four UTF-8 bytes, by which chunks are cut (seed 001).

    Budgets of blocks and calls use `fusion.lib.budget.estimate_tokens`.
    """
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


Report = Callable[[float], None]
"""called with the share of a text that is done, from 0 to 1"""


def chunks(text: str, size: int = 400, overlap: int = 80, report: Report = lambda share: None) -> list[Chunk]:
    """Split ``text`` into chunks of at most about ``size`` tokens, in the order of their lines.

    Chunks of one section overlap by up to ``overlap`` tokens of whole pieces, which count for the size. CRLF and CR are
    read as LF. ``report`` is called for each block, since a text of megabytes takes a while.
    """
    lines = unix(text).split("\n")
    cutter = _Cutter(lines, size, overlap)
    found: list[Chunk] = []
    waiting: list[_Piece] = []  # headings without text, and front matter: they are put at the start of the next section
    waiting_section = _Section((), 0, [])
    for section in _sections(lines, cutter, report):
        if waiting and section.level <= waiting_section.level:
            found += cutter.pack(waiting, waiting_section.headings)
            waiting = []
        pieces = waiting + section.pieces
        if all(piece.lead for piece in pieces):
            waiting, waiting_section = pieces, section
        else:
            found += cutter.pack(pieces, section.headings)
            waiting = []
    return found + cutter.pack(waiting, waiting_section.headings)


def unix(text: str) -> str:
    """The text with LF as its only line end."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


@dataclass(frozen=True, slots=True)
class _Piece:
    """Lines ``start`` to ``end`` (from 0, end excluded) that stay together. ``lead``: a heading or front matter."""

    start: int
    end: int
    lead: bool = False
    part: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class _Section:
    headings: tuple[str, ...]
    level: int
    pieces: list[_Piece]


@dataclass(frozen=True, slots=True)
class _Block:
    start: int
    end: int
    token: Token
    inside: Sequence[Token]


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    """A parser of blocks only; inline markup is not needed, and parsing it would take most of the time."""
    parser = MarkdownIt("commonmark").enable("table").use(front_matter_plugin)
    parser.block.ruler.before("front_matter", "report", _report)
    return parser.disable(["inline", "text_join"])


def _report(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    """A parser rule that matches nothing and reports the progress."""
    if state.level == 0:
        state.env["report"](line / end)
    return False


def _blocks(stream: Sequence[Token], level: int, start: int, end: int) -> list[_Block]:
    """The blocks at one level of nesting. Each extends to the start of the next one, so that no line is lost (a link
    definition has no token)."""
    opened: list[tuple[int, Token, Sequence[Token]]] = []
    i = 0
    while i < len(stream):
        token = stream[i]
        close = i
        if token.nesting == 1:
            close = next(j for j in range(i + 1, len(stream)) if stream[j].nesting == -1 and stream[j].level == level)
        if token.map is not None and token.map[0] < end:
            opened.append((token.map[0], token, stream[i + 1 : close]))
        i = close + 1
    if not opened:
        return []
    opened[0] = (start, *opened[0][1:])
    ends = [first for first, _, _ in opened[1:]] + [end]
    return [_Block(first, last, token, inside) for (first, token, inside), last in zip(opened, ends, strict=True)]


def _sections(lines: Sequence[str], cutter: _Cutter, report: Report) -> Iterator[_Section]:
    """The sections of a document; the text before the first heading has level 0."""
    stack: list[tuple[int, str]] = []
    pieces: list[_Piece] = []
    env = {"report": lambda share: report(share * PARSING)}
    blocks = _blocks(_parser().parse("\n".join(lines), env), 0, 0, len(lines))
    if not blocks:
        yield _Section((), 0, list(cutter.by_line(0, len(lines))))
        return
    for block in blocks:
        report(PARSING + (1 - PARSING) * block.start / len(lines))
        if block.token.type == "heading_open":
            yield _section(stack, pieces)
            level = int(block.token.tag[1])
            while stack and stack[-1][0] >= level:
                stack.pop()
            stack.append((level, " ".join(block.inside[0].content.split())))
            pieces = []
            pieces += cutter.lead(block)
        elif block.token.type == "front_matter":
            pieces += cutter.lead(block)
        else:
            pieces += cutter.pieces(block, 0)
    yield _section(stack, pieces)


def _section(stack: Sequence[tuple[int, str]], pieces: list[_Piece]) -> _Section:
    return _Section(tuple(title for _, title in stack if title), stack[-1][0] if stack else 0, pieces)


class _Cutter:
    def __init__(self, lines: Sequence[str], size: int, overlap: int) -> None:
        self.lines = lines
        self.size = size
        self.overlap = overlap
        self._bytes = list(accumulate((len(line.encode("utf-8", "replace")) + 1 for line in lines), initial=0))

    def cost(self, start: int, end: int) -> int:
        return -(-(self._bytes[end] - self._bytes[start]) // BYTES_PER_TOKEN)

    def pieces(self, block: _Block, level: int) -> Iterator[_Piece]:
        """A block whole if it fits; else its inner blocks; else its lines."""
        if self.cost(block.start, block.end) <= self.size:
            yield _Piece(block.start, block.end)
            return
        inner = _blocks(block.inside, level + 1, block.start, block.end)
        if not inner:
            yield from self.by_line(block.start, block.end)
        for child in inner:
            yield from self.pieces(child, level + 1)

    def lead(self, block: _Block) -> Iterator[_Piece]:
        """A heading or front matter, and the lines below it without a token (link definitions).

        One that is larger than a chunk is split like text.
        """
        body = block.token.map[1] if block.token.map else block.end
        if self.cost(block.start, body) <= self.size:
            yield _Piece(block.start, body, lead=True)
        else:
            yield from self.by_line(block.start, body)
        yield from self.by_line(body, block.end)

    def by_line(self, start: int, end: int) -> Iterator[_Piece]:
        for n in range(start, end):
            line = self.lines[n]
            if not line.strip():
                continue
            if self.cost(n, n + 1) <= self.size:
                yield _Piece(n, n + 1)
            else:
                parts = _parts(line, self.size * BYTES_PER_TOKEN)
                yield from (_Piece(n, n + 1, part=i, text=part) for i, part in enumerate(parts, start=1))

    def pack(self, pieces: Sequence[_Piece], headings: tuple[str, ...]) -> list[Chunk]:
        """Fill chunks with pieces in order; a heading never closes one."""
        found: list[Chunk] = []
        tail: list[_Piece] = []
        run: list[_Piece] = []

        def close() -> None:
            start, end = self._trimmed(run[0].start, run[-1].end) if run else (0, 0)
            if start < end:
                lead = self._text(tail[0].start, tail[-1].end) if tail else ""
                found.append(Chunk(self._text(start, end), start + 1, end, headings, lead=lead))

        for piece in pieces:
            if piece.part:
                close()
                tail, run = [], []
                found.append(Chunk(piece.text, piece.start + 1, piece.end, headings, piece.part))
                continue
            full = run and self.cost((tail or run)[0].start, piece.end) > self.size
            if full and not all(p.lead for p in run):
                close()
                tail, run = self._tail(run, piece), []
            run.append(piece)
        close()
        return found

    def _tail(self, run: Sequence[_Piece], following: _Piece) -> list[_Piece]:
        """The overlap with the next chunk: the last whole pieces that fit into both limits."""
        tail: list[_Piece] = []
        for piece in reversed(run):
            too_much = self.cost(piece.start, run[-1].end) > self.overlap
            if too_much or piece.lead or self.cost(piece.start, following.end) > self.size:
                break
            tail.insert(0, piece)
        return tail

    def _text(self, start: int, end: int) -> str:
        start, end = self._trimmed(start, end)
        return "\n".join(self.lines[start:end])

    def _trimmed(self, start: int, end: int) -> tuple[int, int]:
        while start < end and not self.lines[start].strip():
            start += 1
        while start < end and not self.lines[end - 1].strip():
            end -= 1
        return start, end


def _parts(line: str, limit_bytes: int) -> Iterator[str]:
    """A line split between words, or within a word that is too long itself; spaces at the cuts are dropped."""
    word = re.compile(r"\S+")
    start = last = None
    for match in word.finditer(line):
        first, end = match.span()
        if start is not None and last is not None and _is_over(line, start, end, limit_bytes):
            yield line[start:last]
            start = None
        start = first if start is None else start
        while _is_over(line, start, end, limit_bytes):
            cut = start + max(1, limit_bytes // 4)  # a character has four bytes at most
            yield line[start:cut]
            start = cut
        last = end
    if start is not None:
        yield line[start:last]


def _is_over(line: str, start: int, end: int, limit_bytes: int) -> bool:
    """Whether a part of a line is too long. A character has at least one byte, so a long part needs no encoding."""
    return end - start > limit_bytes or _size(line[start:end]) > limit_bytes


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
