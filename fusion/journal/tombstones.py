"""Tombstones: hashes of what was forgotten, which keep it out of answers and out of the journal.

A forgotten memory has a tombstone for its natural key and one for its words within their owner. A piece of a user's
own file also has one per statement, under the file's name (`_file_key`), so other statements of the file stay visible.
An external item has one for its backend and native id. Remembering the same words explicitly lifts them all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from fusion import wire
from fusion.contract import Event, Hit, Place, Scope
from fusion.journal.rows import WORDS, Keys, Record, record_of, words_key
from fusion.lib.chunk import chunks
from fusion.lib.statements import says_something, statements, without
from fusion.lib.text_cache import text_cache
from fusion.lib.words import content_hash, normalise
from fusion.store.database import Connection, replacing

SCHEMA = """
alter table hidden add column words text;
alter table tombstone add column words text;
create index hidden_words on hidden(words) where words is not null;
create index tombstone_words on tombstone(words) where words is not null;
"""

PER_MEMORY = """
create table held(
    tenant text not null, document text not null, line text not null, words text not null default '',
    primary key(tenant, document, line, words)
) without rowid;
insert or ignore into held select tenant, document, line, coalesce(words, '') from hidden;
drop table hidden;
alter table held rename to hidden;
create index hidden_words on hidden(words);
"""
"""two memories of one file, or two users, may forget the same line; lifting one must not lift the other"""

FORMER_LINE_WORDS = 3
"""earlier versions stored forgotten lines of at least this many words; shorter lines went with their neighbours"""

_EXTERNAL = "foreign\0"
_OWNER = re.compile(r"[^\0]*\0[^\0]*\0([^\0]*)\0")
"""the user in a key of words: kind, tenant, user, hash"""
_FOLDER_HASH = re.compile(r"-[0-9a-f]{8}(?=/)")
"""the suffix of a folder's name where another folder of that name was taken first"""

_HELD_BACK = "(trust = 'quarantined' or state like '%quarantined%')"
QUARANTINED = f"create index event_quarantined on event(seq) where {_HELD_BACK};"


def quarantined(db: Connection) -> Iterator[Record]:
    """The current memories that are quarantined."""
    rows = db.execute(
        "select * from event indexed by event_quarantined "
        f"where {_HELD_BACK} and forgotten = 0 and superseded_by is null"
    )
    yield from (record for record in map(record_of, rows) if record.trust == "quarantined")


