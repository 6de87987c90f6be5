"""A language model within its budget, left alone while it fails: five failures in a row, thirty seconds (seed 000)."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fusion.errors import BackendTimeout, BackendUnreachable, HttpStatus, RateLimited, Unauthorized
from fusion.lib.budget import estimate_tokens

if TYPE_CHECKING:
    from fusion.contract import LanguageModel

MINUTE_S = 60.0
FAILURES, OPEN_S = 5, 30.0
MAX_WAIT_S = 300.0
"""no server may silence itself for longer; and a refused key is tried again after it, for somebody may mend it"""


@dataclass(slots=True)
class _Call:
    at: float
    tokens: int


class Metered:
    """A `fusion.contract.LanguageModel` around another one; all who ask it share one budget and one breaker.

    ``complete`` raises RateLimited, and asks nobody, when the minute's calls or estimated tokens are spent, while the
    model asked to be left alone, and while it fails. After that one call is let through, and the others wait for it.
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
        self._failures = 0
        self._closed_until = 0.0

    async def complete(self, system: str, user: str, max_tokens: int) -> str:
        call = self._admit(estimate_tokens(system + user), max_tokens)
        try:
            answer = await self._model.complete(system, user, max_tokens)
        except RateLimited as error:
            self._leave_alone(error.retry_after_s or OPEN_S)
            raise
        except Unauthorized:
            self._leave_alone(MAX_WAIT_S)
            raise
        except (BackendUnreachable, BackendTimeout) as error:
            self._failed(error)
            raise
        except HttpStatus as error:
            if error.status >= 500:
                self._failed(error)
            raise
        self._failures, self._closed_until = 0, 0.0
        call.tokens += estimate_tokens(answer) - max_tokens
        return answer

    async def close(self) -> None:
        await self._model.close()

    def _admit(self, asked: int, answered: int) -> _Call:
        now = self._clock()
        if now < self._closed_until:
            raise RateLimited(f"{self.name} is left alone for a while", self._closed_until - now)
        while self._calls and self._calls[0].at <= now - MINUTE_S:
            self._calls.popleft()
        spent = sum(call.tokens for call in self._calls)
        if self._calls and (
            len(self._calls) >= self._calls_per_minute or spent + asked + answered > self._tokens_per_minute
        ):
            raise RateLimited(f"{self.name}: this minute's budget is spent", self._calls[0].at + MINUTE_S - now)
        if self._failures >= FAILURES:
            self._closed_until = now + OPEN_S  # for the others, while this one call tries
        call = _Call(now, asked + answered)
        self._calls.append(call)
        return call

    def _failed(self, error: BackendUnreachable | BackendTimeout | HttpStatus) -> None:
        self._failures += 1
        asked_s = getattr(error, "retry_after_s", None)
        if self._failures >= FAILURES or asked_s:
            self._leave_alone(max(asked_s or 0.0, OPEN_S if self._failures >= FAILURES else 0.0))

    def _leave_alone(self, seconds: float) -> None:
        self._closed_until = max(self._closed_until, self._clock() + min(seconds, MAX_WAIT_S))
