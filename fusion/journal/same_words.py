"""Memories of one owner in the same words: they are forgotten together, and an explicit repeat is counted, not stored.

Words are compared without case and whitespace, with the speaker's name in front. For forgetting, short turns are never
the same: the "yes" of one conversation is not that of another. For a repeat, scope, speaker, kind, origin, times and
tags must be equal; turns and derived memories are never repeats, and what a file or a place names has a natural key.
"""

from __future__ import annotations

from datetime import datetime

from fusion.contract import Event, Hit, Scope
from fusion.journal.rows import WORDS, state_of, words_hash, words_key
from fusion.store.database import Connection, Row
from fusion.store.rows import event_of, microseconds, scope_of, storable

_STRIPPED = "case when coalesce(speaker, '') = '' then text else speaker || ': ' || text end"
for _space in ("' '", "char(10)", "char(13)", "char(9)"):
    _STRIPPED = f"replace({_STRIPPED}, {_space}, '')"
SCHEMA = f"create index event_length on event(tenant, user_id, length({_STRIPPED})) where forgotten = 0;"
"""found the candidates by their length until `HASHED`"""
HASHED = """
drop index event_length;
alter table event add column words_hash integer not null default 0;
create index event_words on event(words_hash) where forgotten = 0;
create index event_hash_left on event(seq) where forgotten = 1 and words_hash <> 0;
"""
"""The memories of one length grow with the home. With row-level security PostgreSQL did not even use that index: it
uses none of an expression whose functions could show a value in an error.

The hash is 0 where a program of the version before stored the memory, and once it is forgotten. Such a program leaves
the hash of what it forgets, from which short texts could be guessed: it is emptied at the next start."""
_LEFT = "select seq from event where forgotten = 1 and words_hash <> 0"
_HASHES_AT_ONCE = 1000
SAID = "alter table event add column said integer not null default 1;"
"""how often it was remembered explicitly"""
SAID_AT = "alter table event add column said_at integer;"
"""when it was last repeated, in microseconds; null without a repeat. Of two memories that contradict each other the one
that was stated last counts as newer."""


class SameWords:
    """Finds memories in the same words within one transaction.

    It reads the rows of one owner and hash once, so forgetting a thousand equal messages stays linear.
    """

    def __init__(self, db: Connection, *, alone: bool = False) -> None:
        """``alone``: nothing is the same, since a caller names by its address what it forgets."""
        self._db = db
        self._alone = alone
        self._rows: dict[tuple[str, str | None, int], list[tuple[str, Row]]] = {}
        """by tenant, user and hash, each row with the key of its words"""
        self._gone: set[int] = set()

    def of(self, hit: Hit, scope: Scope) -> list[Row]:
        """The owner's rows in the words of ``hit`` that ``scope`` may see, itself and earlier versions included."""
        words = words_key(hit.text, hit.speaker, hit.scope)
        if self._alone or (hit.kind == "turn" and not words.startswith(WORDS)):
            return []
        return [
            row
            for key, row in (*self._hashed(hit, 0), *self._hashed(hit, words_hash(hit.text, hit.speaker)))
            if key == words
            and row["seq"] not in self._gone
            and (row["kind"] != "turn" or words.startswith(WORDS))
            and scope.admits(scope_of(row))
        ]

    def drop(self, seq: int) -> None:
        """Leave out an event that this transaction forgets."""
        self._gone.add(seq)

    def _hashed(self, hit: Hit, hashed: int) -> list[tuple[str, Row]]:
        owner = hit.scope
        at = owner.tenant, owner.user_id and storable(owner.user_id), hashed
        if at not in self._rows:
            rows = self._db.execute("select * from event where forgotten = 0 and words_hash = ?", (hashed,))
            found = [row for row in rows if (row["tenant"], row["user_id"]) == at[:2]]  # as in `_explicit`
            self._rows[at] = [(words_key(row["text"], row["speaker"], owner), row) for row in found]
        return self._rows[at]


def find_repeat(db: Connection, event: Event) -> Row | None:
    """The row of the current memory that an explicit memory repeats, or None."""
    if event.kind == "turn" or event.derived_from or event.supersedes is not None:
        return None
    for row in _explicit(db, Hit.of(event)):
        # One that has ended stays so: what is said again is current.
        if _same(event_of(row), event, row["stated"]) and state_of(row).ended_at is None:
            return row
    return None


def count_repeat(db: Connection, row: Row, at: datetime) -> int:
    """Count a repeat ``at`` this time; returns how often the memory was stated in all."""
    db.execute(
        "update event set said = said + 1, said_at = max(coalesce(said_at, 0), ?) where seq = ?",
        (microseconds(at), row["seq"]),
    )
    return int(row["said"]) + 1


def _explicit(db: Connection, hit: Hit) -> list[Row]:
    """The rows of the owner's current memories that were remembered explicitly in the words of ``hit``."""
    words, owner = words_key(hit.text, hit.speaker, hit.scope), hit.scope
    rows = db.execute(
        "select * from event where forgotten = 0 and words_hash in (0, ?)", (words_hash(hit.text, hit.speaker),)
    )
    return [
        row
        for row in rows
        # Not in the statement: a table that was just filled has no statistics, and PostgreSQL would use an index that
        # finds all memories of a tenant or all without a natural key.
        if (row["tenant"], row["user_id"]) == (owner.tenant, owner.user_id and storable(owner.user_id))
        and row["natural"] is None
        and row["superseded_by"] is None
        and words_key(row["text"], row["speaker"], owner) == words
    ]


def has_unhashed(db: Connection) -> bool:
    """Whether there are memories that a program of the version before stored or forgot."""
    unhashed = "select 1 from event where words_hash = 0 and forgotten = 0 limit 1"
    return db.execute(unhashed).fetchone() is not None or db.execute(f"{_LEFT} limit 1").fetchone() is not None


def hash_some(db: Connection) -> bool:
    """Give some of those memories their hash, and empty that of the forgotten; whether there may be more."""
    db.execute(f"update event set words_hash = 0 where seq in ({_LEFT})")
    rows = db.execute(
        "select seq, text, speaker from event where words_hash = 0 and forgotten = 0 limit ?", (_HASHES_AT_ONCE,)
    ).fetchall()
    db.executemany(
        "update event set words_hash = ? where seq = ?",
        [(words_hash(row["text"], row["speaker"]), row["seq"]) for row in rows],
    )
    return len(rows) == _HASHES_AT_ONCE


def _same(there: Event, event: Event, stated: str) -> bool:
    """Whether two explicit memories of the same words agree in all other fields."""
    if event.stated or stated != "[]":
        return False
    names = "scope kind raw_kind speaker at place source trust origin valid_from valid_to".split()
    return all(getattr(there, name) == getattr(event, name) for name in names) and not there.derived_from
