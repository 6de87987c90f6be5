"""Tombstones: what was forgotten is gone from its row, and what must not come back is known by hashes alone.

A memory is barred by its natural key, by its words within their owner, and, if it is a piece of a user's own file, by
its lines within that file, by whatever name that goes here and there (`_shelf`); one that never came through here by
its backend and native id, too. An explicit remember of the same words lifts all that one forgetting put up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

from fusion.contract import Event, Hit, Place, Scope
from fusion.ingest.journal import labels, lessons, outbox
from fusion.ingest.journal.rows import BORN_FORGOTTEN, WORDS, Record, count, keys_of, record_of, words_key
from fusion.lib.ids import uuid7
from fusion.lib.sqlite import EVENT_NAMES, Connection, event_of, event_row, microseconds
from fusion.lib.words import content_hash, normalise

SCHEMA = """
alter table hidden add column words text;
alter table tombstone add column words text;
create index hidden_words on hidden(words) where words is not null;
create index tombstone_words on tombstone(words) where words is not null;
create table audit(
    id integer primary key autoincrement, at integer not null, tenant text not null, user_id text,
    ref text not null, seq integer not null, by text not null
);
create index audit_owner on audit(tenant, user_id, id);
create trigger audit_is_not_changed before update on audit begin select raise(abort, 'the audit is append-only'); end;
create trigger audit_is_not_cut before delete on audit begin select raise(abort, 'the audit is append-only'); end;
"""

LINE_WORDS = 3
"""a line of a forgotten part of a file is known again from this many: shorter ones are headings and rules"""

_FOREIGN = "foreign\0"
_OWNER = re.compile(r"[^\0]*\0[^\0]*\0([^\0]*)\0")
"""the user in a key of words: kind, tenant, user, hash"""
_TELLS_APART = re.compile(r"-[0-9a-f]{8}(?=/)")
"""what a folder's name has behind it where another of that name was there first"""


@dataclass(frozen=True, slots=True)
class Burial:
    """One event that was forgotten: ``record`` as it was, and by backend the delivery (seq, native ids) to undo."""

    record: Record
    due: Mapping[str, tuple[int, tuple[str, ...]]]


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
        keys = [_words(hit.text, hit.speaker, hit.scope), *_itself(backend, hit)]
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
        return not self.keys.isdisjoint((*says, *_itself(backend, hit)))

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


def _itself(backend: str | None, hit: Hit) -> list[str]:
    """The key of one backend's item; a piece of a file has none."""
    if backend is None or (hit.place is not None and hit.place.unit == "line"):
        return []
    return [f"{_FOREIGN}{hit.scope.tenant}\0{backend}\0{hit.native_id}"]


@lru_cache(maxsize=4096)
def _words(text: str, speaker: str | None, scope: Scope) -> str:
    """Remembered: the items that backends find are the ones that they find again."""
    return words_key(text, speaker, scope)


def with_what_follows(db: Connection, row: Any) -> list[Any]:
    """The row of an event, then of all that goes when it is forgotten and is not gone yet."""
    rows, gone = [row], {row["event_id"]}
    for one in rows:
        rows_of = "select e.* from event e where e.forgotten = 0 and e.tenant = ? and "
        versions = db.execute(rows_of + "e.event_id = ?", (one["tenant"], one["supersedes"])).fetchall()
        derived = db.execute(
            rows_of + "e.event_id in (select event_id from derived where source = ?)", (one["tenant"], one["event_id"])
        ).fetchall()
        unsupported = [d for d in derived if gone.issuperset(_living(db, event_of(d).derived_from))]
        for found in (*versions, *unsupported):
            if found["event_id"] not in gone:
                gone.add(found["event_id"])
                rows.append(found)
    return rows


def _living(db: Connection, event_ids: Sequence[str]) -> list[str]:
    """Which of these events are kept."""
    wanted = json.dumps(event_ids)
    rows = db.execute(
        "select event_id from event where forgotten = 0 and event_id in (select value from json_each(?))", (wanted,)
    )
    return [row["event_id"] for row in rows]


def bury(db: Connection, row: Any, by: str, now: datetime) -> Burial:
    """Forgets one event here; ``by`` says in the audit what it was named by."""
    record = record_of(row)
    _, natural, words = keys_of(record.event)
    if row["superseded_by"] is None:
        count(db, record.event, -1)
    _put_up(db, record.event.event_id, words, [natural] if natural else [], Hit.of(record.event))
    lessons.drop(db, record.event.event_id, row["seq"])
    db.execute("update event set text = '', speaker = null, stated = '[]', forgotten = 1 where seq = ?", (row["seq"],))
    outbox.withdraw(db, row["seq"])
    told = {backend: (row["seq"], ids) for backend, ids in outbox.to_forget(db, row["seq"]).items()}
    labels.drop(db, record.event.scope.tenant, record.ref)
    _audit(db, record.event.scope, record.ref, row["seq"], by, now)
    return Burial(record, told)


def bury_foreign(db: Connection, ref: str, backend: str, hit: Hit, by: str, now: datetime) -> Burial:
    """Forgets an item that never came through here: an event that is born forgotten, with its deletion due.

    So it is retried, verified, kept out of answers and audited like any other.
    """
    scope = hit.scope
    taken = db.execute("select 1 from event where event_id = ?", (hit.event_id,)).fetchone()
    born = Event(hit.event_id if hit.event_id and not taken else str(uuid7()), "", now, scope, kind=hit.kind)
    seq = db.execute(
        f"insert into event({', '.join(EVENT_NAMES)}, natural, forgotten) "
        f"values({', '.join('?' * len(EVENT_NAMES))}, ?, 1)",
        (*event_row(born), json.dumps([BORN_FORGOTTEN, born.event_id])),
    ).lastrowid
    assert seq is not None  # noqa: S101 — an insert that did not raise has a row
    outbox.enter_to_forget(db, seq, backend, hit.native_id)
    _put_up(db, born.event_id, words_key(hit.text, hit.speaker, scope), _itself(backend, hit), hit)
    labels.drop(db, scope.tenant, ref)
    _audit(db, scope, ref, seq, by, now)
    told = Event(born.event_id, hit.text, now, scope, kind=hit.kind, speaker=hit.speaker, at=hit.at, place=hit.place)
    return Burial(Record(ref, told), {backend: (seq, (hit.native_id,))})


def _put_up(db: Connection, event_id: str, words: str, keys: Sequence[str], hit: Hit) -> None:
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


def _audit(db: Connection, scope: Scope, ref: str, seq: int, by: str, now: datetime) -> None:
    db.execute(
        "insert into audit(at, tenant, user_id, ref, seq, by) values(?, ?, ?, ?, ?, ?)",
        (microseconds(now), scope.tenant, scope.user_id, ref, seq, by),
    )
