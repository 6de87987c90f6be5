"""Any server that speaks OpenAI's chat completions, as a `fusion.contract.LanguageModel`: OpenAI's own, an agent's
gateway (OpenClaw's), vLLM, llama.cpp, Ollama, LM Studio. One call, one answer, no retries.

Options: ``model``, ``base_url`` (up to and with ``/v1``; "" is OpenAI's own), ``api_key_env`` (else OPENAI_API_KEY for
OpenAI's own address, and no key for any other), ``timeout_ms`` of a call, ``connect_ms`` of a new connection. Redirects
are not followed, so a key goes nowhere else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Self

from adapters.http import Http
from adapters.models.options import Options, read_with_key
from fusion.errors import InvalidAnswer

API = "https://api.openai.com/v1"
VARIABLE = "OPENAI_API_KEY"

REPLY_BYTES = 1024 * 1024


class Gateway:
    """Built by ``open``."""

    def __init__(self, options: Options, key: str | None) -> None:
        self.name = options.model
        self._timeout_s = options.timeout_s
        # Their newer models know only the second name, most gateways only the first.
        self._limit = "max_completion_tokens" if options.url == API else "max_tokens"
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._http = Http(options.url, lambda: headers, connect_s=options.connect_ms / 1000, reply_bytes=REPLY_BYTES)

    @classmethod
    def verify(cls, options: Mapping[str, object], environ: Mapping[str, str] = os.environ) -> None:
        """The options are right and the key that they name is set; only a call shows whether it is valid."""
        read_with_key(options, environ, api=API, variable=VARIABLE)

    @classmethod
    def open(cls, options: Mapping[str, object], environ: Mapping[str, str] = os.environ) -> Self:
        """Raises SettingsError for a wrong option, and ModelMissing without the key that is wanted."""
        return cls(*read_with_key(options, environ, api=API, variable=VARIABLE))

    async def complete(self, system: str, user: str, max_tokens: int) -> str:
        reply = await self._http.post(
            "/chat/completions",
            {
                "model": self.name,
                "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
                self._limit: max_tokens,
            },
            self._timeout_s,
        )
        choice = _first(reply)
        message = choice.get("message")
        text = message.get("content") if isinstance(message, dict) else None
        if choice.get("finish_reason") == "length":
            raise InvalidAnswer(f"{self.name}: the answer was cut at its longest")
        if choice.get("finish_reason") == "content_filter" or (isinstance(message, dict) and message.get("refusal")):
            raise InvalidAnswer(f"{self.name}: the model refused")
        if not isinstance(text, str) or not text.strip():
            raise InvalidAnswer(f"{self.name}: the answer has no text")
        return text

    async def close(self) -> None:
        await self._http.close()


def _first(reply: Any) -> dict[str, Any]:
    choices = reply.get("choices") if isinstance(reply, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise InvalidAnswer("not a reply of the chat completions API")
    return choices[0]
