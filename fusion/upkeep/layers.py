"""The job `layers`: a language model writes the abstract and the overview of long memories, so that packs have them.

A pack never waits for it: it uses what is stored, else the rules. Each memory is one call and one transaction, so a run
that was killed goes on with the next memory. A run ends when its time or its tokens are used up, when the model asks
for a pause, or when it fails several times in a row. A memory whose answer was refused is asked about again later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from fusion.contract import LanguageModel
from fusion.errors import BackendError, InvalidAnswer, RateLimited
from fusion.journal import Journal, layers
from fusion.lib.clock import Clock
from fusion.upkeep.job import JobContext
from fusion.upkeep.layer_prompt import tokens_of, written_layers

NAME = "layers"
DOES = "Have the language model write the abstract and overview of long memories, if [packs] layers_by_model is on."
MODEL_S = 60.0
"""most seconds for one memory"""
MAX_FAILURES = 3
"""failures of the model in a row that end a run"""

log = logging.getLogger(__name__)

Outcome = Literal["written", "refused", "failed", "paused"]


@dataclass(frozen=True, slots=True)
class Done:
    """What became of the memory ``number``, and the estimated tokens of the call about it.

    ``refused``: the answer is not used; ``failed``: there was none; ``paused``: the model was not asked yet.
    """

    number: int
    outcome: Outcome
    tokens: int


@dataclass(frozen=True, slots=True, eq=False)
class LayerWriter:
    """Has a language model write the layers of the memories of one journal."""

    journal: Journal
    model: LanguageModel
    clock: Clock
    timeout_s: float = MODEL_S

    async def next(self, before: int | None = None) -> Done | None:
        """Do the newest memory before a number that has no layers of a model; None if there is none.

        Its state is read right before the call, so nothing that was forgotten or quarantined since is sent.
        """
        record = await self.journal.snapshot(layers.newest_without, before, self.clock())
        if record is None:
            return None
        number, event_id, text = layers.number_of(record), record.event.event_id, record.event.text
        try:
            async with asyncio.timeout(self.timeout_s):
                made = await written_layers(text, self.model)
        except RateLimited:
            return Done(number, "paused", 0)
        except Exception as error:  # noqa: BLE001 — any fault of a model concerns this memory alone
            why = str(error) if isinstance(error, BackendError) and str(error) else type(error).__name__
            log.warning("the language model wrote no layers of a memory: %s", why)
            await self.journal.write(layers.refuse, event_id, why, self.clock())
            return Done(number, "refused" if isinstance(error, InvalidAnswer) else "failed", tokens_of(text))
        await self.journal.write(layers.put, {event_id: made}, "model", self.clock())
        return Done(number, "written", tokens_of(text))


class WritesNext(Protocol):
    """Does the next memory of a tenant, as `LayerWriter.next`."""

    def __call__(self, tenant: str, before: int | None = None) -> Awaitable[Done | None]: ...


def step(
    waiting: Callable[[str], Awaitable[int]], write_next: WritesNext
) -> Callable[[JobContext, str], Awaitable[None]]:
    """The step for one tenant. ``waiting`` counts the memories that the model may be asked about."""

    async def run(context: JobContext, tenant: str) -> None:
        total = await waiting(tenant)
        context.add({"waiting": total, "written": 0, "refused": 0, "failed": 0, "model_tokens": 0})
        before: int | None = None
        failures = count = 0
        while not context.dry_run and context.left_s and failures < MAX_FAILURES and _has_tokens(context):
            done = await write_next(tenant, before)
            if done is None or done.outcome == "paused":
                return
            before, count = done.number, count + 1
            failures = failures + 1 if done.outcome == "failed" else 0
            context.add({done.outcome: 1, "model_tokens": done.tokens})
            context.report(count, total)

    return run


def _has_tokens(context: JobContext) -> bool:
    return not context.budget_tokens or context.result["model_tokens"] < context.budget_tokens
