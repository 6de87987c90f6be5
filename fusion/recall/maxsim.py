"""Late interaction: for each token of the query, its best match among the tokens of a text.

Khattab and Zaharia, "ColBERT", SIGIR 2020. The best matches are weighted by how rare a token's word is, so that a name
counts for more than "the": score = Σ w(t) · best(t) / Σ w(t), with w(t) = ln((N + 1) / (df + 1)) + 0.1.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from math import log
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fusion.contract import UNKNOWN_PIECE, TokenVectors
from fusion.lib.accelerator import numkong
from fusion.lib.bm25 import Frequencies
from fusion.lib.words import STOP_WORDS, stem, words_and_pictures

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SAME_WORD, _OTHER_WORD, _PLAIN = 0.85, 0.19, 0.33
# Mean cosines of a token's best match in a text that has its word, in one that has not, and of stop words and signs,
# over the memories that questions of one conversation find.
_BLOCK = 1024
# Rows that are put together and multiplied at a time: 1024 × 384 bytes stay in the cache, and so do as many floats.


def token_weights(words: Sequence[str], frequencies: Frequencies) -> list[float]:
    """w(t) of each token, by the document frequency of its word.

    Stop words have no counts: they are taken to be in every document, so their weight is 0.1.
    """
    everywhere = frequencies.documents
    found = []
    for word in words:
        df = everywhere if _is_plain(word) else min(frequencies.counts.get(stem(word), 0), everywhere)
        found.append(log((everywhere + 1) / (df + 1)) + 0.1)
    return found


def match_unknown_words(query: TokenVectors, texts: Sequence[str], matches: NDArray[np.float32]) -> bool:
    """Replace the matches of words that the model cannot spell by whether a text has the word: 1 or 0.

    To the model all such words are one. Returns whether they are at least half of the query.
    """
    unknown = [i for i, token in enumerate(query.tokens) if token == UNKNOWN_PIECE]
    if unknown:
        parts = {i: words_and_pictures(query.words[i]) for i in unknown}
        for row, text in enumerate(texts):
            present = set(words_and_pictures(text))
            for i in unknown:
                matches[row, i] = bool(parts[i]) and present.issuperset(parts[i])
    return bool(unknown) and 2 * len(unknown) >= len(query.tokens)


def matches_by_words(words: Sequence[str], texts: Sequence[Container[str]]) -> NDArray[np.float32]:
    """What `best_matches` would be of texts without vectors, by their stems: the usual cosine of a token whose word is
    in the text, and of another."""
    import numpy as np

    stems = [None if _is_plain(word) else stem(word) for word in words]
    rows = [[_PLAIN if s is None else _SAME_WORD if s in text else _OTHER_WORD for s in stems] for text in texts]
    return np.array(rows, dtype=np.float32).reshape(len(texts), len(words))


def _is_plain(word: str) -> bool:
    return word in STOP_WORDS or not any(c.isalnum() for c in word)


def best_matches(query: TokenVectors, texts: Sequence[TokenVectors], *, fast: bool = True) -> NDArray[np.float32]:
    """The cosine of each query token's best match in each text, shape (len(texts), query tokens).

    A text without tokens matches nothing: its row is 0. ``fast`` uses numkong where it is installed: a quarter of the
    time, and the same numbers, for products of int8 are whole numbers that a float32 holds exactly (384 · 127² < 2²⁴).
    """
    import numpy as np

    matches = np.zeros((len(texts), len(query.vectors)), dtype=np.float32)
    # reduceat needs non-empty segments: it would give an empty text the next one's first row.
    at = [i for i, t in enumerate(texts) if len(t.vectors)]
    if not at or not len(query.vectors):
        return matches
    products_with = _products_with(query.vectors, numkong() if fast else None)
    best = [
        np.maximum.reduceat(products_with(np.concatenate(block)), np.cumsum([0, *map(len, block[:-1])]), axis=0)
        for block in _blocks([texts[i].vectors for i in at])
    ]
    scales = np.array([texts[i].scale for i in at], dtype=np.float32) * np.float32(query.scale)
    matches[at] = np.concatenate(best).astype(np.float32) * scales[:, None]
    return matches


def _blocks(texts: Sequence[NDArray[np.int8]]) -> Iterator[list[NDArray[np.int8]]]:
    """The texts in order, in blocks of about `_BLOCK` rows."""
    block: list[NDArray[np.int8]] = []
    rows = 0
    for text in texts:
        if block and rows + len(text) > _BLOCK:
            yield block
            block, rows = [], 0
        block.append(text)
        rows += len(text)
    if block:
        yield block


def _products_with(columns: NDArray[np.int8], fast: ModuleType | None) -> Callable[[NDArray[np.int8]], NDArray[Any]]:
    """What gives the inner product of each of some rows with each of these columns."""
    import numpy as np

    if fast is not None:
        packed = fast.dots_pack(np.ascontiguousarray(columns))
        return lambda rows: np.asarray(fast.dots_packed(rows, packed))
    wide = np.ascontiguousarray(columns.astype(np.float32).T)
    return lambda rows: rows.astype(np.float32) @ wide
