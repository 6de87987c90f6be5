"""The queue of session histories that callers send, and the turns that were already read of each session.

A session has at most one waiting history, that of its last call. It becomes due some time after that call, and a worker
claims it. A call that arrives during the claim replaces the body, and the session is read once more.

Where gateways share the journal, a worker claims and reads only under the tenant's lease (`fusion.journal.leases`).
That lease fences each of its writes, and is renewed; the claim is not, and only names the worker.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from fusion.contract import CLAIMED_PREFIX, Scope
from fusion.errors import LeaseLost, Overloaded
from fusion.journal import distil_queue, retire
from fusion.journal.retire import CURRENT
from fusion.store.database import Connection, deciding_time, replacing
from fusion.store.rows import microseconds, storable, time_of

SCHEMA = """
create table history(
    user_id text not null, agent_id text not null, session_id text not null, channel text not null, body blob not null,
    call integer not null, first_at integer not null, due_at integer not null, attempts integer not null default 0,
    fault text not null default '', leased_by text not null default '', leased_until integer not null default 0,
    primary key(user_id, agent_id, session_id)
);
create index history_due on history(due_at);
create table history_session(
    user_id text not null, agent_id text not null, session_id text not null, talk integer not null, known blob not null,
    ingested_at integer not null,
    primary key(user_id, agent_id, session_id)
) without rowid;
"""
"""``known`` are the fingerprints of the turns that were read, in order, as `fusion.sources.follow` makes them"""

MAX_DEBOUNCES = 10
"""a history is due at the latest this many debounces after the first waiting call"""
CLOCK_SLACK = timedelta(hours=1)
"""a history that is due this much later than its longest wait is due now, because the clock was set back"""

_PUT_SESSION = replacing("history_session", "user_id, agent_id, session_id", "talk, known, ingested_at")
_SAME = "user_id = ? and agent_id = ? and session_id = ?"


class HistoryKey(NamedTuple):
    """The key of a session in the journal of its tenant; a missing part is ""."""

    user_id: str
    agent_id: str
    session_id: str

    @classmethod
    def of(cls, scope: Scope) -> HistoryKey:
        return cls(*(storable(name or "") for name in (scope.user_id, scope.agent_id, scope.session_id)))


@dataclass(frozen=True, slots=True)
class Waiting:
    """A waiting history: the body of the session's last call, and the number of that call."""

    key: HistoryKey
    channel: str
    body: bytes
    call: int
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class Taken:
    """What was taken in of a session: ``talk`` counts the conversations that were held under its id."""

    talk: int = 1
    known: bytes = b""
    ingested_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Backlog:
    """How many histories wait, and the last fault among them."""

    waiting: int = 0
    fault: str = ""


def put(
    db: Connection,
    key: HistoryKey,
    channel: str,
    body: bytes,
    now: datetime,
    debounce: timedelta,
    max_bytes: int,
) -> datetime:
    """Replace the waiting history of a session; returns when the new one is due.

    Raises Overloaded if more than ``max_bytes`` would wait.
    """
    others = db.execute(f"select coalesce(sum(length(body)), 0) from history where not ({_SAME})", key).fetchone()[0]
    if others and others + len(body) > max_bytes:
        raise Overloaded("Too many histories wait to be taken in. Send it again in a minute.")
    known = db.execute(f"select first_at, call, due_at from history where {_SAME}", key).fetchone()
    first = now if known is None else min(now, time_of(known["first_at"]))
    due = min(now + debounce, max(now, first + MAX_DEBOUNCES * debounce))
    call = 1 if known is None else known["call"] + 1
    db.execute(
        "insert into history(user_id, agent_id, session_id, channel, body, call, first_at, due_at) "
        "values(?, ?, ?, ?, ?, ?, ?, ?) on conflict(user_id, agent_id, session_id) do update set "
        "channel = excluded.channel, body = excluded.body, call = excluded.call, due_at = excluded.due_at, "
        "attempts = 0, fault = ''",
        (*key, storable(channel), body, call, microseconds(first), microseconds(due)),
    )
    return due


def claim(
    db: Connection, owner: str, now: datetime, length: timedelta, *, longest: timedelta, early: bool = False
) -> Waiting | None:
    """Claim the history that is due first for ``owner``; None if none is due. ``early`` ignores the due times.

    ``longest`` is the longest debounce or pause: a history that is due much later is due now.
    """
    now = deciding_time(db, now)
    at = microseconds(now)
    row = db.execute(
        "select * from history where leased_until <= ? and (? = 1 or due_at <= ? or due_at > ?) "
        "order by due_at limit 1",
        (at, early, at, microseconds(now + longest + CLOCK_SLACK)),
    ).fetchone()
    if row is None:
        return None
    key = HistoryKey(row["user_id"], row["agent_id"], row["session_id"])
    db.execute(
        f"update history set leased_by = ?, leased_until = ? where {_SAME}", (owner, microseconds(now + length), *key)
    )
    return Waiting(key, row["channel"], row["body"], row["call"], row["attempts"])


