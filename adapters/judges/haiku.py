"""Claude Haiku as the judge, through the ``anthropic`` SDK: one call a query, for the head of the list.

The SDK's own timeout bounds each read, not the call, and its retries come on top; so it has neither here, and an outer
deadline bounds everything. `adapters.judges.reply` reads the answer.

Nothing that a passage or the key contains gets into a log or a fault: faults name kinds and status codes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from adapters.judges.calls import Call, RecentCalls
from adapters.judges.prompt import SCHEMA, SYSTEM
from adapters.judges.prompted import PromptedJudge
from adapters.judges.reply import scores_of
from adapters.models.sdk import API, INSTALL, VARIABLE, asked_to_wait_s, connect, installed
from adapters.options import build_known, number
from fusion.contract import Passage, Verdict
from fusion.errors import SettingsError

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

log = logging.getLogger(__name__)

COOLDOWN_S = 30.0
MAX_COOLDOWN_S = 300.0
"""seconds of a pause that a server requests: the first if it states no time, the second at most"""


@dataclass(frozen=True, slots=True)
class Options:
    """The keys of ``[judge]``; ``api_key_env`` names the variable with the key, and "" is Anthropic's own address."""

    model: str = "claude-haiku-4-5-20251001"
    api_key_env: str = VARIABLE
    base_url: str = ""
    calls_per_minute: int = number(30, 0)
    tokens_per_minute: int = number(60_000, 0)
    max_tokens: int = number(1024, 0)

    def __post_init__(self) -> None:
        if self.base_url and not self.base_url.startswith(("http://", "https://")):
            raise SettingsError(f"base_url begins with http:// or https://, not {self.base_url!r}")


class Haiku(PromptedJudge):
    """A `fusion.contract.Judge` over Anthropic's Messages API."""

    name = "haiku"

    def __init__(
        self,
        client: Future[AsyncAnthropic] | None,
        options: Options,
        clock: Callable[[], float],
        disabled: str | None = None,
    ) -> None:
        calls = RecentCalls(options.calls_per_minute, options.tokens_per_minute, clock)
        super().__init__(options.model, calls, options.max_tokens)
        self._client, self._clock = client, clock
        if disabled:
            self._disable(disabled)

    @classmethod
    def verify(cls, options: Mapping[str, object], environ: Mapping[str, str] = os.environ) -> None:
        """The SDK is installed and the key's variable is set; only a call shows whether the key is valid."""
        if not installed():
            raise SettingsError(f"the judge needs the anthropic SDK: {INSTALL}")
        variable = build_known(Options, options, "[judge]").api_key_env
        if not environ.get(variable):
            raise SettingsError(f"{variable} is not set, so the judge is never asked: export {variable}=…")

    @classmethod
    def open(
        cls,
        options: Mapping[str, object],
        clock: Callable[[], float] = time.monotonic,
        environ: Mapping[str, str] = os.environ,
    ) -> Self:
        """``clock`` is in seconds. Without a key or the SDK the judge is disabled, and one warning says so."""
        chosen = build_known(Options, options, "[judge]")
        key = environ.get(chosen.api_key_env)
        client = connect(key, chosen.base_url or API) if key else None
        return cls(client, chosen, clock, None if key else f"{chosen.api_key_env} is not set")

    async def close(self) -> None:
        client, self._client = self._client, None
        self.disabled = self.disabled or "closed"
        if client is not None:
            try:
                await (await asyncio.wrap_future(client)).close()
            except ImportError:
                log.debug("there is no client to close: the anthropic SDK is not installed")

    async def _ask(self, message: str, passages: Sequence[Passage], call: Call) -> Verdict:
        if self._client is None:
            return Verdict("disabled", fault=self.disabled)
        client = await asyncio.shield(asyncio.wrap_future(self._client))
        call.at = self._clock()  # loading the SDK is not the model's slowness
        reply: object = await client.messages.create(
            model=self._model_name,
            max_tokens=self._max_tokens,
            system=SYSTEM,
            messages=[{"role": "user", "content": message}],
            output_config={"format": {"type": "json_schema", "schema": SCHEMA}},
        )
        self._calls.end(call)
        spent = _usage(reply)
        call.tokens = sum(spent) or call.tokens
        scores, ignored, fault = read(reply, [passage.id for passage in passages])
        model = getattr(reply, "model", None)
        return Verdict(
            "invalid" if fault else "ok",
            scores,
            fault,
            model if isinstance(model, str) else self._model_name,
            *spent,
            ignored=ignored,
        )

    def _fault(self, error: Exception, call: Call) -> Verdict:
        if isinstance(error, ImportError):
            self._disable(f"the anthropic SDK is not installed: {INSTALL}")
            return Verdict("disabled", fault=self.disabled)
        status = getattr(error, "status_code", None)
        if status in (401, 403):
            self._disable(f"the API refused the key (HTTP {status})")
            return Verdict("disabled", fault=self.disabled, model=self._model_name)
        if status in (429, 529):
            wait_s = _retry_after_s(error)
            self._calls.pause(wait_s)
            return Verdict("cooldown", fault=f"HTTP {status}: asked to wait {wait_s:.0f} s", model=self._model_name)
        what = f"HTTP {status}" if isinstance(status, int) else type(error).__name__
        if status == 200 or isinstance(error, ValueError | AttributeError | TypeError):
            return Verdict("invalid", fault=f"not a reply of the API ({what})", model=self._model_name)
        return Verdict("error", fault=what, model=self._model_name)

    def _disable(self, why: str) -> None:
        if self.disabled is None:
            log.warning("The judge %s is disabled, the local order is used: %s", self.name, why)
        self.disabled = why


# Reading a reply


def read(reply: object, ids: Iterable[str]) -> tuple[dict[str, float], int, str | None]:
    """Scores by passage id, the number that were ignored, and the fault if there are none."""
    if getattr(reply, "stop_reason", None) == "refusal":
        return {}, 0, "the model refused"
    text = _reply_text(reply)
    return ({}, 0, "not a reply of the API") if text is None else scores_of(text, ids)


def _reply_text(reply: object) -> str | None:
    content = getattr(reply, "content", None)
    if not isinstance(content, list):
        return None
    return "".join(
        block.text
        for block in content
        if getattr(block, "type", None) == "text" and isinstance(getattr(block, "text", None), str)
    ).strip()


def _usage(reply: object) -> tuple[int, int]:
    usage = getattr(reply, "usage", None)
    counts = (getattr(usage, "input_tokens", 0), getattr(usage, "output_tokens", 0))
    given, written = (count if isinstance(count, int) and count > 0 else 0 for count in counts)
    return given, written


def _retry_after_s(error: Exception) -> float:
    """Seconds to wait, at most `MAX_COOLDOWN_S`."""
    asked_s = asked_to_wait_s(error)
    return COOLDOWN_S if asked_s is None else min(asked_s, MAX_COOLDOWN_S)
