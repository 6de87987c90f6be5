"""A read-only view of a damaged journal, which shows only events whose row can still be read.

An empty journal in its place would be a silent loss, and writing to it could destroy what is left. The row of an event
says whether it was forgotten and whose it is, so an event without a readable row is not shown.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TypeVar

from fusion import wire
from fusion.contract import Event, Scope, TimeRange, Where
from fusion.errors import StoreDamaged
from fusion.journal import Journal
from fusion.journal.outbox import Deliveries
from fusion.journal.owners import Owners
from fusion.journal.rows import Record, record_of
from fusion.journal.tombstones import Tombstones, quarantined
from fusion.lib.bm25 import Frequencies
from fusion.store.database import Connection
from fusion.store.sqlite import Database

T = TypeVar("T")
_UNKNOWN_TIME = datetime(1970, 1, 1, tzinfo=UTC)


class ReadOnlyJournal(Journal):
    """A journal whose writing methods raise StoreDamaged, with the fix."""

    @classmethod
    async def salvage(cls, file: Path) -> Self:
        """Open a damaged journal. Raises StoreDamaged if its tombstones cannot be read, or its schema is another."""
        journal = cls(await Database.open_damaged(file, cls.schema, fix=cls.fix_for(file)))
        try:
            await journal.load()
        except BaseException:
            await journal.close()
            raise
        return journal

    def _read_quarantined(self, db: Connection) -> Tombstones:
        return Tombstones.of_quarantined(_readable(quarantined(db)))

    async def check(self) -> None:
        raise StoreDamaged(self._database.refusal)

    async def records(self, event_ids: Sequence[str]) -> Mapping[str, Record]:
        """By event id, the readable records. An event without one may have been forgotten, so it counts as that."""

        def work(db: Connection) -> dict[str, Record]:
            return {event_id: _record(db, event_id) for event_id in event_ids}

        return await self._database.read(work)

    async def neighbours(self, event_ids: Sequence[str], span: int) -> Mapping[str, Sequence[Record]]:
        return await _or(super().neighbours(event_ids, span), {})

    async def happened(
        self,
        scope: Scope,
        times: Sequence[TimeRange],
        limit: int,
        *,
        zone: str | None = None,
        history: bool,
        every: bool,
    ) -> Sequence[Record]:
        read = super().happened(scope, times, limit, zone=zone, history=history, every=every)
        return await _or(read, ())

    async def fitting(self, scope: Scope, where: Where, limit: int, *, history: bool) -> Sequence[Record]:
        return await _or(super().fitting(scope, where, limit, history=history), ())

    async def frequencies(self, scope: Scope, asked: Sequence[str]) -> Frequencies:
        return await _or(super().frequencies(scope, asked), Frequencies())

    async def owners(self, tenant: str) -> Owners:
        return await _or(super().owners(tenant), Owners())

    async def backlog(self) -> Mapping[str, int]:
        return await _or(super().backlog(), {})

    async def deliveries(self) -> Mapping[str, Deliveries]:
        return await _or(super().deliveries(), {})

    async def counts(self, tenant: str) -> wire.Counts:
        return await _or(super().counts(tenant), {"current": 0, "superseded": 0, "forgotten": 0})

    async def counts_of_scope(self, scope: Scope) -> wire.Counts:
        return await _or(super().counts_of_scope(scope), {"current": 0, "superseded": 0, "forgotten": 0})

    async def upkeep(self) -> tuple[int, list[wire.FailedJob]]:
        return await _or(super().upkeep(), (0, []))


async def _or(found: Awaitable[T], unreadable: T) -> T:
    """The result of a query, or ``unreadable`` if it meets a damaged page."""
    try:
        return await found
    except StoreDamaged:
        return unreadable


def _readable(records: Iterator[Record]) -> Iterator[Record]:
    """The records before the first damaged page."""
    with suppress(sqlite3.DatabaseError):
        yield from records


def _record(db: Connection, event_id: str) -> Record:
    row: Any = None
    with suppress(sqlite3.DatabaseError):  # a page of it is damaged; another event's may be whole
        row = db.execute("select * from event where event_id = ?", (event_id,)).fetchone()
    return Record("", Event(event_id, "", _UNKNOWN_TIME), forgotten=True) if row is None else record_of(row)
