"""Rebuilds a journal from the readable rows of the old file and the events that only the backends still have.

The new file is built in a folder next to the old one, which does not change until the new one is complete and on the
disk. After an interruption the next call begins again or finishes the exchange.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from fusion.contract import Event, Hit
from fusion.journal import observations, outbox, watermark
from fusion.journal.rows import WORDS, count, insert_event, keys_of
from fusion.journal.schema import STEPS
from fusion.journal.tombstones import Tombstones
from fusion.journal.watermark import Watermark
from fusion.store.private_files import sync
from fusion.store.rows import event_of, event_row
from fusion.store.sqlite import Connection, migrate

FILE = "journal.sqlite"
WORK = "journal.repair"
"""the folder in which the new journal is built"""
READY = "ready"
"""the file that marks the new journal as complete; it holds the name under which the old one is kept"""
_SIDES = ("-wal", "-shm")
_INDEX = "observation_text"
"""the index of the words of observations, which has tables of its own with names that begin so"""
_DERIVED = frozenset({"mark", "term", "owner", "owned", "sqlite_sequence"})
"""tables that are not copied, because they are counted again or belong to one journal"""

Recovery = Literal["known", "forgotten", "recovered", "renumbered"]
"""the outcome for an event of a backend: already there; forgotten; recovered with its ref, or with a new one"""


@dataclass(slots=True)
class CopyReport:
    """What was copied of an old journal. ``mark`` is its watermark, ``cut`` the tables that were not fully readable."""

    events: int = 0
    mark: Watermark | None = None
    damage: str = ""
    cut: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StoredCopy:
    """A backend's copy of an event, with its native ids there."""

    backend: str
    event: Event
    native_ids: tuple[str, ...]


def finish_exchange(folder: Path) -> bool:
    """Finish an exchange of files that was interrupted; whether there was one."""
    work = folder / WORK
    try:
        aside = (work / READY).read_text(encoding="utf-8").strip()
    except OSError:
        return False
    if (work / FILE).exists():
        for side in _SIDES:
            with suppress(FileNotFoundError):
                (folder / (FILE + side)).rename(folder / (aside + side))
        with suppress(FileNotFoundError, FileExistsError):
            os.link(folder / FILE, folder / aside)
        (work / FILE).replace(folder / FILE)
        sync(folder)
    shutil.rmtree(work)
    return True


def discard_unfinished(folder: Path) -> None:
    """Remove an incomplete new journal."""
    if not (folder / WORK / READY).exists():
        shutil.rmtree(folder / WORK, ignore_errors=True)


def exchange(folder: Path, aside: str) -> None:
    """Replace the old journal by the new one; the old one is kept as ``aside``."""
    work = folder / WORK
    sync(work / FILE)
    (work / READY).write_text(aside, encoding="utf-8")
    sync(work / READY)
    sync(work)
    finish_exchange(folder)


def begin(folder: Path) -> tuple[Path, CopyReport]:
    """Build a new journal from the readable rows of the old one, which does not change; its file and a report."""
    work = folder / WORK
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(mode=0o700)
    old, new, copied = work / "old.sqlite", work / FILE, CopyReport()
    for side in ("", "-wal"):
        with suppress(FileNotFoundError):
            shutil.copyfile(folder / (FILE + side), f"{old}{side}")
    copied.damage = _fault(old)
    new.touch(mode=0o600)
    with closing(sqlite3.connect(new, isolation_level=None)) as db:
        db.row_factory = sqlite3.Row
        if copied.damage:
            migrate(db, STEPS)
            if old.exists():
                copied.cut = _copy_readable(old, db)
            _count_anew(db)
            _harvest_anew(db)
        else:
            with closing(sqlite3.connect(old)) as source:
                source.backup(db)
            migrate(db, STEPS)
            copied.mark = watermark.read(db)
            db.execute("update mark set id = lower(hex(randomblob(8)))")
        copied.events = db.execute("select count(*) from event").fetchone()[0]
    for side in ("", *_SIDES):
        Path(f"{old}{side}").unlink(missing_ok=True)
    return new, copied


