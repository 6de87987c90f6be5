"""Dense vectors from a provider's server.

A text is sent once: what came back is kept in memory and on disk, and callers who ask meanwhile wait for the same
request. A question goes at once and is not kept on disk. What is being stored waits its turn under the budget of the
minute; nothing is retried here; the backfill does that. After a failure the provider is left alone
for a while, so that a question does not wait for a server that is down: it hears at once, and words are searched.

A reply counts only whole: as many vectors as texts, each of the right length, finite and not zero. Otherwise it is
`InvalidAnswer`, and nothing of it is kept. Errors name the server and how to fix it, never a text and never a key.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from adapters.embedders.api import Api, Ask, prompts
from adapters.embedders.cache import ByteLru, VectorStore
from adapters.embedders.options import Options
from adapters.embedders.rate_limit import Pace
from adapters.embedders.single_flight import Flight, Flights, landed, let_go
from adapters.http import Http
from fusion.contract import Media
from fusion.errors import (
    BackendError,
    BackendTimeout,
    BackendUnreachable,
    FusionError,
    HttpStatus,
    InvalidAnswer,
    ModelMissing,
    RateLimited,
    SettingsError,
    Unauthorized,
)
from fusion.lib.backoff import backoff_s
from fusion.lib.budget import estimate_tokens
from fusion.lib.words import content_hash

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

CONNECT_S = 3.0
"""for a provider's server: a name to resolve and TLS to agree on, a continent away"""
REPLY_BYTES = 64 << 20
"""2,048 vectors of 1,536 numbers, each written with 20 characters"""
REST_S = 2.0
LONGEST_REST_S = 60.0
"""how long a provider is left alone after a failure, doubled with each further one, where it names no time itself"""
LONGEST_WAIT_S = 600.0
"""what a provider may ask us to wait at most"""
CHARS_A_TOKEN = 4
"""of ordinary text; one that has more tokens than a model reads is refused, and sent again by its first half"""
SHORTEST = 200
"""characters: a text that is refused at this length is not refused for its length"""
MEDIA_TOKENS = 1_000
"""what a picture, or half a minute of sound, counts for in the budget of the minute: a guess on the high side"""
_log = logging.getLogger(__name__)
_REFUSED = frozenset({400, 413, 422})
_QUERY_BYTES = 4 << 20
_OVERHEAD_BYTES = 200


