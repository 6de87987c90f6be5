"""A damaged journal, read as far as it goes: nothing is written to it, and nothing is shown that it cannot vouch for.

It is the truth, so an empty one in its place would be a silent loss, and writing to it could ruin what is left. What it
says of an event decides whether that was forgotten and whose it is: where it cannot say, the event is not shown.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from fusion.contract import Event, Scope
from fusion.errors import StoreDamaged
from fusion.journal import Journal
from fusion.journal.listing import Counts
from fusion.journal.outbox import Deliveries
from fusion.journal.rows import Record, record_of
from fusion.lib.bm25 import Frequencies
from fusion.store.sqlite import Connection, Database

NOBODY_KNOWS = datetime(1970, 1, 1, tzinfo=UTC)


class ReadOnlyJournal(Journal):
    """Reads like a journal; whatever would write raises StoreDamaged, with the fix."""

    @classmethod
    async def salvage(cls, file: Path) -> Self:
        """Raises StoreDamaged where not even the lines of files that were forgotten can be read, or another version of
        this program wrote it."""
        journal = cls(await Database.open_damaged(file, cls.schema, fix=cls.fix_for(file)))
        try:
            await journal.load()
        except BaseException:
            await journal.close()
            raise
        return journal

    async def check(self) -> None:
        raise StoreDamaged(self._database.refusal)

    async def records(self, event_ids: Sequence[str]) -> Mapping[str, Record]:
        """What can be read of each event. One that cannot be found may have been forgotten, so it counts as that."""

        def work(db: Connection) -> dict[str, Record]:
            return {event_id: _record(db, event_id) for event_id in event_ids}

        return await self._database.read(work)

    async def neighbours(self, event_ids: Sequence[str], span: int) -> Mapping[str, Sequence[Record]]:
        try:
            return await super().neighbours(event_ids, span)
        except StoreDamaged:
            return {}

    async def frequencies(self, scope: Scope, asked: Sequence[str]) -> Frequencies:
        try:
            return await super().frequencies(scope, asked)
        except StoreDamaged:
            return Frequencies()

    async def backlog(self) -> Mapping[str, int]:
        try:
            return await super().backlog()
        except StoreDamaged:
            return {}

    async def deliveries(self) -> Mapping[str, Deliveries]:
        try:
            return await super().deliveries()
        except StoreDamaged:
            return {}

    async def counts(self, tenant: str) -> Counts:
        try:
            return await super().counts(tenant)
        except StoreDamaged:
            return Counts()


def _record(db: Connection, event_id: str) -> Record:
    row: Any = None
    with suppress(sqlite3.DatabaseError):  # a page of it is damaged; another event's may be whole
        row = db.execute("select * from event where event_id = ?", (event_id,)).fetchone()
    return Record("", Event(event_id, "", NOBODY_KNOWS), forgotten=True) if row is None else record_of(row)
