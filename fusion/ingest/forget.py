"""Forgetting: the tombstone first, then every backend, and a receipt that says what became of it where.

From the moment the tombstone stands, nothing shows the memory: every answer is checked against it. A backend that is
down is asked again by the deliverer until it has forgotten.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from fusion.contract import Scope
from fusion.errors import FusionError
from fusion.ingest.deliver import Deliverer
from fusion.ingest.journal import Journal
from fusion.lib.words import spoken

log = logging.getLogger(__name__)

PATIENCE_S = 2.0
"""for one backend while the caller waits; after that it is pending"""


@dataclass(frozen=True, slots=True)
class ForgetReceipt:
    """By backend: deleted, absent (it never had it), hidden (a user's own file, left as it is), or pending."""

    ref: str
    event_id: str
    backends: Mapping[str, str]

    @property
    def done(self) -> bool:
        return "pending" not in self.backends.values()


class Forgetter:
    """Forgets for one home. ``purge`` removes texts from the embedder's caches."""

    def __init__(
        self, journal: Journal, deliverer: Deliverer, purge: Callable[[Sequence[str]], Awaitable[None]] | None = None
    ) -> None:
        self._journal = journal
        self._deliverer = deliverer
        self._purge = purge

    async def forget(self, ref: str, scope: Scope) -> ForgetReceipt:
        """Forgets one memory by its ref or event id. Raises NotFound."""
        record, due = await self._journal.bury(ref, scope)
        event = record.event
        outcomes = await asyncio.gather(
            *(self._ask(name, seq, event.event_id, native_ids) for name, (seq, native_ids) in due.items())
        )
        if self._purge is not None:
            await self._purge([event.text, spoken(event.text, event.speaker)])
        if "pending" in outcomes:
            self._deliverer.wake()
        return ForgetReceipt(record.ref, event.event_id, dict(zip(due, outcomes, strict=True)))

    async def _ask(self, name: str, seq: int, event_id: str, native_ids: Sequence[str]) -> str:
        if name not in self._deliverer.stores:
            return "pending"
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await self._deliverer.forget(name, seq, event_id, native_ids)
        except (FusionError, OSError, TimeoutError) as error:
            log.warning("backend %s has not forgotten an event yet: %s", name, type(error).__name__)
            return "pending"