@dataclass(frozen=True, slots=True)
class Tombstones:
    """The tombstones in memory, against which every answer is checked: hashes only."""

    lines: dict[tuple[str, str], dict[str, set[str]]] = field(default_factory=dict)
    """by tenant and file key, then by statement: the users who forgot it, "" for no user"""
    keys: set[str] = field(default_factory=set)
    """keys of words, and of external items"""

    @classmethod
    def of(cls, db: Connection) -> Tombstones:
        """Read the tombstones of a journal."""
        tombstones = cls()
        lines = db.execute("select tenant, document, line, words from hidden")
        tombstones.extend((key for (key,) in db.execute("select key from tombstone")), lines)
        return tombstones

    @classmethod
    def of_quarantined(cls, records: Iterable[Record]) -> Tombstones:
        """The same for what is quarantined: what a backend reads itself must not show it either."""
        found = cls()
        for record in records:
            found.add(Hit.of(record.event))
        return found

    def __bool__(self) -> bool:
        return bool(self.keys or self.lines)

    def add(self, hit: Hit, backend: str | None = None) -> None:
        """Add the tombstones of a hit; with a ``backend`` also of the external item itself."""
        keys = [_words(hit.text, hit.speaker, hit.scope), *item_keys(backend, hit)]
        self.keys.update(key for key in keys if key.startswith((WORDS, _EXTERNAL)))
        if hit.place is not None:
            for line in statement_keys(hit.text, hit.place):
                self._add_line(hit.scope.tenant, hit.place.document, line, hit.scope.user_id or "")

    def may_lift(self, event: Event) -> bool:
        """Whether some may go as the event is remembered: the keys of short texts are not in memory."""
        words = _words(event.text, event.speaker, event.scope)
        return bool(self) and (words in self.keys or not words.startswith(WORDS))

    def extend(self, keys: Iterable[str], lines: Iterable[tuple[str, str, str, str]]) -> None:
        """Add the tombstones of rows: keys, and of lines the tenant, the document, the statement and its words."""
        self.keys.update(key for key in keys if key.startswith((WORDS, _EXTERNAL)))
        for tenant, document, line, words in lines:
            self._add_line(tenant, document, line, user_of_words(words))

    def _add_line(self, tenant: str, document: str, line: str, user: str) -> None:
        self.lines.setdefault((tenant, _file_key(document)), {}).setdefault(line, set()).add(user)

    def affects(self, backend: str, hit: Hit) -> bool:
        """Whether a hit contains anything that was forgotten."""
        return self.visible(backend, hit) is not hit

    def visible(self, backend: str, hit: Hit) -> Hit | None:
        """The hit, a piece of a file without its forgotten statements, or None if nothing may be shown.

        A piece of a file is matched by its statements and not by its line numbers, where another text may be by now.
        Another item is matched by its native id, and by its words within their owner unless it has an event id: then
        its record says whether it was forgotten.
        """
        if hit.place is not None:
            text, place = self.remainder(hit.text, hit.place, hit.scope)
            if not text and hit.text:
                return None
            hit = hit if text == hit.text else replace(hit, text=text, place=place)
        if not self.keys:
            return hit
        # For a hit with an event id the record says whether it was forgotten.
        says = [] if hit.event_id is not None else [_words(hit.text, hit.speaker, hit.scope)]
        return hit if self.keys.isdisjoint((*says, *item_keys(backend, hit))) else None

    def remainder(self, text: str, place: Place, scope: Scope) -> tuple[str, Place]:
        """A piece of a file without its forgotten statements, and its lines; empty if nothing is left."""
        said = self._without(text, place, scope)
        if said == text:
            return text, place
        if not says_something(said):
            return "", place
        lines = said.split("\n")
        above = next(number for number, line in enumerate(lines) if line.strip())
        below = next(number for number, line in enumerate(reversed(lines)) if line.strip())
        if place.end - place.start == len(lines) - 1:
            place = replace(place, start=place.start + above, end=place.end - below)
        return "\n".join(lines[above : len(lines) - below]), place

    def _without(self, text: str, place: Place, scope: Scope) -> str:
        """The text with the statements blanked that this user forgot in the file; line numbers stay."""
        forgotten = self._in_document(place.document, scope) if place.unit == "line" else None
        if forgotten is None:
            return text
        if forgotten(_piece_key(text)):
            return "\n" * text.count("\n")
        hidden_lines = {number for number, key in _former_line_keys(text) if key and forgotten(key)}
        if hidden_lines:
            hidden_lines |= {number for number, key in _former_line_keys(text) if not key}
            lines = ("" if number in hidden_lines else line for number, line in enumerate(text.split("\n")))
            return without("\n".join(lines), forgotten)
        return without(text, forgotten)

    def _in_document(self, document: str, scope: Scope) -> Callable[[str], bool] | None:
        """A test whether a key was forgotten in a document; None if nothing was."""
        gone = self.lines.get((scope.tenant, _file_key(document))) if self.lines else None
        if gone is None:
            return None
        who = {"", scope.user_id}
        return lambda key: key in gone and (scope.user_id is None or not who.isdisjoint(gone[key]))

    def visible_record(self, record: Record) -> Record | None:
        """A record without the statements that were forgotten in its file; None if nothing is left."""
        event = record.event
        if event.place is None or not event.text or not self.lines:
            return record
        text, place = self.remainder(event.text, event.place, event.scope)
        if text == event.text:
            return record
        return replace(record, event=replace(event, text=text, place=place)) if text else None

    def visible_lines(self, document: str, lines: Sequence[str], scope: Scope) -> dict[int, str]:
        """By number from 1, each line of a file that has forgotten statements, without them; as `visible`.

        Also checks the pieces in which the file is ingested: earlier versions forgot whole pieces and lines.
        """
        forgotten = self._in_document(document, scope)
        if forgotten is None:
            return {}
        text = "\n".join(lines)
        left = list(without(text, forgotten).split("\n"))
        for piece in chunks(text):
            place = Place(document, piece.start, piece.end, "line")
            rest = self._without(piece.text, place, scope)
            if rest == piece.text:
                continue
            if piece.part:  # of one line that is too long for one piece
                left[piece.start - 1] = left[piece.start - 1].replace(piece.text, rest)
                continue
            for number, line in enumerate(rest.split("\n"), start=piece.start - 1):
                left[number] = min(left[number], line, key=len)
        return {n: line for n, (line, before) in enumerate(zip(left, lines, strict=True), start=1) if line != before}


