"""Memories of one owner in the same words: they are forgotten together, and an explicit repeat is counted, not stored.

Words are compared without case and whitespace, with the speaker's name in front. For forgetting, short turns are never
the same: the "yes" of one conversation is not that of another. For a repeat, scope, speaker, kind, origin, times and
tags must be equal; turns and derived memories are never repeats, and what a file or a place names has a natural key.
"""

from __future__ import annotations

from datetime import datetime

from fusion.contract import Event, Hit, Scope
from fusion.journal.rows import WORDS, state_of, words_key
from fusion.lib.words import spoken
from fusion.store.rows import event_of, microseconds, scope_of, storable
from fusion.store.sqlite import Connection, Row


def _length(said: str) -> str:
    """SQL for the length of a text without whitespace, which equal words have in common."""
    return f"length(replace(replace(replace(replace({said}, ' ', ''), char(10), ''), char(13), ''), char(9), ''))"


_KEPT = _length("case when coalesce(speaker, '') = '' then text else speaker || ': ' || text end")

SCHEMA = f"create index event_length on event(tenant, user_id, {_KEPT}) where forgotten = 0;"
"""finds the few candidates by their length, without storing anything that would have to be forgotten, too"""
SAID = "alter table event add column said integer not null default 1;"
"""how often it was remembered explicitly"""
SAID_AT = "alter table event add column said_at integer;"
"""when it was last repeated, in microseconds; null without a repeat. Of two memories that contradict each other the one
that was stated last counts as newer."""


class SameWords:
    """Finds memories in the same words within one transaction.

    It reads the rows of one owner and length once, so forgetting a thousand similar messages stays linear.
    """

    def __init__(self, db: Connection, *, alone: bool = False) -> None:
        """``alone``: nothing is the same, since a caller names by its address what it forgets."""
        self._db = db
        self._alone = alone
        self._rows: dict[tuple[str, str | None, int], list[tuple[str, Row]]] = {}
        """by tenant, user and length, each row with the key of its words"""
        self._gone: set[int] = set()

    def of(self, hit: Hit, scope: Scope) -> list[Row]:
        """The owner's rows in the words of ``hit`` that ``scope`` may see, itself and earlier versions included."""
        words = words_key(hit.text, hit.speaker, hit.scope)
        if self._alone or (hit.kind == "turn" and not words.startswith(WORDS)):
            return []
        return [
            row
            for key, row in self._alike(hit)
            if key == words
            and row["seq"] not in self._gone
            and (row["kind"] != "turn" or words.startswith(WORDS))
            and scope.admits(scope_of(row))
        ]

    def drop(self, seq: int) -> None:
        """Leave out an event that this transaction forgets."""
        self._gone.add(seq)

    def _alike(self, hit: Hit) -> list[tuple[str, Row]]:
        owner = hit.scope
        said = storable(spoken(hit.text, hit.speaker))
        (length,) = self._db.execute(f"select {_length('?')}", (said,)).fetchone()
        at = owner.tenant, owner.user_id and storable(owner.user_id), length
        if at not in self._rows:
            found = self._db.execute(
                f"select * from event where forgotten = 0 and tenant = ? and user_id is ? and {_KEPT} = ?", at
            )
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
    said = storable(spoken(hit.text, hit.speaker))
    rows = db.execute(
        f"select * from event where forgotten = 0 and tenant = ? and user_id is ? and {_KEPT} = {_length('?')} "
        "and natural is null and superseded_by is null",
        (owner.tenant, owner.user_id and storable(owner.user_id), said),
    )
    return [row for row in rows if words_key(row["text"], row["speaker"], owner) == words]


def _same(there: Event, event: Event, stated: str) -> bool:
    """Whether two explicit memories of the same words agree in all other fields."""
    if event.stated or stated != "[]":
        return False
    names = "scope kind raw_kind speaker at place source trust origin valid_from valid_to".split()
    return all(getattr(there, name) == getattr(event, name) for name in names) and not there.derived_from
