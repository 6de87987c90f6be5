"""What may be shown of memories: in memory, because every answer is checked against it.

It knows what was forgotten, what the journal has quarantined, and the states of external items, which only backends
have. A journal reloads the part that a write may have changed before the write is acknowledged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from fusion.contract import Event, Hit, Scope, State
from fusion.journal import feed, state
from fusion.journal.rows import Record, record_of
from fusion.journal.tombstones import Tombstones, quarantined
from fusion.lib.ids import external_ref
from fusion.store.database import Database


class Visibility:
    """Which memories of one journal and of its backends may be shown."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.forgotten = Tombstones()
        self._quarantined = Tombstones()
        """of what the journal has quarantined, for hits that a backend alone vouches for"""
        self._external_states: Mapping[str, State] = {}
        """by ref, the states of external items; few, as only their owner sets them"""
        self.changing = asyncio.Lock()
        """held by what adds to ``forgotten`` and by what reads it anew: a reload must not drop what was added since it
        read"""

    async def load(self) -> None:
        """Read everything."""
        await self.reload_forgotten()
        await self.reload_quarantined(always=True)
        await self.reload_external()

    async def reload_forgotten(self) -> None:
        """Read the tombstones again; the caller holds ``changing``, or is the only one that writes."""
        self.forgotten = await self._database.read(Tombstones.of)

    async def reload_quarantined(self, *, always: bool = False) -> None:
        """Read anew what is quarantined: if something is, as a write may have taken it away; ``always`` if a write may
        have added to it."""
        if self._quarantined or always:
            self._quarantined = await self._database.read(lambda db: Tombstones.of_quarantined(quarantined(db)))

    async def reload_external(self) -> None:
        """Read the states of external items anew."""
        self._external_states = await self._database.read(state.externals)

    async def decided(self, items: Sequence[str]) -> None:
        """Bring in decisions on these memories and external items."""
        if await self._database.read(lambda db: state.changes_trust(db, items)):
            await self.reload_quarantined(always=True)
        await self.reload_external()

    async def apply(self, changes: feed.Changes) -> None:
        """Bring in what other gateways of a shared journal changed; the caller holds ``changing``."""
        if changes.events:
            added = any(record_of(row).trust == "quarantined" for row in changes.events)
            await self.reload_quarantined(always=added)
        if changes.lifted:
            await self.reload_forgotten()
        else:
            self.forgotten.extend(changes.keys, changes.lines)
        if changes.external:
            await self.reload_external()

    def quarantine(self, event: Event) -> None:
        """Add an event that was stored as quarantined."""
        self._quarantined.add(Hit.of(event))

    def record(self, record: Record) -> Record | None:
        """A record without the statements that were forgotten in its file; None if nothing is left."""
        return self.forgotten.visible_record(record)

    def records(self, records: Iterable[Record]) -> list[Record]:
        """The records without forgotten statements of their files; those with nothing left are dropped."""
        return [left for one in records if (left := self.record(one)) is not None]

    def hits(self, backend: str, hits: Sequence[Hit]) -> Sequence[Hit]:
        """The hits that may be shown, pieces of files without their forgotten statements (`Tombstones.visible`)."""
        if self._quarantined:
            hits = [left for hit in hits if (left := self._unquarantined(backend, hit)) is not None]
        if self._external_states:
            hits = [left for hit in hits if (left := self._with_state(backend, hit)) is not None]
        if not self.forgotten:
            return hits
        return [left for hit in hits if (left := self.forgotten.visible(backend, hit)) is not None]

    def lines(self, scope: Scope, document: str, lines: Sequence[str]) -> Mapping[int, str]:
        """By number from 1, each line of a user's own file that has forgotten statements, without them."""
        return self.forgotten.visible_lines(document, lines, scope)

    def _unquarantined(self, backend: str, hit: Hit) -> Hit | None:
        """A hit that the journal has no event of, without what is quarantined there; None if that is all of it."""
        return hit if hit.event_id is not None else self._quarantined.visible(backend, hit)

    def _with_state(self, backend: str, hit: Hit) -> Hit | None:
        """An external item with the trust of its state; None if that has ended. Other hits have a record.

        Also one with the id of an event, which the journal may lack: its database was restored from a backup.
        """
        known = self._external_states.get(external_ref(backend, hit.native_id))
        if known is None:
            return hit
        if known.ended_at is not None:
            return None
        return hit if known.trust is None else replace(hit, trust=known.trust)
