"""The table of documents and their items, in SQLite; derived from the files, like the index.

Texts stay on disk until a search finds them, so a folder of a million chunks needs RAM only for its file names, and a
start reads only changed files. A document is replaced in one transaction: a reader sees its old or its new state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from pathlib import Path
from shutil import rmtree
from typing import Any, Self

import orjson

from adapters.index import Entry
from adapters.markdown.files import Signature
from adapters.markdown.own_notes import decoded
from fusion.contract import TAG, Hit, Scope, Where, inline_tags, is_in_folder
from fusion.errors import StoreDamaged
from fusion.lib.moment import calendar_day
from fusion.lib.passages import passage_texts
from fusion.lib.words import content_hash
from fusion.store.database import VALUES, listed
from fusion.store.sqlite import Connection, Database, Row

_SCHEMA = """
create table meta (name text primary key, value text not null) without rowid;
create table document (
    id integer primary key, name text not null unique,
    mtime integer, ctime integer, size integer, inode integer, digest blob, remarks text not null
);
create table item (
    id integer primary key, native text not null unique, document integer not null, event text,
    start integer, end integer, body blob not null
);
create index item_document on item(document, start, end, id);
create index item_event on item(event) where event is not null;
"""
_DAYS = """
alter table item add column day text;
create index item_day on item(day) where day is not null;
"""
"""the day of the calendar that an item is of, YYYY-MM-DD: of a daily note, and of a dated section of a log"""
_LABELS = """
create table label(name text not null, value text not null, native text not null, primary key(name, value, native))
    without rowid;
create index label_item on label(native);
"""
"""the tags and properties of items, in lower case"""
_FILE = "files.sqlite"
_REPLACEMENT = "anew"
_FIX = "It is derived from the files: delete it, and it is written again"
_AT_ONCE = 500
_MADE = 2_000
# Items in the cache, about 2 KB each: without it, reading a hundred was half of a search.


@dataclass(frozen=True, slots=True)
class Item:
    """A search result: a chunk of a user's file, or an entry of the gateway's own folder.

    ``entries`` are its index entries; a long note has several, is found by any of them and returned whole.
    ``headings`` lead to it, outermost first.
    """

    hit: Hit
    entries: tuple[Entry, ...]
    headings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """A file's items. ``signature`` is the file state that they were read from; with ``None`` the next scan reads the
    file again, and compares ``digest``."""

    name: str
    items: Sequence[Item]
    signature: Signature | None = None
    digest: bytes | None = None
    remarks: tuple[str, ...] = ()


@dataclass(slots=True)
class Known:
    """The part of a document that is kept in RAM."""

    signature: Signature | None
    digest: bytes | None
    remarks: tuple[str, ...] = ()


Made = dict[str, tuple[Item, frozenset[str]]]
"""By native id, items without their entries, and the entries' keys."""


class Held:
    """The items of some index keys, from one snapshot; ``made`` has those from the cache."""

    def __init__(self, made: Made, bodies: Mapping[str, bytes], hidden: Collection[str] = ()) -> None:
        self._made = made
        self._bodies = bodies
        self._hidden = hidden

    def get(self, key: str) -> Item | None:
        """The item of a key; ``None`` if no document has it any more, or yet."""
        native = native_of(key)
        if native.partition("/")[0] in self._hidden:
            return None
        if native not in self._made:
            body = self._bodies.get(native)
            if body is None:
                return None
            stored = orjson.loads(body)
            keys = frozenset(entry[0] for entry in stored.pop("entries"))
            self._made[native] = Item(Hit(**decoded(stored.pop("hit"))), (), **_lists(stored)), keys
        item, keys = self._made[native]
        return item if key in keys else None


