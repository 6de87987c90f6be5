"""Claude, through Anthropic's own SDK, as a `fusion.contract.LanguageModel`. One call, one answer, no retries.

Options: ``model``, ``api_key_env`` (else ANTHROPIC_API_KEY), ``base_url`` ("" is Anthropic's own), ``timeout_ms``.
Faults name kinds and status codes, and never quote a text, an answer or a key.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Self

from adapters.models.options import Options, read_with_key
from adapters.models.sdk import API, INSTALL, VARIABLE, asked_to_wait_s, connect, installed
from fusion.errors import (
    BackendError,
    BackendTimeout,
    BackendUnreachable,
    HttpStatus,
    InvalidAnswer,
    ModelMissing,
    RateLimited,
    SettingsError,
    Unauthorized,
)

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

OVERLOADED = 529
"""Anthropic's status for an overloaded service"""


class Anthropic:
    """The Messages API. Built by ``open``."""

    def __init__(self, client: Future[AsyncAnthropic], options: Options) -> None:
        self.name = options.model
        self._client: Future[AsyncAnthropic] | None = client
        self._timeout_s = options.timeout_s

    @classmethod
    def verify(cls, options: Mapping[str, object], environ: Mapping[str, str] = os.environ) -> None:
        """The SDK is installed and the key is set; only a call shows whether it is valid."""
        _options(options, environ)

    @classmethod
    def open(cls, options: Mapping[str, object], environ: Mapping[str, str] = os.environ) -> Self:
        """Raises SettingsError for a wrong option, and ModelMissing without the SDK or the key."""
        chosen, key = _options(options, environ)
        return cls(connect(key, chosen.url), chosen)

    async def complete(self, system: str, user: str, max_tokens: int) -> str:
        if self._client is None:
            raise BackendUnreachable(f"{self.name}: the model was closed")
        try:
            async with asyncio.timeout(self._timeout_s):
                client = await asyncio.shield(asyncio.wrap_future(self._client))
                reply: object = await client.messages.create(
                    model=self.name,
                    max_tokens=max_tokens,
                    system=system,
                    messages=[{"role": "user", "content": user}],
                )
        except TimeoutError:
            raise BackendTimeout(f"{self.name}: no answer within {self._timeout_s:.0f} s") from None
        except Exception as error:  # noqa: BLE001  translated into an error of the gateway
            raise self._fault(error) from None
        return self._text(reply)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await (await asyncio.wrap_future(client)).close()

    def _text(self, reply: object) -> str:
        stop = getattr(reply, "stop_reason", None)
        if stop == "refusal":
            raise InvalidAnswer(f"{self.name}: the model refused")
        if stop == "max_tokens":
            raise InvalidAnswer(f"{self.name}: the answer was cut at its longest")
        content = getattr(reply, "content", None)
        if not isinstance(content, list):
            raise InvalidAnswer(f"{self.name}: not a reply of the Messages API")
        texts = [getattr(block, "text", None) for block in content if getattr(block, "type", None) == "text"]
        text = "".join(one for one in texts if isinstance(one, str))
        if not text.strip():
            raise InvalidAnswer(f"{self.name}: the answer is empty")
        return text

    def _fault(self, error: Exception) -> BackendError:
        status = getattr(error, "status_code", None)
        if status in (401, 403):
            return Unauthorized(f"{self.name}: the API refused the key (HTTP {status})")
        if status in (429, OVERLOADED):
            return RateLimited(f"{self.name}: asked to wait (HTTP {status})", asked_to_wait_s(error))
        if isinstance(status, int) and status != 200:
            return HttpStatus(f"{self.name}: HTTP {status}", status, asked_to_wait_s(error))
        if status == 200 or isinstance(error, ValueError | AttributeError | TypeError):
            return InvalidAnswer(f"{self.name}: not a reply of the Messages API ({type(error).__name__})")
        return BackendUnreachable(f"{self.name}: {type(error).__name__}")


def _options(options: Mapping[str, object], environ: Mapping[str, str]) -> tuple[Options, str]:
    if not installed():
        raise ModelMissing(f"the model needs the anthropic SDK: {INSTALL}")
    chosen, key = read_with_key(options, environ, api=API, variable=VARIABLE)
    if key is None:
        raise SettingsError("[model] api_key_env: name the variable that has the key for this base_url")
    return chosen, key
