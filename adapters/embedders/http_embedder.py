"""Dense vectors from a provider's server.

Each text is sent once: results are cached in memory and on disk, and concurrent callers share one request. Queries are
sent at once and not cached on disk; stored texts wait for the per-minute budget. This module never retries; the
backfill does. After a failure the provider is not called for a while, and search uses words.

A reply is accepted only as a whole: one vector for each text, of the right length, finite and not zero. Otherwise it
raises `InvalidAnswer`, and nothing is cached. Errors name the server and the fix, never a text or a key.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from adapters.embedders.cache import ByteLru, VectorStore
from adapters.embedders.options import Options
from adapters.embedders.provider_spec import EmbedRequest, ProviderSpec, prompts
from adapters.embedders.rate_limit import MinuteLimit
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

REPLY_BYTES = 64 << 20
"""maximum bytes of a reply: 2,048 vectors of 1,536 numbers, each written with 20 characters"""
PAUSE_S = 2.0
MAX_PAUSE_S = 60.0
"""maximum seconds after a failure without Retry-After; the pause doubles at each further failure"""
MAX_RETRY_AFTER_S = 600.0
"""maximum seconds of a provider's Retry-After that are waited"""
CHARS_A_TOKEN = 4
"""characters of a token of ordinary text; a text that the provider refuses as too long is sent again, cut in half"""
MIN_CHARS = 200
"""characters of a text up to which a refusal is not for its length"""
MEDIA_TOKENS = 1_000
"""tokens charged to the per-minute limit for a picture or half a minute of sound; a high estimate"""
_log = logging.getLogger(__name__)
_REFUSED = frozenset({400, 413, 422})
_QUERY_BYTES = 4 << 20
_OVERHEAD_BYTES = 200
_DIMENSIONS_IN_NAME = re.compile(r"@([1-9]\d*)-[^@]*$")