class ItemTable:
    """The table of all documents and items.

    ``generation`` changes whenever something is removed or replaced. ``stamp`` is the index's when both were last in
    step, for `Index.open`. ``hidden`` are the roots whose documents are kept but not found.
    """

    def __init__(self, folder: Path, reading: str, database: Database) -> None:
        self.documents: dict[str, Known] = {}
        self.generation = 0
        self.stamp = ""
        self.hidden: set[str] = set()
        self._folder = folder
        self._reading = reading
        self._database = database
        self._made: Made = {}  # of this generation
        self._size = 0

    @classmethod
    async def open(cls, folder: Path, reading: str) -> Self:
        """Open the table in ``folder``; a damaged one, or one made by another version of ``reading``, is replaced by
        an empty one."""
        await asyncio.to_thread(_adopt, folder)
        try:
            table = await cls._opened(folder, reading)
        except StoreDamaged:
            _erase(folder)
            table = await cls._opened(folder, reading)
        if await table._meta("reading") != reading:
            await table._database.write(lambda db: _begin(db, reading))
        await table._load()
        return table

    @classmethod
    async def _opened(cls, folder: Path, reading: str) -> Self:
        database = await Database.open(folder / _FILE, (_SCHEMA, _DAYS, _LABELS), fix=_FIX)
        return cls(folder, reading, database)

    async def open_replacement(self) -> ItemTable:
        """An empty table, to replace this one once this is discarded."""
        folder = self._folder.parent if self._folder.name == _REPLACEMENT else self._folder / _REPLACEMENT
        return await ItemTable.open(folder, self._reading)

    async def discard(self) -> None:
        """Close and delete the table."""
        await self.close()
        _erase(self._folder)

    def __len__(self) -> int:
        return self._size

    async def change(self, put: Sequence[Document], drop: Iterable[str], stamp: str | None = None) -> None:
        """Put documents, replacing those with the same name, and drop others, in one transaction."""
        gone = [name for name in drop if name in self.documents]
        replaced = [document.name for document in put if document.name in self.documents]

        def write(db: Connection) -> int:
            removed = 0
            for name in (*gone, *replaced):
                among = "document = (select id from document where name = ?)"
                db.execute(f"delete from label where native in (select native from item where {among})", (name,))
                removed += db.execute(f"delete from item where {among}", (name,)).rowcount
            db.executemany("delete from document where name = ?", [(name,) for name in gone])
            added = sum(_write(db, document) for document in put)
            if stamp is not None:
                _set_meta(db, "stamp", stamp)
            return added - removed

        self._size += await self._database.write(write)
        if stamp is not None:
            self.stamp = stamp
        if gone or replaced:
            self.generation += 1
            self._made = {}
        for name in gone:
            del self.documents[name]
        for document in put:
            self.documents[document.name] = Known(document.signature, document.digest, document.remarks)

    async def extend(self, grown: Sequence[tuple[str, Sequence[Item], Signature | None]], stamp: str) -> None:
        """Append items to documents without reading their other items."""

        def write(db: Connection) -> int:
            added = 0
            for name, items, signature in grown:
                known = self.documents.get(name)
                added += _write(db, Document(name, items, signature, None, known.remarks if known else ()))
            _set_meta(db, "stamp", stamp)
            return added

        self._size += await self._database.write(write)
        self.stamp = stamp
        for name, _, signature in grown:
            known = self.documents.setdefault(name, Known(None, None))
            known.signature, known.digest = signature, None

    async def settle(self, signatures: Mapping[str, Signature], stamp: str) -> None:
        """Record the index's stamp, and new signatures of documents whose content has not changed."""
        if not signatures and stamp == self.stamp:
            return

        def write(db: Connection) -> None:
            sign = "update document set mtime = ?, ctime = ?, size = ?, inode = ? where name = ?"
            db.executemany(sign, [(*signature, name) for name, signature in signatures.items()])
            _set_meta(db, "stamp", stamp)

        await self._database.write(write)
        self.stamp = stamp
        for name, signature in signatures.items():
            self.documents[name].signature = signature

    def signatures(self, root: str) -> dict[str, Signature | None]:
        """By path in a root, the state in which each document was last read or written."""
        within = f"{root}/"
        return {
            name.removeprefix(within): known.signature
            for name, known in self.documents.items()
            if name.startswith(within)
        }

    def held(self, keys: Iterable[str]) -> Held:
        """The items of index keys, from one snapshot. Blocks: call it in a thread."""
        if len(self._made) > _MADE:
            self._made = {}
        made = self._made  # read before the look: if it changes during the look, nothing is cached
        natives = [native for native in dict.fromkeys(map(native_of, keys)) if native not in made]

        def look(db: Connection) -> dict[str, bytes]:
            rows = db.execute(f"select native, body from item where native in {VALUES}", listed(natives))
            return {row[0]: row[1] for row in rows}

        return Held(made, self._database.look(look) if natives else {}, self.hidden)

    async def items(self, name: str) -> list[Item]:
        """The items of one document, in its order."""
        query = "select body from item where document = (select id from document where name = ?) order by id"
        return await self._items(query, (name,))

    async def checkpoint(self) -> None:
        """Empty the write-ahead log, so that no deleted text remains in it."""
        await self._database.checkpoint()

    async def of_event(self, event_id: str) -> list[Item]:
        return await self._items("select body from item where event = ? order by id", (event_id,))

    async def keys(self, names: Iterable[str]) -> dict[str, Entry]:
        """The index entries of some documents, by key."""
        found: dict[str, Entry] = {}
        for name in names:
            if name in self.documents:
                found.update((entry.key, entry) for item in await self.items(name) for entry in item.entries)
        return found

    async def of_days(self, days: Sequence[tuple[date, date]], limit: int) -> list[Item]:
        """At most ``limit`` items of these days, each from a first to a last one: the latest day first."""
        among = " or ".join(["day between ? and ?"] * len(days))
        query = f"select body from item where {among} order by day desc, document, start, id limit ?"
        items = await self._items(query, (*(day.isoformat() for pair in days for day in pair), limit))
        return [item for item in items if item.hit.native_id.partition("/")[0] not in self.hidden]

    async def fitting(self, where: Where, limit: int) -> list[Item]:
        """At most ``limit`` items in these folders, with these tags and properties, in the order of their documents."""
        terms, values = ["1"], list[object]()
        if where.folder:
            names = [name for name in self.documents if any(is_in_folder(name, folder) for folder in where.folder)]
            terms.append(f"document in (select id from document where name in {VALUES})")
            values += listed(names)
        labels = "native in (select native from label where name = ? and ({}))"
        if where.tag:
            tags = [tag.removeprefix("#").casefold() for tag in where.tag]
            terms.append(labels.format(" or ".join(["value = ? or value glob ?"] * len(tags))))
            values += [TAG, *(value for tag in tags for value in (tag, f"{_literal(tag)}/*"))]
        properties: dict[str, list[str]] = {}
        for name, value in where.property:
            properties.setdefault(name.casefold(), []).append(value.casefold())
        for name, wanted in properties.items():
            terms.append(labels.format(f"value in ({', '.join('?' * len(wanted))})"))
            values += [name, *wanted]
        query = f"select body from item where {' and '.join(terms)} order by document, start, id limit ?"
        items = await self._items(query, (*values, limit))
        return [item for item in items if item.hit.native_id.partition("/")[0] not in self.hidden]

    async def has(self, native_id: str) -> bool:
        return bool(await self._items("select body from item where native = ?", (native_id,)))

    async def neighbours(self, native_id: str, span: int) -> list[Hit]:
        """Up to ``span`` hits before and after one, in the document's order; an item without a place has none."""

        def look(db: Connection) -> list[bytes]:
            at = db.execute(
                "select document, start, end, id from item where native = ? and start is not null", (native_id,)
            ).fetchone()
            if at is None:
                return []
            near = "select body from item where document = ? and start is not null and (start, end, id)"
            before = db.execute(f"{near} < (?, ?, ?) order by start desc, end desc, id desc limit ?", (*at, span))
            bodies = [row[0] for row in before][::-1]
            return bodies + [
                row[0] for row in db.execute(f"{near} > (?, ?, ?) order by start, end, id limit ?", (*at, span))
            ]

        return [_item(body).hit for body in await self._database.read(look)]

    def __iter__(self) -> Iterator[Entry]:
        """All entries that the index must have. Blocks: iterate in a thread."""
        last = 0
        query = "select id, body from item where id > ? order by id limit ?"
        while rows := self._rows(query, (last, _AT_ONCE)):
            for row in rows:
                yield from _item(row["body"]).entries
            last = rows[-1]["id"]

    def pick(self, keys: Sequence[str]) -> list[Entry]:
        """The entries of those keys that still exist. Blocks: call it in a thread."""
        wanted = set(keys)
        natives = listed(dict.fromkeys(map(native_of, keys)))
        rows = self._rows(f"select body from item where native in {VALUES}", natives)
        return [entry for row in rows for entry in _item(row["body"]).entries if entry.key in wanted]

    async def check(self) -> None:
        """Raises ``StoreDamaged`` if the table is damaged."""
        await self._database.check()

    async def close(self) -> None:
        await self._database.close()

    def _rows(self, query: str, values: Sequence[object]) -> list[Row]:
        return self._database.look(lambda db: db.execute(query, values).fetchall())

    async def _items(self, query: str, values: tuple[object, ...]) -> list[Item]:
        bodies = await self._database.read(lambda db: [row["body"] for row in db.execute(query, values)])
        return [_item(body) for body in bodies]

    async def _meta(self, name: str) -> str | None:
        row = await self._database.read(
            lambda db: db.execute("select value from meta where name = ?", (name,)).fetchone()
        )
        return None if row is None else str(row["value"])

    async def _load(self) -> None:
        def look(db: Connection) -> tuple[dict[str, Known], int]:
            rows = db.execute("select name, mtime, ctime, size, inode, digest, remarks from document")
            known = {
                name: Known(
                    None if mtime is None else (mtime, ctime, size, inode),
                    digest,
                    tuple(orjson.loads(remarks)) if remarks != "[]" else (),
                )
                for name, mtime, ctime, size, inode, digest, remarks in rows
            }
            return known, _count(db)

        self.documents, self._size = await self._database.read(look)
        self.stamp = await self._meta("stamp") or ""


