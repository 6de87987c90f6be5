"""The second encoder of a home: it compares a question with what was found, and reads each turn in its context.

The first one makes the vectors of the backends. Both read a text once, when it is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Self

from adapters.embedders.cache import VectorStore
from adapters.embedders.encoder import Encoder
from adapters.embedders.local import LocalEmbedder, Options, model_of
from adapters.options import build_known
from fusion.errors import SettingsError
from fusion.lib.in_context import parts_of
from fusion.local_models.registry import LocalModel

_MB = 1 << 20


class SecondEncoder(LocalEmbedder):
    """The port `fusion.contract.ReadsInContext`. ``open`` raises ``ModelMissing``, which says how to fix it."""

    later_texts: ClassVar[int] = 20_000
    """maximum texts that wait to be encoded in the background, as those of a large import do"""

    @classmethod
    def verify(cls, options: Mapping[str, object]) -> str:
        """As `LocalEmbedder.verify`."""
        _require_tokens(model_of(options))
        return super().verify(options)

    @classmethod
    async def open(cls, folder: Path, options: Mapping[str, object]) -> Self:
        """Raises ``SettingsError`` for a wrong option."""
        chosen, model = build_known(Options, options, "[embedder]"), model_of(options)
        _require_tokens(model)

        def load() -> tuple[Encoder, VectorStore]:
            path = folder / f"{model.identity}-in-context.sqlite"
            bounds = chosen.token_store_mb * _MB, chosen.dense_store_mb * _MB
            return Encoder(model, in_context=True), VectorStore(path, model.dimensions, *bounds)

        return cls(*await asyncio.to_thread(load), chosen, model)

    async def forget(self, texts: Sequence[str]) -> None:
        """Forget these and every turn that was read with one of them; the latter are read again later."""
        gone = set(texts)
        cached = [*self._dense.keys(), *self._tokens.keys()]
        flying = [text for flights in self._every_flights() for text in flights.texts()]
        around = {text for text in (*cached, *flying) if not gone.isdisjoint(parts_of(text) or ())}
        await super().forget([*texts, *around])


def _require_tokens(model: LocalModel) -> None:
    """Raises SettingsError for a model that gives no vector a token."""
    if model.engine != "onnx":
        raise SettingsError(f"[embedder] second = {model.name!r}: it gives no vector a token; take another one")
