"""Splits a text that is too long for one memory at its blocks, as a long file is chunked.

One memory is limited in characters, and in bytes of the request that brings it. Readers of files split a text that is
over either limit, so that no request is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from fusion.contract import Place
from fusion.ingest.intake import MAX_TEXT_CHARS, NewMemory
from fusion.lib.chunk import chunks
from fusion.lib.words import content_hash
from fusion.sources.files import Skip

MAX_TEXT_BYTES = 200_000
"""maximum bytes of one text in JSON; the server's default limit is 262,144 for a whole request"""
SURELY_SHORT = MAX_TEXT_BYTES // 6
"""characters that always fit: JSON needs at most six bytes for each"""
MAX_DOCUMENT_CHARS = 512


def is_too_long(text: str) -> bool:
    """Whether a text exceeds the limits of one memory."""
    return len(text) > SURELY_SHORT and (len(text) > MAX_TEXT_CHARS or _json_bytes(text) > MAX_TEXT_BYTES)


def split(memory: NewMemory) -> Iterator[NewMemory]:
    """The memory itself, or the pieces of one that is too long, in order.

    The pieces of a turn have a document of their own, by line, so they supersede no other turn's.
    """
    if not is_too_long(memory.text):
        yield memory
        return
    document = _document(memory)
    for number, piece in enumerate(chunks(memory.text), start=1):
        if piece.text.strip():
            yield replace(
                memory,
                text=piece.text,
                place=Place(document, piece.start, piece.end, "line"),
                revision=f"{content_hash(memory.revision)[:8]}:{number}:{content_hash(piece.text)}",
            )


def _document(memory: NewMemory) -> str:
    """The document of the pieces: the document of the whole, and its position."""
    place = memory.place
    whole = f"{place.document}#{place.start}" if place is not None else f"{memory.source or 'text'}#{memory.revision}"
    if len(whole) <= MAX_DOCUMENT_CHARS:
        return whole
    return f"{whole[: MAX_DOCUMENT_CHARS - 33]}-{content_hash(whole)}"


def _json_bytes(text: str) -> int:
    """How many bytes a text takes in JSON, at most."""
    escaped = sum(text.count(character) for character in '"\\\n\t\r\b\f')
    controls = sum(character < " " for character in text if character < " ")
    return len(text.encode("utf-8", "replace")) + escaped + 6 * controls


def in_pieces(
    found: Iterable[NewMemory | Skip], split_up: Callable[[NewMemory], None] = lambda memory: None
) -> Iterator[NewMemory | Skip]:
    """Yields the items with each memory that is too long split; ``split_up`` is called with it before."""
    for item in found:
        if isinstance(item, Skip):
            yield item
            continue
        if is_too_long(item.text):
            split_up(item)
        yield from split(item)
