"""The stable prefixes: one window for each scope that asked for one, with its observations and its counts.

A window holds the turns of all sessions that its scope admits, in the order in which the journal stored them. Turns up
to ``observed_to`` were compressed into its observations, and the later ones are its raw buffer, which is read from the
events. Only `store` (the observer and the reflector) and the deletion of a memory change observations. A change is one
transaction that compares the version which it was made from, so of two processes only one stores.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import orjson

from fusion.contract import Scope
from fusion.journal.rows import Record, record_of, visible_to
from fusion.store.database import VALUES, Connection, Row, listed
from fusion.store.rows import microseconds, time_of

SCHEMA = """
create table prefix(
    number integer primary key, scope text not null unique, observed_to integer not null,
    version integer not null default 0, rewrites integer not null default 0, changed_at integer not null,
    asked_at integer not null, turns integer not null default 0, hits real not null default 0,
    served blob not null default x''
);
create index prefix_asked on prefix(asked_at);
create table prefix_observation(
    number integer primary key, prefix integer not null, seq integer not null, importance real, text text not null
);
create index prefix_observation_of on prefix_observation(prefix, number);
create index prefix_observation_seq on prefix_observation(seq);
"""
"""``scope`` is JSON; ``hits`` is the sum of the hit rates of ``turns``; ``served`` has digests of the last text's
lines; ``seq`` is the event that an observation is of"""

MAX_WINDOWS = 200
"""maximum windows of a home; the one that was not asked for longest goes first"""
KEPT = timedelta(days=30)
"""how long a window stays that nobody asks for"""
FIRST_TURNS = 400
"""turns with which a new window begins, the latest ones"""
MAX_WAITING = 2_000
"""turns of a raw buffer that are read at a time"""


@dataclass(frozen=True, slots=True)
class Window:
    """A stable prefix without its lines. ``hits`` is the sum of the hit rates of ``turns``."""

    number: int
    scope: Scope
    observed_to: int
    version: int
    rewrites: int
    changed_at: datetime
    turns: int
    hits: float
    served: bytes

    @property
    def hit_rate(self) -> float | None:
        """The mean hit rate of its turns; None before the first one."""
        return self.hits / self.turns if self.turns else None


@dataclass(frozen=True, slots=True)
class Stored:
    """An observation as it is stored, with the record of its turn."""

    number: int
    record: Record
    importance: float | None
    text: str


@dataclass(frozen=True, slots=True)
class NewObservation:
    """An observation to store: the number of its event, its importance, and its line."""

    seq: int
    importance: float | None
    text: str


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of a raw buffer: the number of its event, and its record."""

    seq: int
    record: Record