def keyed(native: str, scope: Scope, text: str, passages: tuple[str, ...] = ()) -> Entry:
    """An item's index entry. Its key depends on its text, so that each key belongs to one state of a file: the words of
    an old state never find the new one."""
    return Entry(f"{native}@{content_hash(text)[:12]}", scope, text, passages)


def native_of(key: str) -> str:
    return key.rpartition("@")[0]


def _write(db: Connection, document: Document) -> int:
    """Write a document's row and its items, in addition to existing items; returns how many are new."""
    signature = document.signature or (None, None, None, None)
    (number,) = db.execute(
        "insert into document (name, mtime, ctime, size, inode, digest, remarks) values (?, ?, ?, ?, ?, ?, ?) "
        "on conflict (name) do update set mtime = excluded.mtime, ctime = excluded.ctime, size = excluded.size, "
        "inode = excluded.inode, digest = excluded.digest, remarks = excluded.remarks returning id",
        (document.name, *signature, document.digest, orjson.dumps(document.remarks).decode()),
    ).fetchone()
    natives = {item.hit.native_id for item in document.items}
    there = f"select count(*) from item where native in {VALUES}"
    held = int(db.execute(there, listed(natives)).fetchone()[0])
    db.executemany(
        "insert or replace into item (native, document, event, start, end, day, body) values (?, ?, ?, ?, ?, ?, ?)",
        [
            (
                item.hit.native_id,
                number,
                item.hit.event_id,
                item.hit.place and item.hit.place.start,
                item.hit.place and item.hit.place.end,
                calendar_day(item.hit.at),
                _body(item),
            )
            for item in document.items
        ],
    )
    labels = [label for item in document.items for label in _labels(item.hit)]
    db.executemany("insert or ignore into label (name, value, native) values (?, ?, ?)", labels)
    return len(natives) - held


