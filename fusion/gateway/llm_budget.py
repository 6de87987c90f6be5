"""A language model with a budget and a circuit breaker: five failures in a row stop calls for 30 seconds (seed 000)."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fusion.errors import BackendTimeout, BackendUnreachable, HttpStatus, InvalidAnswer, RateLimited, Unauthorized
from fusion.gateway.measures import ModelUse
from fusion.lib import trace
from fusion.lib.breaker import FAILURES, RETRY_AFTER_CAP_S, Breaker, Permit, Waits
from fusion.lib.budget import estimate_tokens

if TYPE_CHECKING:
    from fusion.contract import LanguageModel

MINUTE_S = 60.0
OPEN_S = 30.0
MAX_WAIT_S = RETRY_AFTER_CAP_S
"""maximum seconds until a refused key is tried again: the user may have replaced it"""


@dataclass(slots=True)
class _Call:
    """The time of a call and its tokens: an estimate of the most until the answer is there."""

    at: float
    tokens: int


class BudgetedModel:
    """Wraps a `fusion.contract.LanguageModel` with one budget and one breaker for all callers.

    ``complete`` raises RateLimited without a call if the minute's calls or estimated tokens are used up, if the model
    has asked for a pause, or while it fails. After a pause one call is let through first, as a probe.
    """

    def __init__(
        self,
        model: LanguageModel,
        *,
        calls_per_minute: int,
        tokens_per_minute: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = model.name
        self._model = model
        self._calls_per_minute = calls_per_minute
        self._tokens_per_minute = tokens_per_minute
        self._clock = clock
        self._calls: deque[_Call] = deque()
        waits = Waits(OPEN_S, OPEN_S, spread=0.0, rate_limited_s=OPEN_S, unauthorized_s=MAX_WAIT_S)
        self._breaker = Breaker(clock, failures=FAILURES, waits=waits)
        self.use = ModelUse()
        """the calls since the start; tokens are estimated"""

    async def complete(self, system: str, user: str, max_tokens: int) -> str:
        call = self._within_budget(estimate_tokens(system + user), max_tokens)
        permit = self._breaker.admit()
        if permit is None:
            # While a probe is under way the wait is unknown; if the probe fails, it is OPEN_S.
            raise RateLimited(f"{self.name} is not asked for a while", self._breaker.wait_s or OPEN_S)
        self._calls.append(call)
        try:
            answer = await self._traced(system, user, max_tokens)
        except BaseException as error:
            _report(permit, error)
            self.use.note("failed")
            raise
        permit.succeeded()
        self.use.note("ok", estimate_tokens(system + user), estimate_tokens(answer))
        call.tokens += estimate_tokens(answer) - max_tokens
        return answer

    async def _traced(self, system: str, user: str, max_tokens: int) -> str:
        """The answer, in a span with the names of OpenTelemetry's conventions for models; its tokens are estimated."""
        asked: dict[str, trace.Value] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": self.name,
            "gen_ai.request.max_tokens": max_tokens,
        }
        with trace.span(f"chat {self.name}", "client", asked) as span:
            answer = await self._model.complete(system, user, max_tokens)
            span.set_attribute("gen_ai.usage.input_tokens", estimate_tokens(system + user))
            span.set_attribute("gen_ai.usage.output_tokens", estimate_tokens(answer))
            return answer

    async def close(self) -> None:
        await self._model.close()

    def _within_budget(self, asked: int, answered: int) -> _Call:
        """The call, not counted yet. Raises RateLimited if it does not fit into the current minute's budget."""
        now = self._clock()
        while self._calls and self._calls[0].at <= now - MINUTE_S:
            self._calls.popleft()
        spent = sum(call.tokens for call in self._calls)
        if self._calls and (
            len(self._calls) >= self._calls_per_minute or spent + asked + answered > self._tokens_per_minute
        ):
            raise RateLimited(f"{self.name}: this minute's budget is spent", self._calls[0].at + MINUTE_S - now)
        return _Call(now, asked + answered)


def _report(permit: Permit, error: BaseException) -> None:
    """Report an error to the breaker. A model that answers, even with nonsense or a refusal, has not failed."""
    if isinstance(error, RateLimited):
        permit.rate_limited(error.retry_after_s or None)
    elif isinstance(error, Unauthorized):
        permit.unauthorized()
    elif isinstance(error, BackendUnreachable | BackendTimeout):
        permit.failed()
    elif isinstance(error, HttpStatus) and error.status >= 500:
        permit.failed(retry_after_s=error.retry_after_s)
    elif isinstance(error, InvalidAnswer | HttpStatus):
        permit.succeeded()
    else:
        permit.abandoned()
