"""Embed texts and validate the vectors that come back."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING

from fusion.contract import Embedder
from fusion.errors import InvalidAnswer

if TYPE_CHECKING:
    from fusion.contract import Floats


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


async def each_vector_of(embedder: Embedder, texts: Sequence[str]) -> list[Floats | InvalidAnswer]:
    """For each text its vector or the reason why it has none; halves a refused batch, so that one text fails alone."""
    try:
        return list(await vectors_of(embedder, texts))
    except InvalidAnswer as error:
        if len(texts) == 1:
            return [error]
    half = len(texts) // 2
    return [*await each_vector_of(embedder, texts[:half]), *await each_vector_of(embedder, texts[half:])]
