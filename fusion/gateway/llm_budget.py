"""A language model with a budget and a circuit breaker: five failures in a row stop calls for 30 seconds (seed 000)."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

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


class Budget(Protocol):
    """The calls of a minute: how many there may be, and how many tokens they may have."""

    async def take(self, tokens: int) -> int | None:
        """Count a call with its estimated tokens and return its number; None while the minute's budget is spent.

        A call is always allowed if there was none in the last minute.
        """

    async def correct(self, number: int, tokens: int | None) -> None:
        """Count the tokens that a call had; None: there was no call."""

    async def wait_s(self) -> float:
        """Seconds until the oldest call of the minute counts no more."""


@dataclass(slots=True)
class _Call:
    """The time of a call and its tokens: an estimate of the most until the answer is there."""

    number: int
    at: float
    tokens: int


class OwnBudget:
    """The budget of one process."""

    def __init__(self, calls_per_minute: int, tokens_per_minute: int, clock: Callable[[], float]) -> None:
        self._most_calls, self._most_tokens, self._clock = calls_per_minute, tokens_per_minute, clock
        self._calls: deque[_Call] = deque()
        self._last = 0

    async def take(self, tokens: int) -> int | None:
        now = self._clock()
        while self._calls and self._calls[0].at <= now - MINUTE_S:
            self._calls.popleft()
        spent = sum(call.tokens for call in self._calls)
        if self._calls and (len(self._calls) >= self._most_calls or spent + tokens > self._most_tokens):
            return None
        self._last += 1
        self._calls.append(_Call(self._last, now, tokens))
        return self._last

    async def correct(self, number: int, tokens: int | None) -> None:
        for call in list(self._calls):
            if call.number == number:
                if tokens is None:
                    self._calls.remove(call)
                else:
                    call.tokens = tokens

    async def wait_s(self) -> float:
        return self._calls[0].at + MINUTE_S - self._clock() if self._calls else 0.0


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
        budget: Budget | None = None,
    ) -> None:
        """``budget`` is one that gateways share, in place of this process's own."""
        self.name = model.name
        self._model = model
        self._budget = budget or OwnBudget(calls_per_minute, tokens_per_minute, clock)
        waits = Waits(OPEN_S, OPEN_S, spread=0.0, rate_limited_s=OPEN_S, unauthorized_s=MAX_WAIT_S)
        self._breaker = Breaker(clock, failures=FAILURES, waits=waits)

    async def complete(self, system: str, user: str, max_tokens: int, use: ModelUse | None = None) -> str:
        """The answer. A call that reaches the model is counted in ``use``, with estimated tokens."""
        asked = estimate_tokens(system + user)
        call = await self._budget.take(asked + max_tokens)
        if call is None:
            raise RateLimited(f"{self.name}: this minute's budget is spent", await self._budget.wait_s())
        permit = self._breaker.admit()
        if permit is None:
            await self._budget.correct(call, None)
            # While a probe is under way the wait is unknown; if the probe fails, it is OPEN_S.
            raise RateLimited(f"{self.name} is not asked for a while", self._breaker.wait_s or OPEN_S)
        try:
            answer = await self._traced(system, user, max_tokens)
        except BaseException as error:
            _report(permit, error)
            if use is not None:
                use.note("failed")
            raise
        permit.succeeded()
        answered = estimate_tokens(answer)
        if use is not None:
            use.note("ok", asked, answered)
        await self._budget.correct(call, asked + answered)
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


class CountedModel:
    """A `BudgetedModel` for one tenant, whose calls are counted in ``use``; budget and breaker are shared."""

    def __init__(self, model: BudgetedModel, use: ModelUse) -> None:
        self.name = model.name
        self._model = model
        self._use = use

    async def complete(self, system: str, user: str, max_tokens: int) -> str:
        return await self._model.complete(system, user, max_tokens, self._use)

    async def close(self) -> None:
        """Nothing: the home closes the model that its tenants share."""


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
