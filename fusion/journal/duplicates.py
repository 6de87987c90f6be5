"""Duplicates: memories of one owner in the same words. A block shows one of them, so they are forgotten together.

Words are compared without case and whitespace, with the speaker's name in front. Short turns are never duplicates: the
"yes" of one conversation is not that of another.
"""

from __future__ import annotations

from fusion.contract import Hit, Scope
from fusion.journal.rows import WORDS, words_key
from fusion.lib.words import spoken
from fusion.store.rows import scope_of, storable
from fusion.store.sqlite import Connection, Row


def _length(said: str) -> str:
    """SQL for the length of a text without whitespace, which equal words have in common."""
    return f"length(replace(replace(replace(replace({said}, ' ', ''), char(10), ''), char(13), ''), char(9), ''))"


_KEPT = _length("case when coalesce(speaker, '') = '' then text else speaker || ': ' || text end")

SCHEMA = f"create index event_length on event(tenant, user_id, {_KEPT}) where forgotten = 0;"
"""finds the few candidates by their length, without storing anything that would have to be forgotten, too"""


class Duplicates:
    """Finds duplicates within one transaction.

    It reads the rows of one owner and length once, so forgetting a thousand similar messages stays linear.
    """

    def __init__(self, db: Connection) -> None:
        self._db = db
        self._rows: dict[tuple[str, str | None, int], list[tuple[str, Row]]] = {}
        """by tenant, user and length, each row with the key of its words"""
        self._gone: set[int] = set()

    def of(self, hit: Hit, scope: Scope) -> list[Row]:
        """The owner's rows in the words of ``hit`` that ``scope`` may see, itself and earlier versions included."""
        words = words_key(hit.text, hit.speaker, hit.scope)
        if hit.kind == "turn" and not words.startswith(WORDS):
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


def explicit(db: Connection, hit: Hit) -> list[Row]:
    """The rows of the owner's current memories that were remembered explicitly in the words of ``hit``."""
    words, owner = words_key(hit.text, hit.speaker, hit.scope), hit.scope
    said = storable(spoken(hit.text, hit.speaker))
    rows = db.execute(
        f"select * from event where forgotten = 0 and tenant = ? and user_id is ? and {_KEPT} = {_length('?')} "
        "and natural is null and superseded_by is null",
        (owner.tenant, owner.user_id and storable(owner.user_id), said),
    )
    return [row for row in rows if words_key(row["text"], row["speaker"], owner) == words]
