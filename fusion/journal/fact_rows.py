"""The table of temporal facts: which memory asserts, or ends, which fact. It is derived from the events alone.

A row has what the event says and nothing of what others make of it: validity, status and confidence are computed when
facts are read (`fusion.lib.fact_timeline`), from the states of the memories as they are then. So the table changes only
when an event is stored or forgotten, and can be deleted and rebuilt to the same rows.
"""

from __future__ import annotations

from fusion.contract import Event
from fusion.lib.fact_lines import MARK, stated_in
from fusion.lib.temporal_facts import ENDED, STATED, Assertion, By, Ending, entity_ref, fact_id, read, written
from fusion.store.database import Connection, replacing
from fusion.store.rows import storable

SCHEMA = """
create table fact_assertion(
    seq integer not null references event(seq), n integer not null, fact text not null, subject text not null,
    name text not null, body text not null,
    primary key(seq, n)
) without rowid;
create index fact_assertion_subject on fact_assertion(subject);
create index fact_assertion_fact on fact_assertion(fact);
"""
"""``subject`` is the ref of the entity; ``name`` and ``body`` are a pair as in `Event.stated`"""

_PUT = replacing("fact_assertion", "seq, n", "fact, subject, name, body")


def add(db: Connection, seq: int, event: Event) -> None:
    """Enter what an event asserts."""
    rows = [
        (seq, n, fact_id(event.event_id, n), storable(entity_ref(one.subject)), *map(storable, written(one)))
        for n, one in enumerate(asserted_by(event))
    ]
    if rows:
        db.executemany(_PUT, rows)


def asserted_by(event: Event) -> list[Assertion | Ending]:
    """What an event asserts: what was stated with it, else the lines of its text that state facts."""
    if any(name in (STATED, ENDED) for name, _ in event.stated):
        return [one for name, value in event.stated if (one := read(name, value)) is not None]
    if MARK not in event.text.lower():
        return []
    return [*stated_in(event.text, _author(event))]


def _author(event: Event) -> By:
    return "tool" if event.origin == "tool" else "import" if event.origin == "import" else "agent"


def drop(db: Connection, seq: int) -> None:
    """Remove what a forgotten event asserted."""
    db.execute("delete from fact_assertion where seq = ?", (seq,))