class HttpEmbedder:
    """The dense half of the `Embedder` port. Belongs to one event loop; ``open`` raises ``SettingsError``."""

    @classmethod
    async def open(
        cls,
        api: ProviderSpec,
        folder: Path,
        options: Options,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> Self:
        """Send no request, unless the model's dimensions are neither known nor configured: then embed one word.

        While the server does not answer, they are those of the vectors that are already stored in ``folder``.
        """
        model = options.model or api.model

        def headers() -> Mapping[str, str]:
            key = options.key()
            return api.headers(key) if key else {}

        http = Http(options.url or api.url, headers, connect_s=options.connect_ms / 1000, reply_bytes=REPLY_BYTES)
        try:
            dimensions = options.dimensions or api.dimensions.get(model)
            if not dimensions:
                known = await asyncio.to_thread(_known_dimensions, api, model, folder)
                dimensions = await _dimensions(api, http, model, options, known)
            identity = f"{api.name}/{model}@{dimensions}"
            store = await asyncio.to_thread(
                VectorStore, folder / f"{_file(identity)}.sqlite", dimensions, 0, options.dense_store_mb << 20
            )
        except BaseException:
            await http.close()
            raise
        minute_limit = MinuteLimit(options.requests_per_minute, options.tokens_per_minute, clock)
        return cls(api, http, store, options, model, dimensions, minute_limit, clock, sleep)

    def __init__(
        self,
        api: ProviderSpec,
        http: Http,
        store: VectorStore,
        options: Options,
        model: str,
        dimensions: int,
        minute_limit: MinuteLimit,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self.identity = f"{api.name}/{model}@{dimensions}"
        self.dimensions = dimensions
        self.sees = model.startswith(api.media_models) if api.media_models else False
        self._api, self._http, self._store, self._options, self._model = api, http, store, options, model
        self._minute_limit, self._clock, self._sleep = minute_limit, clock, sleep
        self._prompts = prompts(model)
        self._dense: ByteLru[Floats] = ByteLru(options.dense_cache_mb << 20)
        self._queries: ByteLru[Floats] = ByteLru(_QUERY_BYTES)
        self._flights: Flights[Floats] = Flights()
        self._query_flights: Flights[Floats] = Flights()
        self._answered = False
        self._failures = 0
        self._paused_until = -float("inf")
        self._fault: BackendError | None = None
        self._closed = False

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> Floats:
        """See the port. ``keep=False`` embeds the texts as queries, which many models embed differently."""
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
        """See `fusion.contract.EmbedsMedia`: one request for each medium that is not cached."""
        if not self.sees or self._api.media is None:
            raise ModelMissing(f"{self.identity} takes texts only")
        if self._closed:
            raise ModelMissing("the embedder is closed")
        found = await asyncio.to_thread(self._store.dense, [one.key for one in media])
        for one in media:
            if one.key in found:
                continue
            while (wait_s := self._minute_limit.wait_s(MEDIA_TOKENS)) > 0:
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
            while (wait_s := self._minute_limit.wait_s(_tokens(portion))) > 0:
                await self._sleep(wait_s)
            vectors = await self._read(portion)
            found = dict(zip(portion, vectors, strict=True))
            await asyncio.to_thread(self._store.put_dense, {t: v for t, v in found.items() if mine[t].keep})
            for text, vector in found.items():
                if mine[text].keep:
                    self._hold(self._dense, text, vector)
                mine[text].landed.set_result(vector)

    async def _read(self, texts: Sequence[str]) -> Sequence[Floats]:
        """The vectors of texts to store. A refused text does not cost the others their vectors.

        A refusal before the first success is a configuration error and is raised.
        """
        try:
            return list(await self._asked(texts, query=False))
        except HttpStatus as error:
            if error.status not in _REFUSED or not self._answered:
                raise
            half = len(texts) // 2
            if half:
                return [*await self._read(texts[:half]), *await self._read(texts[half:])]
            if len(texts[0]) <= MIN_CHARS:
                raise
            return await self._read([texts[0][: len(texts[0]) // 2]])

    async def _asked(self, texts: Sequence[str], *, query: bool) -> Floats:
        prompt = self._prompts[0 if query else 1]
        max_chars = self._api.max_text_tokens * CHARS_A_TOKEN
        request = EmbedRequest(
            self._model, [f"{prompt}{text[:max_chars]}" for text in texts], query, self._options.dimensions or None
        )
        deadline_s = self._options.query_timeout_ms / 1000 if query else self._options.timeout_s
        return await self._exchanged(self._api.body(request), len(texts), _tokens(texts), deadline_s)

    async def _exchanged(self, body: object, count: int, tokens: int, deadline_s: float) -> Floats:
        """Send one request. Raises the fitting `BackendError`, at once during a pause after a failure."""
        if self._fault is not None and (left_s := self._paused_until - self._clock()) > 0:
            raise _again(self._fault, f"{self._fault}; it is asked again in {left_s:.0f} s")
        self._minute_limit.spend(tokens)
        try:
            reply = await self._http.post(self._api.path(self._model), body, deadline_s)
            server, dimensions = self._http.server, self.dimensions
            vectors = await asyncio.to_thread(
                lambda: unit(vectors_of(self._api, server, reply, count), server, dimensions)
            )
        except BackendError as error:
            fault = explained(error, self._api, self._model)
            # A refused text says nothing about the next one, so it starts no pause.
            if not (isinstance(error, HttpStatus) and error.status in _REFUSED and self._answered):
                self._pause_after(fault)
            raise fault from None
        self._answered, self._failures, self._fault = True, 0, None
        return vectors

    def _pause_after(self, fault: BackendError) -> None:
        self._failures += 1
        wait_s = getattr(fault, "retry_after_s", None)
        if wait_s is None:
            wait_s = backoff_s(self._failures, PAUSE_S, MAX_PAUSE_S)
        self._fault, self._paused_until = fault, self._clock() + min(wait_s, MAX_RETRY_AFTER_S)

    def _hold(self, cache: ByteLru[Floats], text: str, vector: Floats) -> None:
        cache.put(text, vector, vector.nbytes + len(text) + _OVERHEAD_BYTES)


def vectors_of(api: ProviderSpec, server: str, reply: Any, count: int) -> NDArray[np.float64]:
    """The reply's vectors, not normalised, one for each of ``count`` texts. Raises InvalidAnswer."""
    try:
        vectors = np.asarray(api.vectors(reply), np.float64)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError):
        raise InvalidAnswer(f"{server}: the reply is not one of {api.name}'s") from None
    if vectors.ndim != 2 or len(vectors) != count:
        raise InvalidAnswer(f"{server}: {len(vectors)} vectors for {count} texts")
    return vectors


def unit(vectors: NDArray[np.float64], server: str, dimensions: int) -> Floats:
    """The vectors at unit length. Raises InvalidAnswer if one has other dimensions, is not finite or is zero."""
    if vectors.shape[1] != dimensions:
        fault = f"{server}: its vectors have {vectors.shape[1]} numbers, not {dimensions}"
        raise InvalidAnswer(f"{fault}: set [embedder] dimensions to what the model gives")
    with np.errstate(all="ignore"):
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        scaled = vectors / lengths
    if not (np.isfinite(scaled).all() and np.isfinite(lengths).all()):
        raise InvalidAnswer(f"{server}: a vector is zero, or has something in it that is not a number")
    return np.asarray(scaled, np.float32)


def explained(error: BackendError, api: ProviderSpec, model: str) -> BackendError:
    """The same error with the fix added."""
    match error:
        case Unauthorized():
            fix = f"set {api.key_env or 'the key'}, by [embedder] api_key_env or api_key_file"
        case HttpStatus(status=404):
            fix = api.unknown_model_hint.format(model=model)
        case HttpStatus(status=400 | 422):
            fix = "it accepts neither [embedder] model nor key, or not the text"
        case BackendUnreachable() | BackendTimeout() if api.unreachable_hint:
            fix = api.unreachable_hint
        case _:
            return error
    return _again(error, f"{error}: {fix}")


def _again(error: BackendError, text: str) -> BackendError:
    if isinstance(error, RateLimited):
        return RateLimited(text, error.retry_after_s)
    if isinstance(error, HttpStatus):
        return HttpStatus(text, error.status, error.retry_after_s)
    return type(error)(text)


async def _dimensions(api: ProviderSpec, http: Http, model: str, options: Options, known: int | None) -> int:
    """The dimensions of this model, found by embedding one word; ``known`` if that fails.

    With ``known`` the server has only the time of a question, because a home must also open while it hangs.
    """
    deadline_s = options.timeout_s if known is None else options.query_timeout_ms / 1000
    try:
        reply = await http.post(api.path(model), api.body(EmbedRequest(model, ["dimensions"])), deadline_s)
        return int(vectors_of(api, http.server, reply, 1).shape[1])
    except FusionError as error:
        reason = explained(error, api, model) if isinstance(error, BackendError) else error
        if known is not None:
            _log.warning("%s/%s is used with %d dimensions, as stored: %s", api.name, model, known, reason)
            return known
        raise SettingsError(
            f"[embedder] {api.name}/{model}: its dimensions are unknown and could not be requested: {reason}; "
            "fix that, or write dimensions = …"
        ) from None


def _known_dimensions(api: ProviderSpec, model: str, folder: Path) -> int | None:
    """The dimensions in the name of this model's cache that was written last; None if it has no cache."""
    found: list[tuple[float, int]] = []
    for path in folder.glob("*.sqlite"):
        named = _DIMENSIONS_IN_NAME.search(path.stem)
        if named is not None and path.stem == _file(f"{api.name}/{model}@{named[1]}"):
            found.append((path.stat().st_mtime, int(named[1])))
    return max(found)[1] if found else None


def _portions(texts: Sequence[str], api: ProviderSpec) -> Iterator[list[str]]:
    """Split the texts, in order, into requests within the provider's limits; none is empty."""
    portion: list[str] = []
    tokens = 0
    for text in texts:
        size = min(estimate_tokens(text), api.max_text_tokens)
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
    """A readable and unique file name for the cache of this model."""
    readable = "".join(c if c.isalnum() or c in "-_.@" else "-" for c in identity)
    return f"{readable[:80]}-{content_hash(identity)[:8]}"