def renew(db: Connection, waiting: Waiting, owner: str, now: datetime, length: timedelta) -> None:
    """Claim a history for longer; a gateway of an earlier version looks at nothing else."""
    until = microseconds(deciding_time(db, now) + length)
    db.execute(f"update history set leased_until = ? where {_SAME} and leased_by = ?", (until, *waiting.key, owner))


def due_in(db: Connection, now: datetime, longest: timedelta) -> timedelta | None:
    """How long until a history is due that nobody has claimed, as `claim` sees it; None without any."""
    now = deciding_time(db, now)
    row = db.execute(
        "select min(max(case when due_at > ? then 0 else due_at end, leased_until)) as at from history",
        (microseconds(now + longest + CLOCK_SLACK),),
    ).fetchone()
    return None if row["at"] is None else max(time_of(row["at"]) - now, timedelta())


def release(db: Connection, waiting: Waiting, owner: str, fault: str, next_at: datetime) -> None:
    """End a claim after a fault; the history is due again at ``next_at``, unless a newer call set another time."""
    db.execute(
        f"update history set leased_by = '', leased_until = 0 where {_SAME} and leased_by = ?", (*waiting.key, owner)
    )
    db.execute(
        f"update history set attempts = attempts + 1, fault = ?, due_at = ? where {_SAME} and call = ?",
        (storable(fault), microseconds(next_at), *waiting.key, waiting.call),
    )


def release_all(db: Connection, owner: str | None = None) -> None:
    """End every claim: this process holds the home, so the processes that had them have ended.

    With an ``owner`` only its own, in a journal that other gateways share.
    """
    which = "leased_until <> 0" if owner is None else "leased_by = ?"
    db.execute(f"update history set leased_by = '', leased_until = 0 where {which}", () if owner is None else (owner,))


def finish(db: Connection, waiting: Waiting, owner: str, taken: Taken) -> None:
    """Record the turns that were read, and remove the history unless a newer call has replaced it.

    Raises LeaseLost if another worker has claimed it since. When the claim ends does not matter: in a shared journal
    the lease refuses this write once it has ended, and in a file there is no other worker.
    """
    claimed = db.execute(f"select 1 from history where {_SAME} and leased_by = ?", (*waiting.key, owner)).fetchone()
    if claimed is None:
        raise LeaseLost("another worker has taken in this history")
    assert taken.ingested_at is not None  # noqa: S101 — the caller has just taken it in
    db.execute(
        _PUT_SESSION,
        (*waiting.key, taken.talk, taken.known, microseconds(taken.ingested_at)),
    )
    db.execute(f"delete from history where {_SAME} and call = ?", (*waiting.key, waiting.call))
    now = microseconds(taken.ingested_at)
    db.execute(f"update history set leased_by = '', leased_until = 0, first_at = ? where {_SAME}", (now, *waiting.key))


def taken(db: Connection, key: HistoryKey) -> Taken:
    """The turns that were read of a session so far."""
    row = db.execute(f"select talk, known, ingested_at from history_session where {_SAME}", key).fetchone()
    return Taken() if row is None else Taken(row["talk"], row["known"], time_of(row["ingested_at"]))


def backlog(db: Connection) -> Backlog:
    """How many histories wait, and the fault of one of those that failed last."""
    waiting = db.execute("select count(*) from history").fetchone()[0]
    failed = db.execute("select fault from history where fault <> '' order by due_at desc limit 1").fetchone()
    return Backlog(waiting, "" if failed is None else failed["fault"])


def turns_at(db: Connection, scope: Scope, source: str, document: str, places: Collection[int]) -> Sequence[Any]:
    """The rows of the current turns at these places of a conversation, of exactly this owner and source."""
    if not places:
        return []
    wanted = set(places)
    sources = (storable(source), storable(f"{CLAIMED_PREFIX}{source}"))
    rows = db.execute(
        f"select * from event where tenant = ? and user_id is ? and document = ? and place_unit = 'turn' "
        f"and agent_id is ? and run_id is null and place_start between ? and ? and source in (?, ?) and {CURRENT}",
        (
            scope.tenant,
            _stored(scope.user_id),
            storable(document),
            _stored(scope.agent_id),
            min(wanted),
            max(wanted),
            *sources,
        ),
    ).fetchall()
    return [row for row in rows if row["place_start"] in wanted]


def _stored(name: str | None) -> str | None:
    return None if name is None else storable(name)


def retire_turns(db: Connection, scope: Scope, source: str, document: str, places: Collection[int]) -> Sequence[Any]:
    """Retire the turns at these places and what was distilled from them; returns the turns' rows.

    They stay in the journal, and become current again if a history has them again.
    """
    rows = turns_at(db, scope, source, document, places)
    made = [row for turn in rows for row in retire.made_of(db, turn["event_id"])]
    gone = list({row["event_id"]: row for row in [*rows, *made]}.values())
    for row in rows:
        distil_queue.remove(db, row["seq"])
    retire.retire(db, gone)
    return gone