@dataclass(frozen=True, slots=True)
class Contents:
    """A window with its observations and its raw buffer, of one moment. ``more``: whether older turns wait, too."""

    window: Window
    observations: tuple[Stored, ...]
    turns: tuple[Turn, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class Counts:
    """All windows of a home: how many there are, their turns, rewrites, and mean hit rate (None before a turn)."""

    windows: int
    turns: int
    rewrites: int
    hit_rate: float | None


def key_of(scope: Scope) -> str:
    """The key of a scope's window. A dimension that is not named differs from one that is named as empty."""
    parts = [scope.tenant, scope.user_id, scope.agent_id, scope.run_id, scope.session_id, scope.audience]
    return orjson.dumps(parts).decode()


def _scope_of(key: str) -> Scope:
    tenant, user_id, agent_id, run_id, session_id, audience = orjson.loads(key)
    return Scope(tenant, user_id, agent_id, run_id, session_id, audience=audience)


def find(db: Connection, scope: Scope) -> Window | None:
    """The window of a scope."""
    row = db.execute("select * from prefix where scope = ?", (key_of(scope),)).fetchone()
    return None if row is None else _window(row)


def open_window(db: Connection, scope: Scope, now: datetime) -> Window:
    """The window of a scope, which begins with its last turns if it is new. Removes those that nobody asks for."""
    if (known := find(db, scope)) is not None:
        return known
    _remove_unasked(db, now)
    at = microseconds(now)
    db.execute(
        "insert into prefix(scope, observed_to, changed_at, asked_at) values(?, ?, ?, ?)",
        (key_of(scope), first_turn(db, scope) - 1, at, at),
    )
    made = find(db, scope)
    assert made is not None  # noqa: S101 — it was inserted above
    return made


def unsaved(db: Connection, scope: Scope, now: datetime) -> Window:
    """The window of a scope as a new one would be, for a home that cannot be written to."""
    return find(db, scope) or Window(0, scope, first_turn(db, scope) - 1, 0, 0, now, 0, 0.0, b"")


def first_turn(db: Connection, scope: Scope) -> int:
    """The number of the turn with which a new window of a scope begins."""
    terms, values = _turns_of(scope)
    rows = db.execute(f"select seq {terms} order by seq desc limit ?", (*values, FIRST_TURNS)).fetchall()
    return int(rows[-1]["seq"]) if rows else 1


def _remove_unasked(db: Connection, now: datetime) -> None:
    db.execute("delete from prefix where asked_at < ?", (microseconds(now - KEPT),))
    db.execute(
        "delete from prefix where number not in (select number from prefix order by asked_at desc limit ?)",
        (MAX_WINDOWS - 1,),
    )
    db.execute("delete from prefix_observation where prefix not in (select number from prefix)")


def windows(db: Connection) -> list[Window]:
    """All windows, the one that was asked for last first."""
    return [_window(row) for row in db.execute("select * from prefix order by asked_at desc")]


def counts(db: Connection) -> Counts:
    """The counts over all windows."""
    row = db.execute(
        "select count(*) as n, coalesce(sum(turns), 0) as turns, "
        "coalesce(sum(rewrites), 0) as rewrites, coalesce(sum(hits), 0) as hits from prefix"
    ).fetchone()
    turns = int(row["turns"])
    return Counts(row["n"], turns, int(row["rewrites"]), row["hits"] / turns if turns else None)


def contents(db: Connection, window: Window, *, newest: bool, limit: int = MAX_WAITING) -> Contents:
    """A window as it is now, with its ``newest`` or its oldest turns that are not compressed yet, in their order."""
    current = find(db, window.scope) or window
    rows = db.execute(
        "select o.number as o_number, o.importance as o_importance, o.text as o_text, e.* "
        "from prefix_observation o join event e on e.seq = o.seq where o.prefix = ? order by o.number",
        (current.number,),
    )
    stored = tuple(Stored(row["o_number"], record_of(row), row["o_importance"], row["o_text"]) for row in rows)
    terms, values = _turns_of(current.scope)
    order = "desc" if newest else "asc"
    found = db.execute(
        f"select * {terms} and seq > ? order by seq {order} limit ?", (*values, current.observed_to, limit + 1)
    ).fetchall()
    turns = [Turn(row["seq"], record_of(row)) for row in found[:limit]]
    return Contents(current, stored, tuple(reversed(turns) if newest else turns), len(found) > limit)


def _turns_of(scope: Scope) -> tuple[str, list[object]]:
    terms, values = visible_to(scope)
    return f"from event where kind = 'turn' and {terms} and forgotten = 0 and superseded_by is null", values


def store(
    db: Connection,
    window: Window,
    new: Iterable[NewObservation],
    observed_to: int,
    dropped: Collection[int],
    now: datetime,
) -> bool:
    """Append observations, drop others by number, and note up to which turn the raw buffer is compressed.

    Returns False, and changes nothing, if the window has changed since it was read: another process was first.
    """
    current = find(db, window.scope)
    if current is None or (current.version, current.observed_to) != (window.version, window.observed_to):
        return False
    # A turn may have been forgotten since it was read, and then it has no observation.
    lines = [one for one in new if _is_there(db, one.seq)]
    for one in lines:
        db.execute(
            "insert into prefix_observation(prefix, seq, importance, text) values(?, ?, ?, ?)",
            (window.number, one.seq, one.importance, one.text),
        )
    gone = db.execute(
        f"delete from prefix_observation where prefix = ? and number in {VALUES}", (window.number, *listed(dropped))
    ).rowcount
    db.execute("update prefix set observed_to = ? where number = ?", (observed_to, window.number))
    if lines or gone:
        _changed(db, [window.number], now, rewritten=bool(gone))
    return True


def _is_there(db: Connection, seq: int) -> bool:
    sql = "select 1 from event where seq = ? and forgotten = 0 and superseded_by is null"
    return db.execute(sql, (seq,)).fetchone() is not None


def drop_observations(db: Connection, window: Window, numbers: Collection[int], now: datetime) -> None:
    """Drop observations by number, whose turns may not be shown any more."""
    gone = db.execute(
        f"delete from prefix_observation where prefix = ? and number in {VALUES}", (window.number, *listed(numbers))
    ).rowcount
    if gone:
        _changed(db, [window.number], now, rewritten=True)


def drop(db: Connection, seq: int, now: datetime) -> None:
    """Drop the observations of an event that is forgotten, from every window."""
    found = db.execute("select distinct prefix from prefix_observation where seq = ?", (seq,)).fetchall()
    if found:
        db.execute("delete from prefix_observation where seq = ?", (seq,))
        _changed(db, [row["prefix"] for row in found], now, rewritten=True)


def _changed(db: Connection, numbers: Sequence[int], now: datetime, *, rewritten: bool) -> None:
    db.execute(
        f"update prefix set version = version + 1, rewrites = rewrites + ?, changed_at = ? where number in {VALUES}",
        (int(rewritten), microseconds(now), *listed(numbers)),
    )


def count(db: Connection, number: int, turns: int, hits: float, served: bytes, now: datetime) -> None:
    """Add ``turns`` with the sum of their hit rates to a window's counts; ``served`` is of the last of them."""
    db.execute(
        "update prefix set turns = turns + ?, hits = hits + ?, served = ?, asked_at = ? where number = ?",
        (turns, hits, served, microseconds(now), number),
    )


def _window(row: Row) -> Window:
    return Window(
        row["number"],
        _scope_of(row["scope"]),
        row["observed_to"],
        row["version"],
        row["rewrites"],
        time_of(row["changed_at"]),
        row["turns"],
        row["hits"],
        row["served"],
    )
