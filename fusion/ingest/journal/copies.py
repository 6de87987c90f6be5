"""Copies: what one owner keeps more than once in the same words. A block shows one of them, so they are forgotten as
one.

The same words are the same but for case and blanks, with the speaker as he is shown. Of a few words only what is no
turn is a copy: the "yes" of one conversation is not that of another.
"""

from __future__ import annotations

from fusion.contract import Hit, Scope
from fusion.ingest.journal.rows import WORDS, words_key
from fusion.lib.sqlite import Connection, Row, scope_of, storable
from fusion.lib.words import spoken


def _length(said: str) -> str:
    """SQL for how long a text is without its blanks, which the same words have in common."""
    return f"length(replace(replace(replace(replace({said}, ' ', ''), char(10), ''), char(13), ''), char(9), ''))"


_KEPT = _length("case when coalesce(speaker, '') = '' then text else speaker || ': ' || text end")

SCHEMA = f"create index event_length on event(tenant, user_id, {_KEPT}) where forgotten = 0;"
"""the few that may be copies are looked at, and nothing is kept that would have to be forgotten, too"""


def copies(db: Connection, of: Hit, scope: Scope) -> list[Row]:
    """The rows of all that an owner keeps in the words of ``of``, of it too, as far as ``scope`` may see them.

    Earlier versions as well.
    """
    words, owner = words_key(of.text, of.speaker, of.scope), of.scope
    if of.kind == "turn" and not words.startswith(WORDS):
        return []
    rows = db.execute(
        f"select * from event where forgotten = 0 and tenant = ? and user_id is ? and {_KEPT} = {_length('?')}",
        (owner.tenant, owner.user_id and storable(owner.user_id), storable(spoken(of.text, of.speaker))),
    )
    return [
        row
        for row in rows
        if words_key(row["text"], row["speaker"], owner) == words
        and (row["kind"] != "turn" or words.startswith(WORDS))
        and scope.admits(scope_of(row))
    ]
