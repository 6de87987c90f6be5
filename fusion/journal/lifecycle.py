"""What the lifecycle reads from the journal: its current memories by page, and what depends on memories that ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from fusion.contract import Ending, Event, Scope, State, Trust
from fusion.journal import batches, outbox
from fusion.journal.rows import Record, record_of, visible_to
from fusion.lib.ids import parse_short_ref
from fusion.lib.words import spoken
from fusion.store.database import VALUES, Connection, Row, listed
from fusion.store.rows import time_of

CURRENT = "forgotten = 0 and superseded_by is null"
ENDED = """state like '%"ended_at"%'"""
"""the condition on a memory that has ended; SQLite refuses JSON functions in some places, and this is as fast"""


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory as the lifecycle sees it; ``last_used`` is when a block had it last."""

    record: Record
    last_used: datetime | None = None

    @property
    def id(self) -> str:
        return self.record.event.event_id

    @property
    def seq(self) -> int:
        return parse_short_ref(self.record.ref) or 0

    @property
    def event(self) -> Event:
        return self.record.event

    @property
    def state(self) -> State:
        return self.record.state

    @property
    def trust(self) -> Trust:
        return self.record.trust

    @property
    def said_at(self) -> datetime:
        """When it was last said: recorded, or remembered again."""
        return max(self.event.recorded_at, self.record.said_at or self.event.recorded_at)

    @property
    def spoken(self) -> str:
        """The text with its speaker."""
        return spoken(self.event.text, self.event.speaker)


def count(db: Connection, scope: Scope) -> int:
    """How many memories `page` has in all."""
    terms, values = visible_to(scope)
    return int(db.execute(f"select count(*) from event where {CURRENT} and {terms}", values).fetchone()[0])


def page(db: Connection, scope: Scope, after: int, limit: int) -> list[Memory]:
    """The next current memories of a scope after the number ``after``, oldest first, ended and merged ones included."""
    terms, values = visible_to(scope)
    rows = db.execute(
        f"select e.*, u.last_included_at from event e left join use u on u.item = e.event_id "
        f"where e.seq > ? and {CURRENT} and {terms} order by e.seq limit ?",
        (after, *values, limit),
    )
    return [_memory(row) for row in rows]


def get(db: Connection, event_ids: Sequence[str]) -> dict[str, Memory]:
    """Current memories by id."""
    rows = db.execute(
        f"select e.*, u.last_included_at from event e left join use u on u.item = e.event_id "
        f"where {CURRENT} and e.event_id in {VALUES}",
        listed(event_ids),
    )
    return {memory.id: memory for memory in map(_memory, rows)}


def orphans(db: Connection, scope: Scope, ended: Sequence[str] = ()) -> list[tuple[Memory, Ending | None]]:
    """The merged memories of a scope of which the memory that hides them has ended, and why that ended.

    That memory is the last one of a chain of merges. Those of ``ended`` count as ended.
    """
    terms, values = visible_to(scope)
    rows = db.execute(
        "with recursive chain(id, last) as ("
        f"select event_id, merged_into from event where merged_into is not null and {CURRENT} and {terms} "
        "union select c.id, e.merged_into from chain c join event e on e.event_id = c.last "
        "where e.merged_into is not null) "
        "select m.*, null as last_included_at, json_extract(s.state, '$.ended') as over "
        "from chain c join event s on s.event_id = c.last join event m on m.event_id = c.id "
        f"where s.merged_into is null and (s.{ENDED} or s.event_id in {VALUES}) order by m.seq",
        (*values, *listed(ended)),
    )
    return [(_memory(row), row["over"]) for row in rows]


def expired(db: Connection, scope: Scope, limit: int) -> list[Record]:
    """Memories of a scope that expired, oldest first, with all their versions that did."""
    terms, values = visible_to(scope)
    rows = db.execute(
        f"""select * from event where forgotten = 0 and state like '%"ended":"expired"%' and {terms} """
        "order by seq limit ?",
        (*values, limit),
    )
    return [record_of(row) for row in rows]


def delete_expired(db: Connection, event_ids: Sequence[str], now: datetime) -> list[Record]:
    """Delete those of these memories that expired, here and by delivery in every backend; returns what they were.

    They leave no tombstones: that a time ran out is no wish to forget, so the same may be remembered again.
    """
    rows = [
        row
        for row in db.execute(f"select * from event where forgotten = 0 and event_id in {VALUES}", listed(event_ids))
        if record_of(row).state.ended == "expired"
    ]
    records = [record_of(row) for row in rows]
    for row, record in zip(rows, records, strict=True):
        batches.take_back(db, row, record, now, by="expired", why=f"{record.ref} expired and was deleted")
    outbox.withdraw(db, [row["seq"] for row in rows], drop_unsent=True)
    return records


def _memory(row: Row) -> Memory:
    used = row["last_included_at"]
    return Memory(record_of(row), None if used is None else time_of(used))
