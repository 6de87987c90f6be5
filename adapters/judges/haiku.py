"""Claude Haiku as the judge, through the ``anthropic`` SDK: one call a query, for the head of the list.

The SDK's own timeout bounds each read, not the call, and its retries come on top; so it has neither here, and an outer
deadline bounds everything. The answer is read leniently in form (one repair of almost-JSON) and strictly in content: a
score that is not a number from 0 to 10 for a passage that was asked about is no score.

Nothing that a passage or the key contains gets into a log or a fault: faults name kinds and status codes.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Self

from adapters.judges.prompt import SCHEMA, SYSTEM, ask
from adapters.models.sdk import API, INSTALL, VARIABLE, asked_to_wait_s, connect, installed
from adapters.options import build_known, number
from fusion.contract import Passage, Verdict
from fusion.errors import SettingsError
from fusion.lib.budget import estimate_tokens

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

log = logging.getLogger(__name__)

MINUTE_S = 60.0
FIRST_GUESS_S = 0.3
"""expected seconds of the first call"""

COOLDOWN_S = 30.0
MAX_COOLDOWN_S = 300.0
"""seconds of a pause that a server requests: the first if it states no time, the second at most"""

TOKENS_A_SCORE = 24
"""tokens of one entry of the answer: an opaque id, a number and their JSON"""

MAX_REPLY_CHARS = 65_536
MAX_REPAIRED_CHARS = 2_048
MAX_REPAIRED_BRACKETS = 64
"""maximum characters and brackets of almost-JSON to repair, three times a full answer: some take quadratic time"""
_BRACKETS = str.maketrans(dict.fromkeys("{[("))


@dataclass(slots=True)
class Call:
    """One call of the last minute. ``tokens`` are estimated until the answer has them; ``took_s`` is None meanwhile."""

    at: float
    tokens: int
    took_s: float | None = None


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


class Haiku:
    """A `fusion.contract.Judge`. ``disabled`` says why it never asks anybody; None while it does."""

    name = "haiku"

    def __init__(
        self,
        client: Future[AsyncAnthropic] | None,
        options: Options,
        clock: Callable[[], float],
        disabled: str | None = None,
    ) -> None:
        self._client, self._options, self._clock = client, options, clock
        self._model, self._max_tokens = options.model, options.max_tokens
        self._calls: deque[Call] = deque()
        self._wait_until = -math.inf
        self.disabled: str | None = None
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

    async def judge(self, query: str, passages: Sequence[Passage], deadline_s: float) -> Verdict:
        if self.disabled:
            return Verdict("disabled", fault=self.disabled)
        if not passages:
            return Verdict("ok", model=self._model)
        message = ask(query, passages, secrets.token_hex(8))
        tokens = estimate_tokens(SYSTEM + message) + min(self._max_tokens, TOKENS_A_SCORE * len(passages))
        if (refused := self._refusal(tokens, deadline_s)) is not None:
            return refused
        call = Call(self._clock(), tokens)
        self._calls.append(call)
        try:
            async with asyncio.timeout(deadline_s):
                return await self._ask(message, passages, call)
        except TimeoutError:
            call.took_s = self._clock() - call.at
            return Verdict("timeout", fault=f"no answer within {deadline_s:.2f} s", model=self._model)
        except Exception as error:  # noqa: BLE001  on any failure the local order stays
            return self._fault(error)

    async def close(self) -> None:
        client, self._client = self._client, None
        self.disabled = self.disabled or "closed"
        if client is not None:
            try:
                await (await asyncio.wrap_future(client)).close()
            except ImportError:
                log.debug("there is no client to close: the anthropic SDK is not installed")

    def _refusal(self, tokens: int, deadline_s: float) -> Verdict | None:
        """The reason for making no call now, or None."""
        now = self._clock()
        if now < self._wait_until:
            return Verdict("cooldown", fault=f"asked to wait; {self._wait_until - now:.0f} s are left")
        while self._calls and self._calls[0].at <= now - MINUTE_S:
            self._calls.popleft()
        if len(self._calls) >= self._options.calls_per_minute:
            return Verdict("skipped_budget", fault=f"{self._options.calls_per_minute} calls a minute are spent")
        if sum(call.tokens for call in self._calls) + tokens > self._options.tokens_per_minute:
            return Verdict("skipped_budget", fault=f"{self._options.tokens_per_minute} tokens a minute are spent")
        usual = self._usual_s()
        if deadline_s < usual:
            return Verdict("skipped_budget", fault=f"{max(deadline_s, 0):.2f} s are left, a call takes {usual:.2f} s")
        return None

    def _usual_s(self) -> float:
        """The median of the last minute's calls; those cut by their deadline count with what they had.

        Older ones do not count, so a judge that was too slow is tried again after a minute.
        """
        took = [call.took_s for call in self._calls if call.took_s is not None]
        return median(took) if took else FIRST_GUESS_S

    async def _ask(self, message: str, passages: Sequence[Passage], call: Call) -> Verdict:
        if self._client is None:
            return Verdict("disabled", fault=self.disabled)
        client = await asyncio.shield(asyncio.wrap_future(self._client))
        call.at = self._clock()  # loading the SDK is not the model's slowness
        reply: object = await client.messages.create(
            model=self._model,
            max_tokens=self._max_tokens,
            system=SYSTEM,
            messages=[{"role": "user", "content": message}],
            output_config={"format": {"type": "json_schema", "schema": SCHEMA}},
        )
        call.took_s = self._clock() - call.at
        spent = _usage(reply)
        call.tokens = sum(spent) or call.tokens
        scores, ignored, fault = read(reply, [passage.id for passage in passages])
        model = getattr(reply, "model", None)
        return Verdict(
            "invalid" if fault else "ok",
            scores,
            fault,
            model if isinstance(model, str) else self._model,
            *spent,
            ignored=ignored,
        )

    def _fault(self, error: Exception) -> Verdict:
        if isinstance(error, ImportError):
            self._disable(f"the anthropic SDK is not installed: {INSTALL}")
            return Verdict("disabled", fault=self.disabled)
        status = getattr(error, "status_code", None)
        if status in (401, 403):
            self._disable(f"the API refused the key (HTTP {status})")
            return Verdict("disabled", fault=self.disabled, model=self._model)
        if status in (429, 529):
            wait_s = _retry_after_s(error)
            self._wait_until = max(self._wait_until, self._clock() + wait_s)
            return Verdict("cooldown", fault=f"HTTP {status}: asked to wait {wait_s:.0f} s", model=self._model)
        what = f"HTTP {status}" if isinstance(status, int) else type(error).__name__
        if status == 200 or isinstance(error, ValueError | AttributeError | TypeError):
            return Verdict("invalid", fault=f"not a reply of the API ({what})", model=self._model)
        return Verdict("error", fault=what, model=self._model)

    def _disable(self, why: str) -> None:
        if self.disabled is None:
            log.warning("The judge %s is disabled, the local order is used: %s", self.name, why)
        self.disabled = why


# Reading a reply


def read(reply: object, ids: Iterable[str]) -> tuple[dict[str, float], int, str | None]:
    """Scores by passage id, the number that were ignored, and the fault if there are none.

    A number from 0 to 10 for an id that was asked about is a score. Only the first entry for an id counts, even if it
    is invalid: neither half of a contradiction is better.
    """
    if getattr(reply, "stop_reason", None) == "refusal":
        return {}, 0, "the model refused"
    text = _reply_text(reply)
    if text is None:
        return {}, 0, "not a reply of the API"
    entries, fault = _entries(text)
    asked, seen = set(ids), set[str]()
    scores: dict[str, float] = {}
    ignored = 0
    for entry in entries:
        name = entry.get("id") if isinstance(entry, dict) else None
        score = _score(entry.get("score")) if isinstance(entry, dict) else None
        if not isinstance(name, str) or name not in asked or name in seen or score is None:
            ignored += 1
        else:
            scores[name] = score
        if isinstance(name, str):
            seen.add(name)
    return scores, ignored, None if scores else fault or "no score of it is valid"


def _reply_text(reply: object) -> str | None:
    content = getattr(reply, "content", None)
    if not isinstance(content, list):
        return None
    return "".join(
        block.text
        for block in content
        if getattr(block, "type", None) == "text" and isinstance(getattr(block, "text", None), str)
    ).strip()


def _entries(text: str) -> tuple[list[Any], str | None]:
    """The answer's list, with almost-JSON repaired once; or its fault."""
    if not text or len(text) > MAX_REPLY_CHARS:
        return [], "the answer is empty" if not text else "the answer is too long"
    value, cut = _parsed(text)
    entries = value.get("scores") if isinstance(value, dict) else None
    if not isinstance(entries, list):
        return [], "the answer has no scores"
    return entries[:-1] if cut else entries, None


