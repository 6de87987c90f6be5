"""A base for judges that ask a language model: one call a query, within the budget and the deadline."""

from __future__ import annotations

import asyncio
import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence

from adapters.judges.calls import Call, RecentCalls, estimated_tokens
from adapters.judges.prompt import ask
from fusion.contract import Passage, Verdict


class PromptedJudge(ABC):
    """A `fusion.contract.Judge`. ``model`` is its name in verdicts; ``disabled`` says why it never asks, or None."""

    def __init__(self, model: str, calls: RecentCalls, max_tokens: int) -> None:
        self._model_name, self._calls, self._max_tokens = model, calls, max_tokens
        self.disabled: str | None = None

    @abstractmethod
    async def _ask(self, message: str, passages: Sequence[Passage], call: Call) -> Verdict:
        """The verdict of one call. It may raise anything."""

    @abstractmethod
    def _fault(self, error: Exception, call: Call) -> Verdict:
        """The verdict when ``_ask`` failed with this error."""

    async def judge(self, query: str, passages: Sequence[Passage], deadline_s: float) -> Verdict:
        if self.disabled:
            return Verdict("disabled", fault=self.disabled)
        if not passages:
            return Verdict("ok", model=self._model_name)
        message = ask(query, passages, secrets.token_hex(8))
        tokens = estimated_tokens(message, len(passages), self._max_tokens)
        if (refused := self._calls.refusal(tokens, deadline_s)) is not None:
            return refused
        call = self._calls.begin(tokens)
        try:
            async with asyncio.timeout(deadline_s):
                return await self._ask(message, passages, call)
        except TimeoutError:
            self._calls.end(call)
            return Verdict("timeout", fault=f"no answer within {deadline_s:.2f} s", model=self._model_name)
        except Exception as error:  # noqa: BLE001  on any failure the local order stays
            return self._fault(error, call)
