"""BERT's uncased tokeniser: cleaning, lower case, no accents, then the longest word pieces that the vocabulary has.

J. Devlin et al., "BERT", 2018; the greedy longest match is from Y. Wu et al., "Google's Neural Machine Translation
System", 2016. Unlike the original, the names of special tokens in a text ("[SEP]") are text like any other: a memory
must not be able to end its sentence.
"""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice

from fusion.contract import UNKNOWN_PIECE

UNKNOWN, FIRST, LAST = UNKNOWN_PIECE, "[CLS]", "[SEP]"
_LONGEST_WORD = 100
# Characters. BERT's own limit: longer strings are no words, and greedy matching is quadratic in the length.
_REMEMBERED_WORDS = 32_768
_ASCII_PUNCTUATION = frozenset(string.punctuation)
_DROPPED = frozenset({"Cc", "Cf", "Cs", "Co"})
# Not "Cn": a character that this Python does not know yet, such as a new emoji, is still a character.
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


@dataclass(frozen=True, slots=True)
class Piece:
    """One word piece: its id and text in the vocabulary, and the lower-case word of the text that it is part of."""

    id: int
    text: str
    word: str


class WordPiece:
    """Cuts texts into pieces of ``vocabulary``, whose order gives the ids."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._ids = {piece: number for number, piece in enumerate(vocabulary)}
        self.first, self.last, self.padding = self._ids[FIRST], self._ids[LAST], self._ids["[PAD]"]
        self._unknown = self._ids[UNKNOWN]
        # Words repeat: caching them makes a text ten times cheaper than splitting it again.
        self._of_word = lru_cache(maxsize=_REMEMBERED_WORDS)(self._cut)

    def knows(self, word: str) -> bool:
        """Whether the vocabulary has a lower-case word as a whole."""
        return word in self._ids

    def pieces(self, text: str, limit: int) -> list[Piece]:
        """The first ``limit`` pieces of ``text``, without special tokens."""
        found = chain.from_iterable(self._of_word(word) for word in _words(text))
        return list(islice(found, limit))

    def _cut(self, word: str) -> tuple[Piece, ...]:
        source = word.lower()
        return tuple(
            Piece(number, text, source) for part in _split(_plain(word)) for number, text in self._longest_match(part)
        )

    def _longest_match(self, part: str) -> list[tuple[int, str]]:
        unknown = [(self._unknown, UNKNOWN)]
        if len(part) > _LONGEST_WORD:
            return unknown
        found: list[tuple[int, str]] = []
        start = 0
        while start < len(part):
            prefix = "##" if start else ""
            for end in range(len(part), start, -1):
                piece = prefix + part[start:end]
                if (number := self._ids.get(piece)) is not None:
                    break
            else:
                return unknown
            found.append((number, piece))
            start = end
        return found


def _words(text: str) -> Iterator[str]:
    """The words of a text, unchanged: cut at blanks; each punctuation mark and ideograph is its own word."""
    clean = text if text.isascii() and text.isprintable() else _clean(text)
    for chunk in clean.split():
        if chunk.isalnum() and chunk.isascii():
            yield chunk
        else:
            yield from _split(chunk)


def _clean(text: str) -> str:
    """NFC; control, format and private characters and surrogates dropped; each white space a blank."""
    kept: list[str] = []
    for character in unicodedata.normalize("NFC", text):
        if character in "\t\n\r":
            kept.append(" ")
        elif character != "\ufffd" and (category := unicodedata.category(character)) not in _DROPPED:
            kept.append(" " if category.startswith("Z") else character)
    return "".join(kept)


def _split(chunk: str) -> Iterator[str]:
    start = 0
    for i, character in enumerate(chunk):
        if _is_separate(character):
            if start < i:
                yield chunk[start:i]
            yield character
            start = i + 1
    if start < len(chunk):
        yield chunk[start:]


def _is_separate(character: str) -> bool:
    if character.isascii():
        return character in _ASCII_PUNCTUATION
    code = ord(character)
    return any(low <= code <= high for low, high in _IDEOGRAPHS) or unicodedata.category(character).startswith("P")


def _plain(word: str) -> str:
    """Lower case without accents: decomposed, combining marks dropped, then each character lowered separately."""
    if word.isascii():
        return word.lower()
    bare = (c for c in unicodedata.normalize("NFD", word) if unicodedata.category(c) != "Mn")
    return "".join(c.lower() for c in bare)
