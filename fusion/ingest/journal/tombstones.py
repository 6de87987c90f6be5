"""Tombstones: what was forgotten is gone from its row, and what must not come back is known by hashes alone.

A memory is barred by its natural key, by its words within their owner, and, if it is a piece of a user's own file, by
its lines within that file, by whatever name that goes here and there (`_shelf`); one that never came through here by
its backend and native id, too. An explicit remember of the same words lifts all that one forgetting put up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from fusion.contract import Event, Hit, Place, Scope
from fusion.ingest.journal.rows import WORDS, words_key
from fusion.lib.chunk import chunks
from fusion.lib.sqlite import Connection
from fusion.lib.words import content_hash, normalise

SCHEMA = """
alter table hidden add column words text;
alter table tombstone add column words text;
create index hidden_words on hidden(words) where words is not null;
create index tombstone_words on tombstone(words) where words is not null;
"""

LINE_WORDS = 3
"""a line of a forgotten part of a file is known again from this many: shorter ones are headings and rules"""

_FOREIGN = "foreign\0"
_OWNER = re.compile(r"[^\0]*\0[^\0]*\0([^\0]*)\0")
"""the user in a key of words: kind, tenant, user, hash"""
_TELLS_APART = re.compile(r"-[0-9a-f]{8}(?=/)")
"""what a folder's name has behind it where another of that name was there first"""


@dataclass(frozen=True, slots=True)
class Barred:
    """The tombstones that every answer is held against, in memory: hashes only."""

    lines: dict[tuple[str, str], dict[str, set[str]]] = field(default_factory=dict)
    """by tenant and shelf, then by line: the users who forgot it, "" for nobody named"""
    keys: set[str] = field(default_factory=set)
    """of words, and of items that did not come through here"""

    @classmethod
    def of(cls, db: Connection) -> Barred:
        barred = cls()
        for tenant, document, line, words in db.execute("select tenant, document, line, words from hidden"):
            barred._bar(tenant, document, line, _user(words))
        barred.keys.update(
            key for (key,) in db.execute("select key from tombstone") if key.startswith((WORDS, _FOREIGN))
        )
        return barred

    def __bool__(self) -> bool:
        return bool(self.keys or self.lines)

    def add(self, hit: Hit, backend: str | None = None) -> None:
        """Bars what says this; with a ``backend``, also the item itself."""
        keys = [_words(hit.text, hit.speaker, hit.scope), *itself(backend, hit)]
        self.keys.update(key for key in keys if key.startswith((WORDS, _FOREIGN)))
        if hit.place is not None:
            for line in file_lines(hit.text, hit.place):
                self._bar(hit.scope.tenant, hit.place.document, line, hit.scope.user_id or "")

    def _bar(self, tenant: str, document: str, line: str, user: str) -> None:
        self.lines.setdefault((tenant, _shelf(document)), {}).setdefault(line, set()).add(user)

    def hides(self, backend: str, hit: Hit) -> bool:
        """Whether a hit says what was forgotten. What the journal knows by its id is left to the journal.

        A piece of a file is known by its lines, wherever they stand by now, and not by its number: another text may
        have come there since.
        """
        if hit.place is not None and self.says_gone(hit.text, hit.place, hit.scope):
            return True
        if not self.keys:
            return False
        # The words of what has an event's id are the journal's to judge.
        says = [] if hit.event_id is not None else [_words(hit.text, hit.speaker, hit.scope)]
        return not self.keys.isdisjoint((*says, *itself(backend, hit)))

    def says_gone(self, text: str, place: Place, scope: Scope) -> bool:
        """Whether a piece of a file has a line that was forgotten there; by another user, it is still this one's."""
        gone = self.lines.get((scope.tenant, _shelf(place.document))) if self.lines else None
        if gone is None:
            return False
        who = {"", scope.user_id}
        return any(
            line in gone and (scope.user_id is None or not who.isdisjoint(gone[line]))
            for line in file_lines(text, place)
        )

    def bars(self, event: Event) -> bool:
        """Whether an event is a piece of a file that has a line of a forgotten one; the same rule as `hides`."""
        return event.place is not None and self.says_gone(event.text, event.place, event.scope)

    def lines_gone(self, document: str, lines: Sequence[str], scope: Scope) -> frozenset[int]:
        """Which lines of a file, by number from 1, say what was forgotten; the same rule as `hides`."""
        if not self.lines:
            return frozenset()
        # Line by line, and in the pieces that a file is taken in by: short lines are known by their piece alone.
        pieces = [(n, n, line) for n, line in enumerate(lines, start=1)]
        pieces += [(piece.start, piece.end, piece.text) for piece in chunks("\n".join(lines))]
        said = ((Place(document, start, end, "line"), text) for start, end, text in pieces)
        gone = [place for place, text in said if self.says_gone(text, place, scope)]
        return frozenset(n for place in gone for n in range(place.start, place.end + 1))


def _shelf(document: str) -> str:
    """A file's name with that of the folder that it is in: what every reader of it knows.

    A document is called after the folder that somebody named to one reader (`docs/sub/a.md`), or to another
    (`sub/a.md`), and that folder's name may carry a hash that tells it from another one's. Two files of one name in
    two folders of one name are taken for one: rather too much is kept out of answers than too little.
    """
    return _TELLS_APART.sub("", "/".join(document.split("/")[-2:]))


def _user(words: str | None) -> str:
    """The user whose words these are, by their key; nobody where there is none: it was put up before they were."""
    owner = _OWNER.match(words or "")
    return owner[1] if owner else ""


def itself(backend: str | None, hit: Hit) -> list[str]:
    """The key of one backend's item; a piece of a file has none."""
    if backend is None or (hit.place is not None and hit.place.unit == "line"):
        return []
    return [f"{_FOREIGN}{hit.scope.tenant}\0{backend}\0{hit.native_id}"]


@lru_cache(maxsize=4096)
def _words(text: str, speaker: str | None, scope: Scope) -> str:
    """Remembered: the items that backends find are the ones that they find again."""
    return words_key(text, speaker, scope)


def put_up(db: Connection, event_id: str, words: str, keys: Sequence[str], hit: Hit) -> None:
    """Every tombstone of one memory, each with the words that lift it."""
    db.executemany(
        "insert or replace into tombstone values(?, ?, ?)", [(key, event_id, words) for key in (words, *keys)]
    )
    if hit.place is not None:
        db.executemany(
            "insert or replace into hidden values(?, ?, ?, ?)",
            [(hit.scope.tenant, hit.place.document, line, words) for line in file_lines(hit.text, hit.place)],
        )


def lift(db: Connection, words: str) -> None:
    """Takes away every tombstone that stands for what was said in these words."""
    db.execute("delete from tombstone where words = ?1 or key = ?1", (words,))
    db.execute("delete from hidden where words = ?", (words,))


def file_lines(text: str, place: Place) -> set[str]:
    """Hashes of a piece of a file and of its lines that are long enough to be told apart; none for a turn."""
    if place.unit != "line":
        return set()
    lines = [normalise(line).split() for line in text.splitlines()]
    whole = " ".join(word for words in lines for word in words)
    return {content_hash(" ".join(words)) for words in lines if len(words) >= LINE_WORDS} | {
        content_hash(f"whole\0{whole}")
    }
