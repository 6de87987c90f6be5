"""Embed texts and validate the vectors that come back."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from itertools import islice
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from adapters.index.matrix import mean_direction
from fusion.contract import Embedder
from fusion.errors import FusionError, InvalidAnswer
from fusion.lib.passages import spoken_passages

if TYPE_CHECKING:
    from fusion.contract import Floats

Said = tuple[str, str | None]
"""the text of a memory, and its speaker"""
_log = logging.getLogger(__name__)


class BestEffortEmbedding:
    """Embeds texts as long as the model works; gives None when it fails, so that the caller goes on with words alone.

    ``fault`` is why the last call failed, None if it did not.
    """

    def __init__(self, name: str) -> None:
        """``name`` is the backend's, for the log."""
        self._name = name
        self.fault: str | None = None

    async def vectors(self, embedder: Embedder | None, memories: Sequence[Said]) -> Floats | None:
        """One vector for each memory, as `memory_vectors`; None without an embedder, or while it fails."""
        return None if embedder is None else await self._attempt(memory_vectors(embedder, memories))

    async def query_vector(self, embedder: Embedder | None, text: str) -> Floats | None:
        """The vector of a query, which is not stored; None without an embedder, or while it fails."""
        vectors = None if embedder is None else await self._attempt(vectors_of(embedder, [text], keep=False))
        return None if vectors is None else vectors[0]

    async def _attempt(self, embedding: Awaitable[Floats]) -> Floats | None:
        try:
            vectors = await embedding
        except Exception as error:  # noqa: BLE001 - words are still searched
            # Other errors than our own may quote a text.
            fault = str(error) if isinstance(error, FusionError) else type(error).__name__
            if fault != self.fault:
                _log.warning("%s works by words only: %s", self._name, fault)
            self.fault = fault
            return None
        self.fault = None
        return vectors


async def vectors_of(embedder: Embedder, texts: Sequence[str], *, keep: bool = True) -> Floats:
    """One vector for each text. Raises InvalidAnswer for a wrong number, wrong dimensions, NaN or infinity."""
    vectors = await embedder.embed(texts, keep=keep)
    if vectors.shape != (len(texts), embedder.dimensions):
        raise InvalidAnswer(
            f"{embedder.identity} gave vectors of shape {vectors.shape} for {len(texts)} texts, and says that it has "
            f"{embedder.dimensions} dimensions"
        )
    if not isfinite(vectors.sum()):  # NaN and infinity stay so in a sum
        raise InvalidAnswer(f"{embedder.identity} gave vectors with NaN or infinity in them")
    return vectors


async def memory_vectors(embedder: Embedder, memories: Sequence[Said]) -> Floats:
    """One vector for each memory: of a long text the mean direction of its passages.

    Stores with one vector for a memory use it: the passages are encoded for others too, the whole text is not.
    """
    passages = [spoken_passages(text, speaker) for text, speaker in memories]
    vectors = await vectors_of(embedder, [part for parts in passages for part in parts])
    if len(vectors) == len(memories):
        return vectors
    every = iter(vectors)
    return np.stack([mean_direction(list(islice(every, len(parts)))) for parts in passages])


async def each_vector_of(embedder: Embedder, texts: Sequence[str]) -> list[Floats | InvalidAnswer]:
    """For each text its vector or the reason why it has none; halves a refused batch, so that one text fails alone."""
    try:
        return list(await vectors_of(embedder, texts))
    except InvalidAnswer as error:
        if len(texts) == 1:
            return [error]
    half = len(texts) // 2
    return [*await each_vector_of(embedder, texts[:half]), *await each_vector_of(embedder, texts[half:])]
