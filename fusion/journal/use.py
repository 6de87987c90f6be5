"""How often each memory was part of a block or was retrieved, and when last; written in batches after the replies.

Only inclusion is use (openclaw-mem's rule): it keeps a memory from being archived, and ranks it. That a memory was
among the best candidates of a question is counted apart, for whoever wants to know what is found and never shown.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from fusion.errors import FusionError
from fusion.lib.background_writer import BackgroundWriter
from fusion.store.database import VALUES, Connection, listed
from fusion.store.rows import microseconds, time_of

log = logging.getLogger(__name__)

SCHEMA = """
create table use(item text primary key, included integer not null, last_included_at integer not null) without rowid;
"""
"""``item`` is an event id, or the ref of an external item"""
RETRIEVED = """
create table retrieval(item text primary key, retrieved integer not null, last_retrieved_at integer not null)
    without rowid;
"""
"""a table of its own, since most of what is retrieved is never included"""
_NOT_FORGOTTEN = "where not exists (select 1 from event where event_id = ?1 and forgotten = 1)"
"""a memory may be forgotten while its count waits to be written"""


@dataclass(frozen=True, slots=True)
class Use:
    """How often a memory was included in a block, and when last."""

    included: int
    last_included_at: datetime


@dataclass(frozen=True, slots=True)
class Retrieval:
    """How often a memory was among the best candidates of a question, and when last."""

    retrieved: int
    last_retrieved_at: datetime


Counts = tuple[Use | None, Retrieval | None]
"""the use and the retrievals of one item; None where there are none"""


class UseLog(BackgroundWriter):
    """Counts inclusions and retrievals in the background, those of many questions in one write.

    ``keep`` writes them, and ``written`` reads what was written of an item. What cannot be written is written with the
    next ones.
    """

    LINGER_S = 0.5
    MAX_WAITING = 50_000
    """memories whose use may wait for a journal that cannot be written"""

    def __init__(
        self,
        keep: Callable[[Mapping[str, Use], Mapping[str, Retrieval]], Awaitable[None]],
        written: Callable[[str], Awaitable[Counts]],
    ) -> None:
        super().__init__()
        self._keep = keep
        self._written = written
        self._waiting: dict[str, Use] = {}
        self._retrieved: dict[str, Retrieval] = {}

    def note(self, items: Iterable[str], at: datetime, retrieved: Iterable[str] = ()) -> None:
        """Count one inclusion of each item, and one retrieval of each of ``retrieved``; returns at once."""
        if len(self._waiting) < self.MAX_WAITING:
            self._add({item: Use(1, at) for item in items})
        if len(self._retrieved) < self.MAX_WAITING:
            self._add_retrieved({item: Retrieval(1, at) for item in retrieved})
        if self._waiting or self._retrieved:
            self._write_soon()

    async def counts(self, item: str) -> Counts:
        """The counts of an item, with what waits to be written.

        No write begins while they are read, and one that is under way ends first: during it a reader could not tell
        whether the journal has its counts already. Takes as long as that write, up to `store.sqlite.BUSY_S`.
        """
        async with self._writing:
            use, retrieval = await self._written(item)
            return _sum(use, self._waiting.get(item)), _sum_retrieved(retrieval, self._retrieved.get(item))

    def _add(self, uses: Mapping[str, Use]) -> None:
        for item, use in uses.items():
            self._waiting[item] = _sum(self._waiting.get(item), use) or use

    def _add_retrieved(self, retrievals: Mapping[str, Retrieval]) -> None:
        for item, one in retrievals.items():
            self._retrieved[item] = _sum_retrieved(self._retrieved.get(item), one) or one

    async def _write_waiting(self) -> None:
        uses, self._waiting = self._waiting, {}
        retrievals, self._retrieved = self._retrieved, {}
        if uses or retrievals:
            try:
                await self._keep(uses, retrievals)
            except FusionError as error:
                log.warning("what was used could not be counted yet: %s", error)
                self._add(uses)
                self._add_retrieved(retrievals)


def _sum(one: Use | None, other: Use | None) -> Use | None:
    if one is None or other is None:
        return one or other
    return Use(one.included + other.included, max(one.last_included_at, other.last_included_at))


def _sum_retrieved(one: Retrieval | None, other: Retrieval | None) -> Retrieval | None:
    if one is None or other is None:
        return one or other
    return Retrieval(one.retrieved + other.retrieved, max(one.last_retrieved_at, other.last_retrieved_at))


def keep(db: Connection, uses: Mapping[str, Use], retrievals: Mapping[str, Retrieval]) -> None:
    """Add to the counts of both, as `add`."""
    add(db, uses)
    db.executemany(
        f"insert into retrieval select ?1, ?2, ?3 {_NOT_FORGOTTEN} on conflict(item) do update set "
        "retrieved = retrieval.retrieved + excluded.retrieved, "
        "last_retrieved_at = max(retrieval.last_retrieved_at, excluded.last_retrieved_at)",
        [(item, one.retrieved, microseconds(one.last_retrieved_at)) for item, one in retrievals.items()],
    )


def add(db: Connection, uses: Mapping[str, Use]) -> None:
    """Add to the counts, but not to those of forgotten memories; the latest time wins, in any order of calls."""
    db.executemany(
        f"insert into use select ?1, ?2, ?3 {_NOT_FORGOTTEN} on conflict(item) do update set "
        "included = use.included + excluded.included, "
        "last_included_at = max(use.last_included_at, excluded.last_included_at)",
        [(item, use.included, microseconds(use.last_included_at)) for item, use in uses.items()],
    )


def of(db: Connection, items: Sequence[str]) -> dict[str, Use]:
    """The use of each of these memories that was ever included."""
    rows = db.execute(f"select * from use where item in {VALUES}", listed(items))
    return {row["item"]: Use(row["included"], time_of(row["last_included_at"])) for row in rows}


def written(db: Connection, item: str) -> Counts:
    """The use and the retrievals of one memory."""
    row = db.execute("select * from retrieval where item = ?", (item,)).fetchone()
    retrieval = row and Retrieval(row["retrieved"], time_of(row["last_retrieved_at"]))
    return of(db, [item]).get(item), retrieval


def drop(db: Connection, item: str) -> None:
    """Remove the counts of a memory that was forgotten."""
    db.execute("delete from use where item = ?", (item,))
    db.execute("delete from retrieval where item = ?", (item,))