def add(file: Path, copies: Iterable[Sequence[StoredCopy]], stores: Sequence[str], last: int) -> dict[str, Recovery]:
    """Add events that only backends hold, each with its ``copies``, oldest first; the outcome by event id.

    ``stores`` are the backends that get a delivery of an event unless they have a copy. An event keeps its number, and
    so its ref, where a delivery of the old journal still names it. New numbers come after ``last``, so that no ref of
    a lost memory names another one.
    """
    found: dict[str, Recovery] = {}
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        db.row_factory = sqlite3.Row
        db.execute("begin immediate")
        _number_from(db, last)
        tombstones = Tombstones.of(db)
        numbers = _known_numbers(db)
        for some in copies:
            event = fullest([copy.event for copy in some])
            number = numbers.get(event.event_id)
            found[event.event_id] = _add(db, event, some, stores, tombstones, number)
        _supersede(db)
        db.execute(watermark.COUNT)
        db.execute("commit")
        db.execute("pragma journal_mode = delete")
    return found


def fullest(copies: Sequence[Event]) -> Event:
    """The most complete copy of an event: the most fields that are not empty, then the longest text."""

    def said(event: Event) -> tuple[int, int]:
        return sum(value is not None and value not in ("", ()) for value in event_row(event)), len(event.text)

    return max(copies, key=said)


def _known_numbers(db: Connection) -> dict[str, int]:
    """By event id, the numbers of lost events, found by their deliveries, whose native ids contain the event id."""
    rows = db.execute(
        "select distinct d.seq, n.value as id from delivery d, json_each(d.native_ids) n "
        "where not exists (select 1 from event e where e.seq = d.seq)"
    ).fetchall()
    numbers = {str(row["id"]).rpartition("#")[2]: int(row["seq"]) for row in rows}  # of Markdown: file#event
    twice = {seq for seq, many in Counter(numbers.values()).items() if many > 1}
    return {event_id: seq for event_id, seq in numbers.items() if seq not in twice}


def _add(
    db: Connection,
    event: Event,
    copies: Sequence[StoredCopy],
    stores: Sequence[str],
    tombstones: Tombstones,
    number: int | None = None,
) -> Recovery:
    if db.execute("select 1 from event where event_id = ?", (event.event_id,)).fetchone() is not None:
        return "known"
    place_key, natural, words = keys_of(event)
    marks = [*([natural] if natural else []), *([words] if words.startswith(WORDS) else [])]
    gone = db.execute(
        "select 1 from tombstone where event_id = ? or key in (select value from json_each(?))",
        (event.event_id, json.dumps(marks)),
    ).fetchone()
    if gone is not None or tombstones.visible("", Hit.of(event)) is None:
        return "forgotten"
    # Of two events with one natural key the newer one keeps it, as in an append.
    db.execute("update event set natural = null where natural = ?", (natural,))
    if number is not None:
        outbox.drop(db, number)
    seq = insert_event(db, event, seq=number, natural=natural, place_key=place_key)
    outbox.enter(db, seq, stores, sent=True)
    db.executemany(
        "insert into delivery(seq, backend, state, native_ids) values(?, ?, 'done', ?) on conflict(backend, seq) do "
        "update set state = 'done', native_ids = excluded.native_ids",
        [(seq, copy.backend, json.dumps(copy.native_ids)) for copy in copies],
    )
    db.executemany("insert or ignore into derived values(?, ?)", [(s, event.event_id) for s in event.derived_from])
    count(db, event, +1)
    return "renumbered" if number is None else "recovered"


def _supersede(db: Connection) -> None:
    """Mark superseded events: backends store the relation with the newer event only."""
    rows = db.execute(
        "select old.*, new.event_id as newer from event new join event old on old.event_id = new.supersedes "
        "where new.forgotten = 0 and old.forgotten = 0 and old.superseded_by is null order by new.seq"
    ).fetchall()
    for row in rows:
        count(db, event_of(row), -1)
        db.execute("update event set superseded_by = ? where seq = ?", (row["newer"], row["seq"]))