def _literal(text: str) -> str:
    """A text in a pattern of GLOB."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in text)


def _labels(hit: Hit) -> Iterator[tuple[str, str, str]]:
    """The tags and properties of an item; a tag in its text counts for this item alone."""
    for name, value in hit.properties:
        yield name, value.casefold(), hit.native_id
    for tag in inline_tags(hit.text):
        yield TAG, tag.casefold(), hit.native_id


def _begin(db: Connection, reading: str) -> None:
    for table in ("label", "item", "document", "meta"):
        db.execute(f"delete from {table}")
    _set_meta(db, "reading", reading)


def _set_meta(db: Connection, name: str, value: str) -> None:
    db.execute("insert or replace into meta values (?, ?)", (name, value))


def _count(db: Connection) -> int:
    return int(db.execute("select count(*) from item").fetchone()[0])


def _erase(folder: Path) -> None:
    for file in folder.glob(f"{_FILE}*"):
        file.unlink()


def _adopt(folder: Path) -> None:
    """Put a rebuilt table into the place of the damaged one, if that is gone."""
    if (folder / _REPLACEMENT).exists():
        if not (folder / _FILE).exists():
            for file in (folder / _REPLACEMENT).glob(f"{_FILE}*"):
                file.rename(folder / file.name)
        rmtree(folder / _REPLACEMENT)


# An item as JSON: defaults are left out, a text that ends like the hit's is stored as its beginning, and so are its
# passages, which are those of the hit's text


def _body(item: Item) -> bytes:
    hit = item.hit
    entries = [
        [
            entry.key,
            None if entry.scope == hit.scope else _non_defaults(entry.scope),
            entry.text.removesuffix(hit.text),
            entry.text.endswith(hit.text),
            entry.passages[0].removesuffix(passage_texts(hit.text, hit.speaker)[0]) if entry.passages else None,
        ]
        for entry in item.entries
    ]
    rest = {f.name: getattr(item, f.name) for f in fields(item) if f.name not in ("hit", "entries")}
    return orjson.dumps({"hit": _non_defaults(hit), "entries": entries, **rest})


def _non_defaults(value: Hit | Scope) -> dict[str, Any]:
    stored: dict[str, Any] = {}
    for name, default in _DEFAULTS[type(value)]:
        given = getattr(value, name)
        if given != default:
            stored[name] = _non_defaults(given) if isinstance(given, Scope) else given
    return stored


def _with_defaults(kind: type[Hit] | type[Scope]) -> tuple[tuple[str, Any], ...]:
    return tuple((f.name, f.default_factory() if callable(f.default_factory) else f.default) for f in fields(kind))


_DEFAULTS = {Hit: _with_defaults(Hit), Scope: _with_defaults(Scope)}


def _item(body: bytes) -> Item:
    stored = orjson.loads(body)
    hit = Hit(**decoded(stored.pop("hit")))
    entries = tuple(
        Entry(
            key,
            hit.scope if scope is None else Scope(**scope),
            text + hit.text if ends else text,
            () if lead is None else tuple(f"{lead}{passage}" for passage in passage_texts(hit.text, hit.speaker)),
        )
        for key, scope, text, ends, lead in stored.pop("entries")
    )
    return Item(hit, entries, **_lists(stored))


def _lists(stored: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) for name, value in stored.items()}
