"""Which blocks and packs a memory was in, and why: the index behind `why`, written in batches after the replies.

It has no text, and what it says of a memory is deleted with the memory. The oldest entries go beyond `KEPT`, and those
of receipts that are no longer kept are not shown.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from fusion.errors import FusionError
from fusion.lib.background_writer import BackgroundWriter
from fusion.store.database import Connection
from fusion.store.rows import microseconds, storable, time_of

log = logging.getLogger(__name__)

SCHEMA = """
create table inclusion(
    id integer primary key, item text not null, receipt text not null, at integer not null, kind text not null,
    user_id text, place integer not null, score real not null, probability real, found_by text not null
);
create index inclusion_item on inclusion(item, id);
"""
"""``item`` is an event id, or the ref of an external item"""

KEPT = 100_000
"""entries of one home; 12 MB"""
Kind = Literal["block", "pack"]


@dataclass(frozen=True, slots=True)
class Inclusion:
    """One block or pack that had an item: its receipt, and at which place with which score it was found by whom.

    ``place`` counts from 1, the best first. ``probability`` that it helps is None where scores are not calibrated.
    """

    item: str
    receipt_id: str
    at: datetime
    kind: Kind
    user_id: str | None
    place: int
    score: float
    probability: float | None
    found_by: tuple[str, ...]


class InclusionLog(BackgroundWriter):
    """Writes inclusions in the background, those of many questions in one write; ``keep`` writes them."""

    LINGER_S = 0.5
    MAX_WAITING = 5_000
    """entries that may wait for a journal that cannot be written"""

    def __init__(self, keep: Callable[[Sequence[Inclusion]], Awaitable[None]]) -> None:
        super().__init__()
        self._keep = keep
        self._waiting: list[Inclusion] = []

    def note(self, included: Sequence[Inclusion]) -> None:
        """Queue what a block or a pack had; returns at once."""
        self._waiting.extend(included)
        del self._waiting[: -self.MAX_WAITING]
        if self._waiting:
            self._write_soon()

    async def _write_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            try:
                await self._keep(waiting)
            except FusionError as error:
                log.warning("what was included could not be noted yet: %s", error)
                self._waiting = [*waiting, *self._waiting][-self.MAX_WAITING :]


def add(db: Connection, included: Sequence[Inclusion]) -> None:
    """Add entries, but not of memories that were forgotten meanwhile, and delete the oldest ones."""
    db.executemany(
        "insert into inclusion(item, receipt, at, kind, user_id, place, score, probability, found_by) "
        "select ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 "
        "where not exists (select 1 from event where event_id = ?1 and forgotten = 1)",
        [
            (
                one.item,
                one.receipt_id,
                microseconds(one.at),
                one.kind,
                None if one.user_id is None else storable(one.user_id),
                one.place,
                one.score,
                one.probability,
                ",".join(one.found_by),
            )
            for one in included
        ],
    )
    db.execute("delete from inclusion where id <= (select max(id) from inclusion) - ?", (KEPT,))


def of(
    db: Connection, item: str, since: datetime, limit: int, user_id: str | None = None
) -> tuple[list[Inclusion], int]:
    """The latest inclusions of an item since a time, the newest first, and how many there are.

    ``user_id`` restricts them to the questions of that user.
    """
    which = "from inclusion where item = ? and at >= ?" + ("" if user_id is None else " and user_id = ?")
    values = [item, microseconds(since), *([] if user_id is None else [storable(user_id)])]
    (total,) = db.execute(f"select count(*) {which}", values).fetchone()
    rows = db.execute(f"select * {which} order by id desc limit ?", (*values, limit)).fetchall()
    found = [
        Inclusion(
            row["item"],
            row["receipt"],
            time_of(row["at"]),
            row["kind"],
            row["user_id"],
            row["place"],
            row["score"],
            row["probability"],
            tuple(row["found_by"].split(",")) if row["found_by"] else (),
        )
        for row in rows
    ]
    return found, total


def drop(db: Connection, item: str) -> None:
    """Remove what is noted of a memory that was forgotten."""
    db.execute("delete from inclusion where item = ?", (item,))