class Hosted:
    """The dense half of the `Embedder` port. Belongs to one event loop; ``open`` raises ``SettingsError``."""

    @classmethod
    async def open(
        cls,
        api: Api,
        folder: Path,
        options: Options,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> Self:
        """Asks nobody, unless the model's dimensions are neither known nor configured: then for one word."""
        model = options.model or api.model

        def headers() -> Mapping[str, str]:
            key = options.key()
            return api.headers(key) if key else {}

        http = Http(options.url or api.url, headers, connect_s=CONNECT_S, reply_bytes=REPLY_BYTES)
        try:
            dimensions = options.dimensions or api.dimensions.get(model) or await _dimensions(api, http, model, options)
            identity = f"{api.name}/{model}@{dimensions}"
            store = await asyncio.to_thread(
                VectorStore, folder / f"{_file(identity)}.sqlite", dimensions, 0, options.dense_store_mb << 20
            )
        except BaseException:
            await http.close()
            raise
        pace = Pace(options.requests_per_minute, options.tokens_per_minute, clock)
        return cls(api, http, store, options, model, dimensions, pace, clock, sleep)

    def __init__(
        self,
        api: Api,
        http: Http,
        store: VectorStore,
        options: Options,
        model: str,
        dimensions: int,
        pace: Pace,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self.identity = f"{api.name}/{model}@{dimensions}"
        self.dimensions = dimensions
        self.sees = model.startswith(api.seeing) if api.seeing else False
        self._api, self._http, self._store, self._options, self._model = api, http, store, options, model
        self._pace, self._clock, self._sleep = pace, clock, sleep
        self._prompts = prompts(model)
        self._dense: ByteLru[Floats] = ByteLru(options.dense_cache_mb << 20)
        self._queries: ByteLru[Floats] = ByteLru(_QUERY_BYTES)
        self._flights: Flights[Floats] = Flights()
        self._query_flights: Flights[Floats] = Flights()
        self._answered = False
        self._failures = 0
        self._rests_until = -float("inf")
        self._fault: BackendError | None = None
        self._closed = False

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> Floats:
        """As the port has it. ``keep=False`` asks as a question, which many models embed otherwise than a text."""
        if self._closed:
            raise ModelMissing("the embedder is closed")
        if not texts:
            return np.empty((0, self.dimensions), np.float32)
        cache = self._dense if keep else self._queries
        found = {text: held for text in texts if (held := cache.get(text)) is not None}
        missing = [text for text in dict.fromkeys(texts) if text not in found]
        if missing and keep:
            on_disk = await asyncio.to_thread(self._store.dense, missing)
            for text, vector in on_disk.items():
                self._hold(cache, text, vector)
            found |= on_disk
            found |= await landed(self._flights.board([t for t in missing if t not in on_disk], self._fly))
        elif missing:
            found |= await landed(self._query_flights.board(missing, self._fly_query))
        return np.array([found[text] for text in texts])

    async def embed_media(self, media: Sequence[Media]) -> Floats:
        """As `fusion.contract.EmbedsMedia` has it: one request each, for what is not cached."""
        if not self.sees or self._api.media is None:
            raise ModelMissing(f"{self.identity} takes texts only")
        if self._closed:
            raise ModelMissing("the embedder is closed")
        found = await asyncio.to_thread(self._store.dense, [one.key for one in media])
        for one in media:
            if one.key in found:
                continue
            while (wait_s := self._pace.wait_s(MEDIA_TOKENS)) > 0:
                await self._sleep(wait_s)
            data = await asyncio.to_thread(one.read)
            body = self._api.media(self._model, one.mime, data, self._options.dimensions or None)
            try:
                found[one.key] = (await self._exchanged(body, 1, MEDIA_TOKENS, self._options.timeout_s))[0]
            except HttpStatus as error:
                if error.status not in _REFUSED or not self._answered:
                    raise
                _log.warning("%s does not take a file of type %s (%s)", self.identity, one.mime, error.status)
                found[one.key] = np.zeros(self.dimensions, np.float32)
            await asyncio.to_thread(self._store.put_dense, {one.key: found[one.key]})
        return np.stack([found[one.key] for one in media]) if media else np.empty((0, self.dimensions), np.float32)

    async def forget(self, texts: Sequence[str]) -> None:
        await let_go([*self._flights.of(texts), *self._query_flights.of(texts)])
        await asyncio.to_thread(self._store.forget, texts)
        for text in texts:
            self._dense.drop(text)
            self._queries.drop(text)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._flights.close()
        await self._query_flights.close()
        await self._http.close()
        await asyncio.to_thread(self._store.close)

    async def _fly_query(self, mine: dict[str, Flight[Floats]]) -> None:
        for portion in _portions(list(mine), self._api):
            vectors = await self._asked(portion, query=True)
            for text, vector in zip(portion, vectors, strict=True):
                if mine[text].keep:
                    self._hold(self._queries, text, vector)
                mine[text].landed.set_result(vector)

    async def _fly(self, mine: dict[str, Flight[Floats]]) -> None:
        for portion in _portions(list(mine), self._api):
            while (wait_s := self._pace.wait_s(_tokens(portion))) > 0:
                await self._sleep(wait_s)
            vectors = await self._read(portion)
            found = dict(zip(portion, vectors, strict=True))
            await asyncio.to_thread(self._store.put_dense, {t: v for t, v in found.items() if mine[t].keep})
            for text, vector in found.items():
                if mine[text].keep:
                    self._hold(self._dense, text, vector)
                mine[text].landed.set_result(vector)

    async def _read(self, texts: Sequence[str]) -> Sequence[Floats]:
        """Vectors of what is being stored. One text that is refused does not keep the others from theirs.

        That holds once the provider has answered at all: what is refused before is our configuration.
        """
        try:
            return list(await self._asked(texts, query=False))
        except HttpStatus as error:
            if error.status not in _REFUSED or not self._answered:
                raise
            half = len(texts) // 2
            if half:
                return [*await self._read(texts[:half]), *await self._read(texts[half:])]
            if len(texts[0]) <= SHORTEST:
                raise
            return await self._read([texts[0][: len(texts[0]) // 2]])

    async def _asked(self, texts: Sequence[str], *, query: bool) -> Floats:
        prompt = self._prompts[0 if query else 1]
        most = self._api.longest * CHARS_A_TOKEN
        ask = Ask(self._model, [f"{prompt}{text[:most]}" for text in texts], query, self._options.dimensions or None)
        deadline_s = self._options.query_timeout_ms / 1000 if query else self._options.timeout_s
        return await self._exchanged(self._api.body(ask), len(texts), _tokens(texts), deadline_s)

    async def _exchanged(self, body: object, count: int, tokens: int, deadline_s: float) -> Floats:
        """One request. Raises the `BackendError` that fits; while the provider is left alone, at once."""
        if self._fault is not None and (left_s := self._rests_until - self._clock()) > 0:
            raise _again(self._fault, f"{self._fault}; it is asked again in {left_s:.0f} s")
        self._pace.spend(tokens)
        try:
            reply = await self._http.post(self._api.path(self._model), body, deadline_s)
            vectors = await asyncio.to_thread(self._checked, reply, count)
        except BackendError as error:
            fault = self._explained(error)
            # A text that is refused says nothing of the next one; nor does one question that took too long.
            if not (isinstance(error, HttpStatus) and error.status in _REFUSED and self._answered):
                self._leave_alone(fault)
            raise fault from None
        self._answered, self._failures, self._fault = True, 0, None
        return vectors

    def _checked(self, reply: Any, count: int) -> Floats:
        """The reply's vectors at unit length, shape (count, dimensions). Raises InvalidAnswer."""
        return unit(vectors_of(self._api, self._http.server, reply, count), self._http.server, self.dimensions)

    def _leave_alone(self, fault: BackendError) -> None:
        self._failures += 1
        wait_s = getattr(fault, "retry_after_s", None)
        if wait_s is None:
            wait_s = backoff_s(self._failures, REST_S, LONGEST_REST_S)
        self._fault, self._rests_until = fault, self._clock() + min(wait_s, LONGEST_WAIT_S)

    def _explained(self, error: BackendError) -> BackendError:
        return explained(error, self._api, self._model)

    def _hold(self, cache: ByteLru[Floats], text: str, vector: Floats) -> None:
        cache.put(text, vector, vector.nbytes + len(text) + _OVERHEAD_BYTES)


def vectors_of(api: Api, server: str, reply: Any, count: int) -> NDArray[np.float64]:
    """A reply's vectors as they are, one for each of ``count`` texts. Raises InvalidAnswer."""
    try:
        vectors = np.asarray(api.vectors(reply), np.float64)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError):
        raise InvalidAnswer(f"{server}: the reply is not one of {api.name}'s") from None
    if vectors.ndim != 2 or len(vectors) != count:
        raise InvalidAnswer(f"{server}: {len(vectors)} vectors for {count} texts")
    return vectors


def unit(vectors: NDArray[np.float64], server: str, dimensions: int) -> Floats:
    """The vectors at unit length. Raises InvalidAnswer where one has another length, is not finite, or is zero."""
    if vectors.shape[1] != dimensions:
        fault = f"{server}: its vectors have {vectors.shape[1]} numbers, not {dimensions}"
        raise InvalidAnswer(f"{fault}: set [embedder] dimensions to what the model gives")
    with np.errstate(all="ignore"):
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        scaled = vectors / lengths
    if not (np.isfinite(scaled).all() and np.isfinite(lengths).all()):
        raise InvalidAnswer(f"{server}: a vector is zero, or has something in it that is not a number")
    return np.asarray(scaled, np.float32)


def explained(error: BackendError, api: Api, model: str) -> BackendError:
    """The same error, with how to fix it."""
    match error:
        case Unauthorized():
            fix = f"set {api.key_env or 'the key'}, by [embedder] api_key_env or api_key_file"
        case HttpStatus(status=404):
            fix = api.missing.format(model=model)
        case HttpStatus(status=400 | 422):
            fix = "it accepts neither [embedder] model nor key, or not the text"
        case BackendUnreachable() | BackendTimeout() if api.down:
            fix = api.down
        case _:
            return error
    return _again(error, f"{error}: {fix}")


def _again(error: BackendError, text: str) -> BackendError:
    if isinstance(error, RateLimited):
        return RateLimited(text, error.retry_after_s)
    if isinstance(error, HttpStatus):
        return HttpStatus(text, error.status, error.retry_after_s)
    return type(error)(text)


async def _dimensions(api: Api, http: Http, model: str, options: Options) -> int:
    """How many numbers a vector of this model has, by asking for one."""
    try:
        reply = await http.post(api.path(model), api.body(Ask(model, ["dimensions"])), options.timeout_s)
        return int(vectors_of(api, http.server, reply, 1).shape[1])
    except FusionError as error:
        reason = explained(error, api, model) if isinstance(error, BackendError) else error
        raise SettingsError(
            f"[embedder] {api.name}/{model}: how long its vectors are is not known, and it does not say: {reason}; "
            "fix that, or write dimensions = …"
        ) from None


def _portions(texts: Sequence[str], api: Api) -> Iterator[list[str]]:
    """In their order, as many as one request takes; never an empty one."""
    portion: list[str] = []
    tokens = 0
    for text in texts:
        size = min(estimate_tokens(text), api.longest)
        if portion and (len(portion) == api.most_texts or tokens + size > api.most_tokens):
            yield portion
            portion, tokens = [], 0
        portion.append(text)
        tokens += size
    if portion:
        yield portion


def _tokens(texts: Sequence[str]) -> int:
    return sum(estimate_tokens(text) for text in texts)


def _file(identity: str) -> str:
    """A name for the cache that says what it is of, and is that of no other."""
    readable = "".join(c if c.isalnum() or c in "-_.@" else "-" for c in identity)
    return f"{readable[:80]}-{content_hash(identity)[:8]}"