def _number_from(db: Connection, last: int) -> None:
    if db.execute("select 1 from sqlite_sequence where name = 'event'").fetchone() is None:
        db.execute("insert into sqlite_sequence values('event', 0)")
    db.execute("update sqlite_sequence set seq = max(seq, ?) where name = 'event'", (last,))


def _count_anew(db: Connection) -> None:
    db.execute("begin immediate")
    for row in db.execute("select * from event where forgotten = 0 and superseded_by is null").fetchall():
        count(db, event_of(row), +1)
    db.execute("commit")


def _harvest_anew(db: Connection) -> None:
    """Index the observations that could be read, and let the next harvest read their whole log for the others."""
    db.execute("begin immediate")
    for row in db.execute("select * from observation order by seq").fetchall():
        observations.index_text(db, row["seq"], observations.text_of(row))
    db.execute("delete from harvested")
    db.execute("commit")


def _fault(file: Path) -> str:
    """What is wrong with a journal file; empty if nothing."""
    if not file.exists():
        return "it is not there"
    try:
        with closing(sqlite3.connect(file)) as db:
            verdict = str(db.execute("pragma quick_check(1)").fetchone()[0]).splitlines()[-1]
            if verdict != "ok":
                return verdict
            db.execute("select 1 from event limit 1").fetchone()
    except sqlite3.Error as error:
        return str(error)
    return ""


def _copy_readable(old: Path, db: Connection) -> list[str]:
    """Copy every readable row; returns the tables that were not fully readable."""
    cut: list[str] = []
    tables = [
        (name, "without rowid" in sql.lower())
        for name, sql in db.execute("select name, sql from sqlite_master where type = 'table'").fetchall()
        if name not in _DERIVED and not name.startswith(("sqlite_", _INDEX))
    ]
    try:
        source = sqlite3.connect(old)
    except sqlite3.Error:
        return [name for name, _ in tables]
    with closing(source):
        for table, keyed in tables:
            columns = db.execute(f"pragma table_info({table})").fetchall()
            names = [row["name"] for row in columns]
            key = [row["name"] for row in columns if row["pk"]] if keyed else ["rowid"]
            db.execute("begin immediate")
            # Rows behind a damaged page are read from the other end.
            whole = any(
                _copy_rows(source, db, table, names, ", ".join(f"{name} {direction}" for name in key))
                for direction in ("asc", "desc")
            )
            db.execute("commit")
            if not whole:
                cut.append(table)
    return cut


def _copy_rows(source: sqlite3.Connection, db: Connection, table: str, names: Sequence[str], order: str) -> bool:
    """Copy the rows of a table in an order until one cannot be read; whether the end was reached."""
    try:
        there = {row[1] for row in source.execute(f"pragma table_info({table})")}
        columns = [name for name in names if name in there]
        if not columns:
            return False
        listed = ", ".join(columns)
        into = f"insert or ignore into {table}({listed}) values({', '.join('?' * len(columns))})"
        for row in source.execute(f"select {listed} from {table} order by {order}"):
            with suppress(sqlite3.IntegrityError, sqlite3.InterfaceError):  # a damaged page may yield an invalid row
                db.execute(into, row)
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        return False
    return True


def merge_copies(held: Mapping[str, Iterable[tuple[Event, tuple[str, ...]]]]) -> list[list[StoredCopy]]:
    """The events of several backends, each once with all its copies, in the order in which they were recorded."""
    copies: dict[str, list[StoredCopy]] = {}
    for backend, events in held.items():
        for event, native_ids in events:
            copies.setdefault(event.event_id, []).append(StoredCopy(backend, event, native_ids))
    return sorted(copies.values(), key=lambda some: (some[0].event.recorded_at, some[0].event.event_id))
