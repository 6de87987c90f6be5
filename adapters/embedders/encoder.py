"""Runs a local model: texts in, vectors out. Synchronous, stateless and thread-safe.

The models are BERTs with the same vocabulary: all-MiniLM-L6-v2 (N. Reimers, I. Gurevych, "Sentence-BERT", 2019),
e5-small-v2 (L. Wang et al., "Text Embeddings by Weakly-Supervised Contrastive Pre-training", 2022) and
bge-small-en-v1.5 (S. Xiao et al., "C-Pack", 2023). The registry says how each makes one vector of its tokens', and
what it wants before a question and before a memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from adapters.embedders.wordpiece import Piece, WordPiece
from adapters.onnx_graph import fused
from adapters.onnx_session import open_session
from fusion.contract import Encoded, TokenVectors
from fusion.errors import ModelMissing
from fusion.lib.in_context import parts_of
from fusion.local_models.files import verify
from fusion.local_models.registry import DEFAULT, MODELS, LocalModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

MINILM = MODELS[DEFAULT]
VOCABULARY = Path(__file__).with_name("vocab.txt")
VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
DIMENSIONS = MINILM.dimensions

WINDOW = MINILM.window
"""tokens of a window: the model was trained on 256, two of which are the special ones"""
OVERLAP = 64
"""tokens that two windows share, so that each token has at least 32 neighbours on either side"""
MAX_TOKENS = 1024
"""tokens of a text that are read: about 4,000 characters, as much of one memory as ever gets into a request"""
_MAX_CHARACTERS = 16 * MAX_TOKENS
"""characters of a text that are cleaned and split into tokens; ordinary text has 4 to 5 characters a token"""

_MAX_ROWS = 32
"""windows in one run of the model"""
_MAX_CELLS = 256
"""rows × tokens of one run: texts of a hundred tokens go two by two. On passages of long messages, a run of 1,024 takes
8 % more CPU a token, and one of 2,048 a fifth more: what one operation makes leaves the cache before the next."""


@dataclass(frozen=True, slots=True)
class _Window:
    text: int
    """which of the texts this is a window of"""
    ids: list[int]
    """with the special tokens"""
    keep: slice
    """the tokens that this window answers for; in the overlaps, the nearer half"""


class Encoder:
    """Opens model and vocabulary, checking both hashes. Raises ``ModelMissing``, which says how to fix it.

    ``path`` is the model's file if it is not where it was installed. With ``in_context``, a text may be one of
    `fusion.lib.in_context`: the model reads all of it, and its vectors are those of the text in the middle.
    """

    def __init__(
        self,
        model: LocalModel = MINILM,
        path: Path | None = None,
        *,
        vocabulary: Path = VOCABULARY,
        in_context: bool = False,
    ) -> None:
        self.model = model
        self._in_context = in_context
        path = verify(model, path)
        _check_vocabulary(vocabulary)
        self._wordpiece = WordPiece(vocabulary.read_text("utf-8").splitlines())
        # Runs are small, so the memory that the arena keeps is little; it saves a tenth of the time.
        self._session = open_session(path, fused(path.read_bytes(), model.heads), arena=True)
        self._prefixes = {
            question: [piece.id for piece in self.pieces(prefix)]
            for question, prefix in ((True, model.query_prefix), (False, model.passage_prefix))
        }
        self._check_dimensions()

    def knows(self, word: str) -> bool:
        """Whether the vocabulary has a lower-case word as a whole."""
        return self._wordpiece.knows(word)

    def close(self) -> None:
        """See the port. The model is in memory and goes with the encoder."""

    def pieces(self, text: str) -> list[Piece]:
        return self._wordpiece.pieces(text[:_MAX_CHARACTERS], MAX_TOKENS)

    def encode(self, texts: Sequence[str], *, question: bool = False) -> list[Encoded]:
        """Encode the texts, in order, as memories or as questions.

        A question's token vectors have their ``tokens`` and ``words``. What the model wants before a text has no token
        vectors.
        """
        parts = [parts_of(text) if self._in_context else None for text in texts]
        pieces = [self.pieces(text if part is None else part[1]) for text, part in zip(texts, parts, strict=True)]
        prefix = self._prefixes[question]
        windows = [
            window
            for i, (found, part) in enumerate(zip(pieces, parts, strict=True))
            for window in self._windows(i, found, prefix, ("", "") if part is None else (part[0], part[2]))
        ]
        dense = np.zeros((len(texts), self.model.dimensions), np.float32)
        tokens: list[list[tuple[int, NDArray[np.float32]]]] = [[] for _ in texts]
        for batch in _batches(windows, 1 if self.model.encodes_alone else _MAX_ROWS):
            states, lengths = self._run([windows[i].ids for i in batch])
            for state, length, i in zip(states, lengths, batch, strict=True):
                window = windows[i]
                own = state[1 + len(prefix) : length - 1][window.keep]
                dense[window.text] += _unit(self._pooled(state[:length], own, alone=parts[window.text] is None))
                tokens[window.text].append((i, own))
        return [
            Encoded(_unit(dense[i]), _quantised([rows for _, rows in sorted(tokens[i], key=_position)], named))
            for i, named in enumerate(pieces if question else [()] * len(texts))
        ]

    def _check_dimensions(self) -> None:
        """Raises ``ModelMissing`` if the model cannot be run, or gives vectors of another length than it should."""
        try:
            states, _ = self._run([[self._wordpiece.first, self._wordpiece.last]])
        except Exception as error:
            raise ModelMissing(f"the model {self.model.name} does not run: {error}") from error
        if states.shape != (1, 2, self.model.dimensions):
            raise ModelMissing(
                f"the model {self.model.name} gives vectors of shape {states.shape}, and should give one of "
                f"{self.model.dimensions} numbers a token: it is another model"
            )

    def _pooled(self, state: NDArray[np.float32], own: NDArray[np.float32], *, alone: bool) -> NDArray[np.float32]:
        if not alone and len(own):
            return np.asarray(own.mean(axis=0))
        return np.asarray(state[0] if self.model.pooling == "cls" else state.mean(axis=0))

    def _windows(
        self, text: int, pieces: Sequence[Piece], prefix: Sequence[int], context: tuple[str, str]
    ) -> Iterator[_Window]:
        """The windows of a text; a text that fits one has as much of its context there as fits, half on each side."""
        ids, size = [piece.id for piece in pieces], self.model.window - len(prefix)
        if any(context) and len(ids) < size:
            half = (size - len(ids)) // 2
            before, after = ([piece.id for piece in self.pieces(part)] for part in context)
            before, after = before[max(0, len(before) - half) :], after[:half]
            window = [self._wordpiece.first, *prefix, *before, *ids, *after, self._wordpiece.last]
            yield _Window(text, window, slice(len(before), len(before) + len(ids)))
            return
        last = max(0, len(ids) - size)
        starts = [*range(0, last, size - OVERLAP), last]
        kept = 0
        for start, following in zip(starts, [*starts[1:], None], strict=True):
            end = len(ids) if following is None else (following + start + size) // 2
            window = [self._wordpiece.first, *prefix, *ids[start : start + size], self._wordpiece.last]
            yield _Window(text, window, slice(kept - start, end - start))
            kept = end

    def _run(self, rows: Sequence[Sequence[int]]) -> tuple[NDArray[np.float32], list[int]]:
        """The last layer's states, shape (rows, longest, dimensions), and how many of each row are not padding."""
        lengths = [len(row) for row in rows]
        ids = np.full((len(rows), max(lengths)), self._wordpiece.padding, np.int64)
        mask = np.zeros_like(ids)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = row
            mask[i, : len(row)] = 1
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        return self._session.run(None, inputs)[0], lengths


