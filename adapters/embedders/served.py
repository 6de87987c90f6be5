"""Runs a local model in another process: `fusion embed-serve`, which any number of gateways share.

Each gateway keeps its own caches (`adapters.embedders.local`), so the server gets a text once from each. The vectors,
and so the identity, are those of the model in this process: a home can change between the two, and nothing is encoded
again.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from adapters.embedders.encoder import VOCABULARY
from adapters.embedders.options import Options
from adapters.embedders.wordpiece import WordPiece
from adapters.http import checked
from fusion.contract import Encoded, TokenVectors
from fusion.errors import (
    BackendError,
    BackendTimeout,
    BackendUnreachable,
    HttpStatus,
    InvalidAnswer,
    RateLimited,
    Unauthorized,
)

if TYPE_CHECKING:
    import httpx

    from fusion.local_models.registry import LocalModel

NAME = "embed-serve"
"""the provider's name in `[embedder]`"""
PATH = "/encode"
PAUSE_S = 2.0
"""seconds after a failure in which the server is not asked again: a question must not wait for it each time"""
TEXTS = 64
"""texts of one request, as many as the server takes"""


class ServedEncoder:
    """See `fusion.contract.TextEncoder`; its methods raise the `BackendError` that fits."""

    def __init__(self, model: LocalModel, options: Options, *, clock: Callable[[], float] = time.monotonic) -> None:
        import httpx

        self.model = model
        self.server = checked(options.url)
        self._url = options.url.rstrip("/") + PATH
        self._options, self._clock = options, clock
        # Proxies of the environment are for the internet, and a redirect would send texts elsewhere.
        self._http = httpx.Client(trust_env=False, follow_redirects=False)
        self._wordpiece = WordPiece(VOCABULARY.read_text("utf-8").splitlines())
        self._fault: BackendError | None = None
        self._paused_until = -float("inf")

    def knows(self, word: str) -> bool:
        return self._wordpiece.knows(word)

    def encode(self, texts: Sequence[str], *, question: bool = False) -> list[Encoded]:
        if self._fault is not None and self._clock() < self._paused_until:
            raise type(self._fault)(str(self._fault))
        try:
            portions = (texts[n : n + TEXTS] for n in range(0, len(texts), TEXTS))
            found = [one for portion in portions for one in self._encoded(portion, question)]
        except BackendError as error:
            # A refused text says nothing about the next one.
            if not isinstance(error, HttpStatus) or error.status >= 500:
                self._fault, self._paused_until = BackendUnreachable(str(error)), self._clock() + PAUSE_S
            raise
        self._fault = None
        return found

    def close(self) -> None:
        self._http.close()

    def _encoded(self, texts: Sequence[str], question: bool) -> list[Encoded]:
        reply = self._exchange({"model": self.model.identity, "texts": list(map(_clean, texts)), "question": question})
        try:
            return read_reply(reply, self.model, len(texts))
        except (KeyError, IndexError, TypeError, ValueError):
            raise InvalidAnswer(f"{self.server}: the reply is not one of fusion embed-serve") from None

    def _exchange(self, body: Mapping[str, object]) -> Any:
        import httpx

        chosen = self._options
        deadline_s = chosen.query_timeout_ms / 1000 if body["question"] else chosen.timeout_s
        headers = {"content-type": "application/json"}
        if key := chosen.key():
            headers["authorization"] = f"Bearer {key}"
        limits = httpx.Timeout(deadline_s, connect=min(deadline_s, chosen.connect_ms / 1000))
        # httpx's errors quote the address, so they are not chained as a cause.
        try:
            reply = self._http.post(self._url, content=orjson.dumps(body), headers=headers, timeout=limits)
        except httpx.TimeoutException:
            raise BackendTimeout(f"{self.server} did not answer in {deadline_s:g} s") from None
        except httpx.HTTPError as error:
            fix = "start it with fusion embed-serve, or fix [embedder] url"
            raise BackendUnreachable(f"{self.server} cannot be reached ({type(error).__name__}): {fix}") from None
        self._check(reply)
        try:
            return orjson.loads(reply.content)
        except orjson.JSONDecodeError:
            raise InvalidAnswer(f"{self.server}: the reply is not JSON") from None

    def _check(self, reply: httpx.Response) -> None:
        match reply.status_code:
            case 200:
                return
            case 401 | 403:
                fix = "set its key by [embedder] api_key_env or api_key_file"
                raise Unauthorized(f"{self.server} refuses the key: {fix}")
            case 404:
                fix = f"start it with fusion embed-serve --model {self.model.name}, or change [embedder] model"
                raise HttpStatus(f"{self.server} does not have {self.model.identity}: {fix}", 404)
            case 429 | 503:
                raise RateLimited(f"{self.server} is busy", PAUSE_S)
            case status:
                raise HttpStatus(f"{self.server} answers {status}", status)


def read_reply(reply: Mapping[str, Any], model: LocalModel, count: int) -> list[Encoded]:
    """The vectors of a reply. Raises ValueError, KeyError or TypeError for one that is not of this model."""
    if reply["model"] != model.identity or len(reply["tokens"]) != count:
        raise ValueError(reply["model"])
    dense = _array(reply["dense"], "<f4", model.dimensions)
    if (
        len(dense) != count
        or not np.isfinite(dense).all()
        or not np.allclose(np.linalg.norm(dense, axis=1), 1, atol=1e-3)
    ):
        raise ValueError("dense")
    return [Encoded(one, _tokens(given)) for one, given in zip(dense, reply["tokens"], strict=True)]


def _tokens(given: Mapping[str, Any]) -> TokenVectors:
    vectors, scale = _array(given["vectors"], "i1", given["dimensions"]), float(given["scale"])
    names = tuple(map(str, given["tokens"])), tuple(map(str, given["words"]))
    if not 0 < scale < float("inf") or {len(one) for one in names} not in ({0}, {len(vectors)}):
        raise ValueError("tokens")
    return TokenVectors(vectors, scale, *names)


def _array(written: str, kind: str, columns: int) -> Any:
    rows = np.frombuffer(base64.b64decode(written, validate=True), kind).reshape(-1, columns)
    return rows.astype(rows.dtype.newbyteorder("="))


def _clean(text: str) -> str:
    """A text that JSON can carry; half a surrogate pair has no meaning to a model either."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
