"""The statements of a home: those that wait to be compared with earlier ones, and those that were.

An event that may be a statement is queued in the transaction that stores it. The decision on it, its removal from the
queue and its entry among the statements are one transaction as well, so that an interruption repeats no decision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from fusion.contract import STATEMENT_KINDS, Event, Scope
from fusion.journal import state
from fusion.journal.rows import state_of
from fusion.journal.state import Change
from fusion.store.database import VALUES, Connection, listed
from fusion.store.rows import event_of, storable

_KINDS = ", ".join(f"'{kind}'" for kind in sorted({*STATEMENT_KINDS, "note"}))
SCHEMA = f"""
create table statement_queue(seq integer primary key references event(seq), decides integer not null default 1);
create table statement(seq integer primary key references event(seq));
insert into statement_queue
    select seq, 0 from event where kind in ({_KINDS}) and document is null and forgotten = 0 and superseded_by is null;
"""
"""The statements of an earlier version are compared with later ones. With each other they are by the job
`consolidation`, so ``decides`` is 0."""
COMPARED = "alter table statement add column compared integer not null default 1"
"""whether a statement was compared with the earlier ones"""
_UNCOMPARED = (
    "from statement s join event e using(seq) where s.compared = 0 and e.forgotten = 0 and e.superseded_by is null "
    "and e.merged_into is null and s.seq not in (select seq from statement_queue)"
)


@dataclass(frozen=True, slots=True)
class Queued:
    """An event that waits to be compared; without ``decides`` it is only one that later ones are compared with."""

    seq: int
    event: Event
    decides: bool


@dataclass(frozen=True, slots=True)
class Settled:
    """The decision on one queued event: whether it is a statement, the changes of states, and their reason.

    ``compared``: whether it was compared with earlier ones, or never is. The changes are made only while the events in
    ``while_current`` are current; else the event stays queued.
    """

    seq: int
    is_statement: bool = False
    changes: Mapping[str, Change] | None = None
    why: str = ""
    while_current: Sequence[str] = ()
    compared: bool = True


def may_state(event: Event) -> bool:
    """Whether an event may be a statement: it is of such a kind or a note, or a turn; and no part of a document."""
    if event.trust == "quarantined":
        return False
    return event.kind == "turn" or (event.place is None and event.kind in {*STATEMENT_KINDS, "note"})


def add(db: Connection, seq: int, *, decides: bool) -> None:
    """Queue an event."""
    db.execute("insert into statement_queue values(?, ?) on conflict do nothing", (seq, decides))


def oldest(db: Connection, limit: int) -> list[Queued]:
    """The events that were queued first."""
    # As a join, PostgreSQL may read the events in their order, from the first one on.
    decides = dict(db.execute("select seq, decides from statement_queue order by seq limit ?", (limit,)).fetchall())
    rows = db.execute(f"select * from event where seq in {VALUES} order by seq", listed(decides))
    return [Queued(row["seq"], event_of(row), bool(decides[row["seq"]])) for row in rows]


def waiting(db: Connection) -> int:
    """How many events wait in the queue."""
    return int(db.execute("select count(*) from statement_queue").fetchone()[0])


def uncompared(db: Connection) -> int:
    """How many statements were never compared with earlier ones, with those in the queue."""
    return waiting(db) + int(db.execute(f"select count(*) {_UNCOMPARED}").fetchone()[0])


def requeue(db: Connection, limit: int) -> None:
    """Queue the oldest statements that were never compared."""
    db.execute(f"insert into statement_queue select s.seq, 1 {_UNCOMPARED} order by s.seq limit ?", (limit,))


def texts(db: Connection, scope: Scope, limit: int) -> list[tuple[str, str, str | None]]:
    """Id, text and speaker of the newest current statements of a scope's tenant and user, oldest first."""
    rows = db.execute(
        "select e.event_id, e.text, e.speaker from statement s join event e using(seq) where e.tenant = ? "
        "and e.user_id is ? and e.forgotten = 0 and e.superseded_by is null and e.merged_into is null "
        "order by s.seq desc limit ?",
        (storable(scope.tenant), None if scope.user_id is None else storable(scope.user_id), limit),
    )
    return [(row["event_id"], row["text"], row["speaker"]) for row in rows][::-1]


def settle(db: Connection, settled: Sequence[Settled], who: str, now: datetime) -> list[int]:
    """Make decisions, each with the removal of its event from the queue; the events that are decided now.

    Nothing is done for an event that has left the queue.
    """
    done = []
    for one in settled:
        if db.execute("select 1 from statement_queue where seq = ?", (one.seq,)).fetchone() is None:
            continue
        if one.changes:
            if not _all_current(db, one.while_current):
                continue
            state.decide(db, one.changes, who, one.why, now)
        remove(db, one.seq)
        if one.is_statement:
            db.execute("insert into statement values(?, ?) on conflict do nothing", (one.seq, one.compared))
        if one.compared:
            db.execute("update statement set compared = 1 where seq = ?", (one.seq,))
        done.append(one.seq)
    return done


def remove(db: Connection, seq: int) -> None:
    """Remove an event from the queue."""
    db.execute("delete from statement_queue where seq = ?", (seq,))


def drop(db: Connection, seq: int) -> None:
    """Remove an event from the queue and from the statements."""
    remove(db, seq)
    db.execute("delete from statement where seq = ?", (seq,))


def _all_current(db: Connection, event_ids: Sequence[str]) -> bool:
    """Whether all of these events are neither forgotten nor replaced, merged or ended."""
    rows = db.execute(
        f"select * from event where event_id in {VALUES} and forgotten = 0 and superseded_by is null "
        "and merged_into is null",
        listed(event_ids),
    ).fetchall()
    return len(rows) == len(set(event_ids)) and all(state_of(row).ended_at is None for row in rows)