def _parsed(text: str) -> tuple[object, bool]:
    """A value (None if it is nowhere near JSON), and whether its last number may have lost digits: a 10 became a 1."""
    try:
        return json.loads(text), False
    except ValueError:
        if len(text) > MAX_REPAIRED_CHARS or len(text) - len(text.translate(_BRACKETS)) > MAX_REPAIRED_BRACKETS:
            return None, False

        from json_repair import repair_json

        try:
            return repair_json(text, return_objects=True), text[-1] in "0123456789.+-eE"
        except (ValueError, RecursionError):
            return None, False
    except RecursionError:
        return None, False


def _score(value: object) -> float | None:
    """A finite number from 0 to 10, as it is: nothing is clamped, and ``"7"`` and ``true`` are not numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= 10 else None


def _usage(reply: object) -> tuple[int, int]:
    usage = getattr(reply, "usage", None)
    counts = (getattr(usage, "input_tokens", 0), getattr(usage, "output_tokens", 0))
    given, written = (count if isinstance(count, int) and count > 0 else 0 for count in counts)
    return given, written


def _retry_after_s(error: Exception) -> float:
    """Seconds to wait, at most `MAX_COOLDOWN_S`."""
    asked_s = asked_to_wait_s(error)
    return COOLDOWN_S if asked_s is None else min(asked_s, MAX_COOLDOWN_S)