def _file_key(document: str) -> str:
    """The name of a file with that of its folder, which every reader of the file knows.

    Readers name a document from different folders (`docs/sub/a.md`, `sub/a.md`), and a folder's name may carry a hash.
    Two files of one name in two folders of one name share a key: it is safer to leave out too much than too little.
    """
    return _FOLDER_HASH.sub("", "/".join(document.split("/")[-2:]))


def user_of_words(words: str | None) -> str:
    """The user in a words key; "" if there is no key, as in tombstones of earlier versions."""
    owner = _OWNER.match(words or "")
    return owner[1] if owner else ""


def item_keys(backend: str | None, hit: Hit) -> list[str]:
    """The key of a backend's own item, as a list; a piece of a file has none."""
    if backend is None or (hit.place is not None and hit.place.unit == "line"):
        return []
    return [f"{_EXTERNAL}{hit.scope.tenant}\0{backend}\0{hit.native_id}"]


@text_cache(4096)
def _words(text: str, speaker: str | None, scope: Scope) -> str:
    """The words key, cached: backends find the same items again and again."""
    return words_key(text, speaker, scope)


def keys_under(natural: str, words: str, file: str | None) -> list[str]:
    """The keys of the tombstones for a memory with a natural key.

    Those of a line of JSONL have its file, or its words: under the same natural key another file, or a program, may say
    something else.
    """
    return [natural] if file is None else [f"{natural}\0{content_hash(file)}", f"{natural}\0{words}"]


def is_blocked(db: Connection, event: Event, keys: Keys) -> bool:
    """Whether a tombstone keeps an event out that has a natural key."""
    _, natural, words = keys
    assert natural is not None  # noqa: S101 — what is remembered explicitly is never blocked
    marks = [natural, *keys_under(natural, words, event.file or ""), *([words] if words.startswith(WORDS) else ())]
    found = db.execute(f"select 1 from tombstone where key in ({', '.join('?' * len(marks))}) limit 1", marks)
    return found.fetchone() is not None


def is_forgotten(db: Connection, words: str) -> bool:
    """Whether a text with this words key was forgotten; never for a short text."""
    known = words.startswith(WORDS) and db.execute("select 1 from tombstone where key = ?", (words,)).fetchone()
    return bool(known)


_PUT = replacing("tombstone", "key", "event_id, words")


def store_tombstones(db: Connection, event_id: str, words: str, keys: Sequence[str], hit: Hit) -> None:
    """Store every tombstone of one memory, each with the words key that lifts it."""
    db.executemany(_PUT, [(key, event_id, words) for key in (words, *keys)])
    if hit.place is not None:
        db.executemany(
            "insert into hidden values(?, ?, ?, ?) on conflict do nothing",
            [(hit.scope.tenant, hit.place.document, line, words) for line in statement_keys(hit.text, hit.place)],
        )


def lift(db: Connection, words: str) -> None:
    """Delete every tombstone of a memory in these words."""
    db.execute("delete from tombstone where words = ?1 or key = ?1", (words,))
    db.execute("delete from hidden where words = ?", (words,))


def statement_keys(text: str, place: Place) -> set[str]:
    """The keys of a piece of a file and of its statements; none for a turn."""
    return {one.key for one in statements(text)} | {_piece_key(text)} if place.unit == "line" else set()


def _piece_key(text: str) -> str:
    """The key of a whole piece, which may have no statement."""
    words = [word for line in text.splitlines() for word in normalise(line).split()]
    return content_hash("whole\0" + " ".join(words))


@text_cache(4096)
def _former_line_keys(text: str) -> tuple[tuple[int, str], ...]:
    """Each line with words, by number from 0, with its key of earlier versions; "" for a short line."""
    lines = ((number, normalise(line).split()) for number, line in enumerate(text.split("\n")))
    return tuple(
        (number, content_hash(" ".join(words)) if len(words) >= FORMER_LINE_WORDS else "")
        for number, words in lines
        if words
    )


def withheld_documents(db: Connection, tenant: str) -> list[wire.HeldBack]:
    """The documents of which statements are withheld, sorted by name, with the refs of the forgotten memories."""
    rows = db.execute(
        "select distinct h.document, a.ref, a.id from hidden h join tombstone t on t.words = h.words "
        "join event e on e.event_id = t.event_id join audit a on a.seq = e.seq "
        "where h.tenant = ? and h.words <> '' order by h.document, a.id",
        (tenant,),
    )
    found: dict[str, dict[str, None]] = {}
    for document, ref, _ in rows:
        found.setdefault(document, {})[ref] = None
    return [{"document": document, "refs": list(refs)} for document, refs in found.items()]
