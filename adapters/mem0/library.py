"""The ``mem0ai`` library with the gateway's embedder and language model as its providers."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from fusion.contract import Embedder, LanguageModel
from fusion.errors import InvalidAnswer, PackageMissing, StoreDamaged

ANSWER_TOKENS = 4000
"""maximum tokens of an answer in mem0's own extraction: a page of facts"""


class Bridge:
    """mem0's embedding model, with the gateway's vectors. Called on mem0's thread, never on the event loop's."""

    def __init__(self, config: object = None) -> None:
        self.config = config
        self._own = threading.local()  # several threads may search a server at once
        self._embedder: Embedder | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def ready(self) -> Mapping[str, list[float]]:
        """Vectors prepared for the next call of this thread."""
        found: Mapping[str, list[float]] = getattr(self._own, "ready", {})
        return found

    @ready.setter
    def ready(self, vectors: Mapping[str, list[float]]) -> None:
        self._own.ready = vectors

    def connect(self, embedder: Embedder | None, loop: asyncio.AbstractEventLoop) -> None:
        self._embedder, self._loop = embedder, loop

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        """The prepared vector; for a text that only mem0 knows, the embedder's."""
        if (vector := self.ready.get(text)) is not None:
            return vector
        if self._embedder is None or self._loop is None:
            raise InvalidAnswer("mem0 asked for a vector, and there is no embedding model")
        vectors = asyncio.run_coroutine_threadsafe(self._embedder.embed([text], keep=False), self._loop).result()
        return cast("list[float]", vectors[0].tolist())

    def embed_batch(self, texts: Sequence[str], memory_action: str | None = None) -> list[list[float]]:
        return [self.embed(text, memory_action) for text in texts]


class Model:
    """mem0's language model: the configured one, or none; then every call raises."""

    def __init__(self, config: object = None) -> None:
        self.config = config
        self._model: LanguageModel | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def connect(self, model: LanguageModel, loop: asyncio.AbstractEventLoop) -> None:
        self._model, self._loop = model, loop

    def generate_response(self, messages: Sequence[Mapping[str, str]], *_: object, **__: object) -> str:
        """Called on mem0's thread. Instructions become the system prompt, their subject the user's message."""
        if self._model is None or self._loop is None:
            raise InvalidAnswer("mem0 asked for a language model, and none is configured")
        said = {role: "\n\n".join(m["content"] for m in messages if m["role"] == role) for role in ("system", "user")}
        asked = self._model.complete(said["system"], said["user"], ANSWER_TOKENS)
        return asyncio.run_coroutine_threadsafe(asked, self._loop).result()


class Frugal:
    """mem0's store, searched no deeper than ``depth``.

    mem0 requests four times the limit, to rerank by keywords and entities. A store without these, like this one, gives
    the same first results, and copying 400 payloads was most of the cost of a search.
    """

    def __init__(self, store: Any) -> None:
        self._store = store
        self.depth = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def search(self, query: str, vectors: list[float], top_k: int = 5, filters: Any = None) -> Any:
        return self._store.search(query, vectors, top_k=min(top_k, self.depth or top_k), filters=filters)


class Bare:
    """Qdrant's local client without payloads, for a caller that caches them: copying 100 took a third of a search.

    mem0 needs two things of them: that a memory has a text, and its expiry day (``end_of`` an id), because it skips
    expired memories. The query's vector is an array, because a list is copied float by float.
    """

    def __init__(self, client: Any, end_of: Callable[[str], str | None]) -> None:
        self._client = client
        self._end_of = end_of

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def query_points(self, *, query: Sequence[float], **asked: Any) -> Any:
        import numpy as np
        from qdrant_client.models import NearestQuery

        nearest = NearestQuery.model_construct(nearest=np.array(query))  # what it makes of a list
        found = self._client.query_points(query=nearest, **asked, with_payload=False)
        for point in found.points:
            point.payload = {"data": point.id, "expiration_date": self._end_of(str(point.id))}
        return found


def library(folder: Path) -> Any:
    """mem0's ``Memory``, silenced. Imported late: it takes 0.7 s of CPU.

    mem0 reads these variables once, when it is imported; if it was imported before, its module attributes are set.
    The names of its providers are fixed, so the gateway's use one of them: "langchain" needs no server and no key.
    """
    own = folder / "mem0"  # mem0 writes a file of its own there when it is imported
    for path in (own, own / "config.json"):
        if path.is_symlink():
            raise StoreDamaged(f"{path} is a link, which mem0 would write through; remove it")
    os.environ["MEM0_TELEMETRY"] = "False"
    os.environ["MEM0_DIR"] = str(own)
    try:
        from mem0.configs.llms.base import BaseLlmConfig
        from mem0.memory import main, telemetry
        from mem0.utils.factory import EmbedderFactory, LlmFactory
    except ImportError as error:
        raise PackageMissing("the mem0 backend needs mem0ai: pip install '/path/to/checkout[mem0]'") from error
    main.MEM0_TELEMETRY = telemetry.MEM0_TELEMETRY = False
    # That its optional parts are missing (spaCy, fastembed) is as intended, and not worth two warnings a start.
    logging.getLogger("mem0").setLevel(logging.ERROR)
    EmbedderFactory.provider_to_class["langchain"] = f"{__name__}.Bridge"
    LlmFactory.provider_to_class["langchain"] = (f"{__name__}.Model", BaseLlmConfig)
    return main.Memory


def config(store: Mapping[str, object]) -> dict[str, object]:
    """mem0's configuration: Qdrant as in ``store``, the gateway's embedder and language model."""
    return {
        "vector_store": {"provider": "qdrant", "config": dict(store)},
        "embedder": {"provider": "langchain", "config": {}},
        "llm": {"provider": "langchain", "config": {}},
        "history_db_path": ":memory:",  # the journal is the history; a copy here would outlive a forgotten event
    }
