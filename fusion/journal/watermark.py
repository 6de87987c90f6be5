"""The watermark of a journal: its random id and the number of transactions it has committed.

The id distinguishes a journal from another one in its place, the count from an older copy of itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from fusion.store.database import Connection

SCHEMA = """
create table mark(id text not null, commits integer not null);
insert into mark select lower(hex(randomblob(8))), 0;
"""

COUNT = "update mark set commits = commits + 1"
"""the statement that every transaction executes"""

STATE = (
    "select id, commits, (select count(*) from event), (select coalesce(max(seq), 0) from event), "
    "(select count(*) from tombstone) from mark"
)
"""the query whose row an intact copy of the files has in common with the open connection"""


_UNUSED = (
    "select coalesce((select seq from sqlite_sequence where name = 'event'), 0) "
    "- (select count(*) from event) as unused"
)

_MARK = (
    "select id, commits, (select coalesce(max(seq), 0) from event), "
    "coalesce((select seq from sqlite_sequence where name = 'event'), 0) from mark"
)


@dataclass(frozen=True, slots=True)
class Watermark:
    """The state of one journal: id, transactions, events ever stored, and the highest event number."""

    id: str
    commits: int
    events: int
    seq: int


def read(db: Connection) -> Watermark:
    """The current watermark."""
    journal, commits, events, seq, _ = db.execute(STATE).fetchone()
    return Watermark(journal, commits, events, seq)


def read_uncounted(db: Connection, unused: int) -> Watermark:
    """The watermark of a journal that had ``unused`` numbers when it was last counted, without counting its events.

    It has as many events as before if another program has deleted some since, which shows at the next start.
    """
    journal, commits, seq, used = db.execute(_MARK).fetchone()
    return Watermark(journal, commits, used - unused, seq)


def unused(db: Connection) -> int:
    """How many event numbers have no row. Events are never deleted, so this grows only if another program does."""
    return int(db.execute(_UNUSED).fetchone()["unused"])
