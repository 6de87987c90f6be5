"""Runs a cross-encoder: a question and a passage together in, one number out. Synchronous and thread-safe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from adapters.judges.pairs import Pair, PairTokenizer
from adapters.onnx_session import open_session
from fusion.errors import ModelMissing

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
MAX_ROWS = 4
MAX_CELLS = 512
"""Pairs, and pairs × tokens, of one run, so that a deadline is soon noticed: MiniLM, the embedder, which has six layers
as the smallest judge has, takes about 0.1 s of CPU for so many."""
FIX = "name a cross-encoder in [judge] file"


class CrossEncoder:
    """A model in a file. Raises ModelMissing, which says how to fix it, if the file is not that of a cross-encoder."""

    def __init__(self, file: Path, tokenizer: PairTokenizer) -> None:
        self._tokenizer = tokenizer
        self._session = open_session(file)
        self._inputs = [one.name for one in self._session.get_inputs()]
        if INPUTS[0] not in self._inputs or not set(self._inputs) <= set(INPUTS):
            raise ModelMissing(
                f"{file} is no cross-encoder: it reads {', '.join(self._inputs)}, and one reads {', '.join(INPUTS)}; "
                f"{FIX}"
            )
        self._check(file)

    def pairs(self, query: str, passages: Sequence[str]) -> list[Pair]:
        """The tokens of each passage with the question."""
        return self._tokenizer.pairs(query, passages)

    def logits(self, pairs: Sequence[Pair]) -> list[float]:
        """One number a pair, in order; larger is better."""
        return [float(one) for one in self._run(pairs).reshape(len(pairs))]

    def _run(self, pairs: Sequence[Pair]) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        shape = len(pairs), max(len(pair.ids) for pair in pairs)
        ids = np.full(shape, self._tokenizer.padding, np.int64)
        mask, types = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        for i, pair in enumerate(pairs):
            ids[i, : len(pair.ids)] = pair.ids
            mask[i, : len(pair.ids)] = 1
            types[i, : len(pair.ids)] = pair.types
        values = dict(zip(INPUTS, (ids, mask, types), strict=True))
        return np.asarray(self._session.run(None, {name: values[name] for name in self._inputs})[0], np.float32)

    def _check(self, file: Path) -> None:
        """Raises ModelMissing unless the model gives one number for each of two pairs."""
        pairs = self.pairs("where is the key", ["the key is under the mat", "a boat"])
        try:
            found = self._run(pairs)
        except Exception as error:
            raise ModelMissing(f"{file} does not run as a cross-encoder ({error}); {FIX}") from error
        if found.shape not in ((len(pairs),), (len(pairs), 1)):
            raise ModelMissing(
                f"{file} is no cross-encoder: it gives numbers of shape {found.shape} for {len(pairs)} pairs, and one "
                f"gives one number a pair; {FIX}"
            )


def batches(pairs: Sequence[Pair]) -> Iterator[range]:
    """Positions of pairs for one run each, in order, so that the first pairs have their scores first."""
    start, longest = 0, 0
    for i, pair in enumerate(pairs):
        longest = max(longest, len(pair.ids))
        if i > start and (i - start == MAX_ROWS or (i - start + 1) * longest > MAX_CELLS):
            yield range(start, i)
            start, longest = i, len(pair.ids)
    if pairs:
        yield range(start, len(pairs))
