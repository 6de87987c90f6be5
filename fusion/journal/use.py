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
from fusion.store.rows import microseconds, time_of
from fusion.store.sqlite import VALUES, Connection, listed

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


class UseLog(BackgroundWriter):
    """Counts inclusions and retrievals in the background, those of many questions in one write.

    ``keep`` writes them. What it fails to write is written with the next ones.
    """

    LINGER_S = 0.5
    MAX_WAITING = 50_000
    """memories whose use may wait for a journal that cannot be written"""

    def __init__(self, keep: Callable[[Mapping[str, Use], Mapping[str, Retrieval]], Awaitable[None]]) -> None:
        super().__init__()
        self._keep = keep
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

    def counted(self, item: str, written: Use | None) -> Use | None:
        """The use of an item: what was written, and what waits. A reader never waits for a writer."""
        waiting = self._waiting.get(item)
        return _sum(written, waiting) if written and waiting else written or waiting

    def retrieved(self, item: str, written: Retrieval | None) -> Retrieval | None:
        """The retrievals of an item, as `counted`."""
        waiting = self._retrieved.get(item)
        return _sum_retrieved(written, waiting) if written and waiting else written or waiting

    def _add(self, uses: Mapping[str, Use]) -> None:
        for item, use in uses.items():
            known = self._waiting.get(item)
            self._waiting[item] = use if known is None else _sum(known, use)

    def _add_retrieved(self, retrievals: Mapping[str, Retrieval]) -> None:
        for item, one in retrievals.items():
            known = self._retrieved.get(item)
            self._retrieved[item] = one if known is None else _sum_retrieved(known, one)

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


def _sum(one: Use, other: Use) -> Use:
    return Use(one.included + other.included, max(one.last_included_at, other.last_included_at))


def _sum_retrieved(one: Retrieval, other: Retrieval) -> Retrieval:
    return Retrieval(one.retrieved + other.retrieved, max(one.last_retrieved_at, other.last_retrieved_at))


def keep(db: Connection, uses: Mapping[str, Use], retrievals: Mapping[str, Retrieval]) -> None:
    """Add to the counts of both, as `add`."""
    add(db, uses)
    db.executemany(
        "insert into retrieval values(?, ?, ?) on conflict(item) do update set "
        "retrieved = retrieved + excluded.retrieved, "
        "last_retrieved_at = max(last_retrieved_at, excluded.last_retrieved_at)",
        [(item, one.retrieved, microseconds(one.last_retrieved_at)) for item, one in retrievals.items()],
    )


def add(db: Connection, uses: Mapping[str, Use]) -> None:
    """Add to the counts; the latest time wins, in any order of calls."""
    db.executemany(
        "insert into use values(?, ?, ?) on conflict(item) do update set included = included + excluded.included, "
        "last_included_at = max(last_included_at, excluded.last_included_at)",
        [(item, use.included, microseconds(use.last_included_at)) for item, use in uses.items()],
    )


def of(db: Connection, items: Sequence[str]) -> dict[str, Use]:
    """The use of each of these memories that was ever included."""
    rows = db.execute(f"select * from use where item in {VALUES}", listed(items))
    return {row["item"]: Use(row["included"], time_of(row["last_included_at"])) for row in rows}


def retrievals_of(db: Connection, items: Sequence[str]) -> dict[str, Retrieval]:
    """The retrievals of each of these memories that was ever retrieved."""
    rows = db.execute(f"select * from retrieval where item in {VALUES}", listed(items))
    return {row["item"]: Retrieval(row["retrieved"], time_of(row["last_retrieved_at"])) for row in rows}


def drop(db: Connection, item: str) -> None:
    """Remove the counts of a memory that was forgotten."""
    db.execute("delete from use where item = ?", (item,))
    db.execute("delete from retrieval where item = ?", (item,))
