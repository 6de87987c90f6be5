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
from fusion.ingest.deliver import Deliverer
from fusion.ingest.journal import Journal
from fusion.lib.words import spoken

log = logging.getLogger(__name__)

_WORSE = ("absent", "deleted", "hidden", "pending")
PATIENCE_S = 2.0
"""for one backend while the caller waits; after that it is pending"""


@dataclass(frozen=True, slots=True)
class ForgetReceipt:
    """By backend: deleted, absent (it never had it), hidden (a user's own file, left as it is), or pending.

    ``also`` has the refs of what went with it: its earlier versions, and what was derived from nothing else. Where
    these fared worse in a backend than the memory itself, that is what stands there.
    """

    ref: str
    event_id: str
    backends: Mapping[str, str]
    also: tuple[str, ...] = ()

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
        burials = await self._journal.bury(ref, scope)
        asked = [(name, burial.record.event.event_id, *due) for burial in burials for name, due in burial.due.items()]
        outcomes = await asyncio.gather(*(self._ask(*one) for one in asked))
        backends: dict[str, str] = {}
        for (name, *_), outcome in zip(asked, outcomes, strict=True):
            backends[name] = max(backends.get(name, outcome), outcome, key=_WORSE.index)
        events = [burial.record.event for burial in burials]
        if self._purge is not None:
            await self._purge([text for e in events for text in (e.text, spoken(e.text, e.speaker)) if text])
        if "pending" in outcomes:
            self._deliverer.wake()
        first, *others = (burial.record for burial in burials)
        return ForgetReceipt(first.ref, first.event.event_id, backends, tuple(other.ref for other in others))

    async def _ask(self, name: str, event_id: str, seq: int, native_ids: Sequence[str]) -> str:
        if name not in self._deliverer.stores:
            return "pending"
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await self._deliverer.forget(name, seq, event_id, native_ids)
        except Exception as error:  # noqa: BLE001 — whatever ails one store, the others are asked and it stays due
            log.warning("backend %s has not forgotten an event yet: %s", name, type(error).__name__)
            return "pending"