def _check_vocabulary(vocabulary: Path) -> None:
    fix = "install memory-fusion again"
    try:
        found = sha256(vocabulary.read_bytes()).hexdigest()
    except OSError as error:
        raise ModelMissing(f"{vocabulary} cannot be read ({error.strerror}): {fix}") from error
    if found != VOCABULARY_SHA256:
        raise ModelMissing(f"{vocabulary} is not the file that this program was built for (another sha256): {fix}")


def _batches(windows: Sequence[_Window], most: int) -> Iterator[list[int]]:
    """Indices of windows of about the same length, so that little of a run is padding."""
    batch: list[int] = []
    for i in sorted(range(len(windows)), key=lambda i: len(windows[i].ids)):
        if batch and (len(batch) == most or (len(batch) + 1) * len(windows[i].ids) > _MAX_CELLS):
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def _position(part: tuple[int, NDArray[np.float32]]) -> int:
    return part[0]


def _unit(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(vector / np.linalg.norm(vector), np.float32)


def _quantised(parts: Sequence[NDArray[np.float32]], pieces: Sequence[Piece]) -> TokenVectors:
    rows = np.concatenate(parts)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    scale = float(np.abs(rows).max(initial=0.0)) / 127 or 1.0
    named = tuple(piece.text for piece in pieces), tuple(piece.word for piece in pieces)
    return TokenVectors(np.rint(rows / scale).astype(np.int8), scale, *named)
