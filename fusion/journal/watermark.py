"""The mark of a journal: its random id and how many transactions it has committed.

The id tells a journal from one that was put in its place, and the count tells it from an older copy of itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from fusion.store.sqlite import Connection

SCHEMA = """
create table mark(id text not null, commits integer not null);
insert into mark select lower(hex(randomblob(8))), 0;
"""

COUNT = "update mark set commits = commits + 1"
"""executed in every transaction"""

STATE = (
    "select id, commits, (select count(*) from event), (select coalesce(max(seq), 0) from event), "
    "(select count(*) from tombstone) from mark"
)
"""what a sound copy of the files has as their connection sees it"""


_UNUSED = (
    "select coalesce((select seq from sqlite_sequence where name = 'event'), 0) "
    "- (select count(*) from event) as unused"
)


@dataclass(frozen=True, slots=True)
class Watermark:
    """The state of one journal: ``id``, transactions, and events of all time with the highest number of one, forgotten
    ones among them."""

    id: str
    commits: int
    events: int
    seq: int


def read(db: Connection) -> Watermark:
    """The mark of a journal now."""
    journal, commits, events, seq, _ = db.execute(STATE).fetchone()
    return Watermark(journal, commits, events, seq)


def unused(db: Connection) -> int:
    """How many numbers have been given to events that are not in the file.

    An event gets the next number and is never deleted, so this grows only when another program deletes some.
    """
    return int(db.execute(_UNUSED).fetchone()["unused"])
