"""The language model of `[model]` as the judge: any OpenAI-compatible server, or Anthropic; one call a query.

Deadline, budget, prompt and answer are those of `adapters.judges.haiku`. The model's own budget and breaker hold for
its calls, too, because one server answers both. Faults name kinds and status codes, and never quote a text.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from adapters.judges.calls import Call, RecentCalls
from adapters.judges.prompt import SYSTEM
from adapters.judges.prompted import PromptedJudge
from adapters.judges.reply import scores_of
from adapters.options import build_known, number
from fusion.contract import LanguageModel, Passage, Verdict
from fusion.errors import BackendError, BackendTimeout, InvalidAnswer, RateLimited, SettingsError
from fusion.lib.budget import estimate_tokens

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Options:
    """The keys of ``[judge]`` that this judge uses; model, key and address are those of ``[model]``."""

    base_url: str = ""
    calls_per_minute: int = number(30, 0)
    tokens_per_minute: int = number(60_000, 0)
    max_tokens: int = number(1024, 0)

    def __post_init__(self) -> None:
        if self.base_url:
            raise SettingsError("base_url: this judge asks the model of [model], so its address belongs there")


class ModelJudge(PromptedJudge):
    """A `fusion.contract.Judge` over a language model. Without one it is disabled, and one warning says so."""

    def __init__(self, model: LanguageModel | None, options: Options, clock: Callable[[], float]) -> None:
        self.name = model.name if model is not None else "model"
        calls = RecentCalls(options.calls_per_minute, options.tokens_per_minute, clock)
        super().__init__(self.name, calls, options.max_tokens)
        self._model = model
        if model is None:
            self.disabled = "the language model of [model] is missing"
            log.warning("The judge is disabled, the local order is used: the language model of [model] is missing")

    @classmethod
    def verify(cls, options: Mapping[str, object]) -> None:
        """The options are right. Raises SettingsError."""
        build_known(Options, options, "[judge]")

    @classmethod
    def open_over(
        cls, model: LanguageModel | None, options: Mapping[str, object], clock: Callable[[], float] = time.monotonic
    ) -> Self:
        """The judge over a model that its owner closes. ``clock`` is in seconds. Raises SettingsError."""
        return cls(model, build_known(Options, options, "[judge]"), clock)

    async def _ask(self, message: str, passages: Sequence[Passage], call: Call) -> Verdict:
        if self._model is None:
            return Verdict("disabled", fault=self.disabled)
        answer = await self._model.complete(SYSTEM, message, self._max_tokens)
        self._calls.end(call)
        scores, ignored, fault = scores_of(answer.strip(), [passage.id for passage in passages])
        # The port returns the text alone, so the tokens are estimates.
        given, written = estimate_tokens(SYSTEM + message), estimate_tokens(answer)
        return Verdict("invalid" if fault else "ok", scores, fault, self.name, given, written, ignored=ignored)

    async def close(self) -> None:
        """Nothing: the model is closed by its owner."""

    def _fault(self, error: Exception, call: Call) -> Verdict:
        match error:
            case BackendTimeout():
                self._calls.end(call)
                return Verdict("timeout", fault=str(error), model=self.name)
            case RateLimited():
                return Verdict("cooldown", fault=str(error), model=self.name)
            case InvalidAnswer():
                return Verdict("invalid", fault=str(error), model=self.name)
            case BackendError():
                return Verdict("error", fault=str(error), model=self.name)
        return Verdict("error", fault=type(error).__name__, model=self.name)
