"""Forgets observations everywhere: the line in the log first, then the row, its words and its vector in the ledger.

A line is overwritten in its place, also in a compressed segment, so that the pointers of all others stay valid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import orjson

from fusion.contract import Event, Scope
from fusion.ingest.observe import ObservationIntake
from fusion.journal import Journal, observation_deletion, observations
from fusion.journal.observations import Wanted
from fusion.lib.clock import Clock
from fusion.lib.observation import EpisodeType, redacted_copy
from fusion.store.database import Row

REDACTED = "[REDACTED]"
BATCH = 1_000
"""observations that are deleted in one transaction"""


class ObservationForgetter:
    """Forgets, redacts and expires the observations of one tenant."""

    def __init__(self, journal: Journal, intake: ObservationIntake, tenant: str, clock: Clock) -> None:
        self._journal, self._intake, self._tenant, self._clock = journal, intake, tenant, clock

    async def found(self, wanted: Wanted, limit: int) -> list[Row]:
        """What `forget` would forget of a scope, the oldest first."""
        await self._intake.harvest()
        return await self._journal.read(observations.page, wanted, limit)

    async def named(self, refs: Sequence[str], scope: Scope) -> list[Row]:
        """The rows of the refs that name an observation of this scope."""
        await self._intake.harvest()
        return await self._journal.read(observations.find_all, refs, scope)

    async def forget(self, rows: Sequence[Row], by: str = "ref") -> None:
        """Forget observations for good. Raises StoreFull and StoreBusy; what it did until then stays done."""
        for start in range(0, len(rows), BATCH):
            batch = rows[start : start + BATCH]
            await self._intake.blank(batch)
            await self._journal.erase(observation_deletion.forget, batch, by, self._clock())

    async def forget_quotes(self, events: Sequence[Event]) -> None:
        """Forget the observations of a memory's owner that have all of its text in them."""
        by_owner: dict[Scope, list[str]] = {}
        for event in events:
            owner = Scope(event.scope.tenant, event.scope.user_id or "", audience="private")
            by_owner.setdefault(owner, []).append(event.text)
        for owner, texts in by_owner.items():
            await self._intake.harvest()
            rows = await self._journal.read(observation_deletion.quoting, texts, owner)
            await self.forget(rows, "quote")

    async def redact(self, rows: Sequence[Row]) -> int:
        """Replace all that was said in observations, which stay where they are; returns their number."""
        for row in rows:
            found = redacted_copy(observations.observation_of(row), REDACTED)
            said = {"summary": REDACTED, "payload": None, "refs": None}
            by_hand = orjson.dumps({**observations.by_hand_of(row), **said}).decode()
            changed = replace(found, redacted=found.redacted + 1, by_hand=by_hand)
            await self._intake.write_line(row, changed)
            await self._journal.erase(observation_deletion.redact, row, REDACTED, by_hand)
        return len(rows)

    async def expire(self, days: Mapping[EpisodeType, float], *, dry_run: bool = False) -> dict[str, int]:
        """Delete what is older than its type is kept; the numbers by type. Only blank lines are left of it."""
        deleted: dict[str, int] = {}
        while True:
            limit = 1_000_000 if dry_run else BATCH
            rows = await self._journal.read(observation_deletion.too_old, days, self._tenant, self._clock(), limit)
            for row in rows:
                deleted[row["type"]] = deleted.get(row["type"], 0) + 1
            if dry_run or not rows:
                return deleted
            await self._intake.blank(rows)
            await self._journal.erase(observation_deletion.drop, [row["seq"] for row in rows])
