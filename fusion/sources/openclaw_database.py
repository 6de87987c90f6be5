"""The sessions in an OpenClaw agent's database, ``openclaw-agent.sqlite``, which is only read.

Its tables are those of several versions of OpenClaw; a missing table or column means that the version has no such
archive.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import orjson

from fusion.contract import Scope
from fusion.ingest.intake import NewMemory
from fusion.lib.envelope import UNATTENDED
from fusion.lib.walk import PASS, open_folder
from fusion.sources.bookmarks import Bookmark, Bookmarks, digest
from fusion.sources.files import MAX_UNPACKED_BYTES, Lines, Skip, Unreadable, opened, unpacked
from fusion.sources.sessions import BEGINNING, MAX_LINE_BYTES, openclaw_session, turns_of
from fusion.sources.turns import Observe, Session, Transcript, is_group_key, valid_id

TABLE = "transcript_events"
ARCHIVES = "session_transcript_archives"
COLD = "session_transcript_cold_archives"
COLUMNS = frozenset({"session_id", "seq", "event_json"})
ROWS = 200
"""maximum rows of one query: between two queries, OpenClaw can write"""
MAX_COLD_BYTES = 1 << 26
"""maximum bytes of a packed archive in the database or next to it"""
UNKNOWN_SCHEMA = "its tables are not known of OpenClaw: there is no transcript_events with session_id, seq, event_json"
UNKNOWN_COLD = "its cold archive does not match the database"
DESCRIPTORS = Path("/dev/fd")
"""the folder that lists the descriptors of this process"""
WAL_VERSIONS = b"\2\2"
"""bytes 18 and 19 of a database with a write-ahead log; another does not read a log that is left next to it"""
Connect = Callable[..., sqlite3.Connection]
_UNATTENDED_KEY = re.compile(r":(?:cron|subagent|heartbeat|hook|acp)(?::|$)")


def database(
    path: Path,
    owner: Scope,
    bookmarks: Bookmarks | None = None,
    *,
    connect: Connect = sqlite3.connect,
    observe: Observe | None = None,
) -> Iterator[NewMemory | Skip]:
    """The turns in an OpenClaw agent's database since its bookmarks. The database is never written.

    A session's events are rows, packed or not. Those of a session that rested for long are in a cold archive, in the
    database or next to it. Those of one that was deleted or reset are in an archive of their own; these are read first,
    so that the current events are read last.
    """
    try:
        with _database(path, connect) as db:
            keys = _session_keys(db)
            yield from _archived(db, path, owner, bookmarks, observe)
            for session_id, last in _sessions(db):
                key, group = keys.get(session_id, ("", False))
                session = _session_of_row(path, session_id, key, group, owner)
                if isinstance(session, Skip):
                    yield session
                    continue
                try:
                    yield from _events(db, path, replace(session, observe=observe), last, bookmarks)
                except Unreadable as reason:
                    yield Skip(f"{path}:{session_id}", str(reason))
    except sqlite3.Error as error:
        yield Skip(str(path), f"cannot be read: {error}")
    except Unreadable as reason:
        yield Skip(str(path), str(reason))


def _session_of_row(path: Path, session_id: object, key: str, group: bool, owner: Scope) -> Session | Skip:
    """The session of a row, or why it is left out."""
    if not isinstance(session_id, str) or not valid_id(session_id):
        return Skip(str(path), "a session without an id that can be cited")
    if _UNATTENDED_KEY.search(key):
        return Skip(f"{path}:{session_id}", UNATTENDED)
    session = openclaw_session(session_id, path, owner)
    return replace(session, scope=replace(session.scope, audience=owner.audience)) if group else session


CHANGED = "changed while it was read; run it again"


@contextmanager
def _database(path: Path, connect: Connect) -> Iterator[sqlite3.Connection]:
    """Opens a database of another program read-only. Raises Unreadable, also if it changed while it was read.

    Where no program has it open (there is no write-ahead log), it is opened as immutable: otherwise SQLite would put
    files of its own next to it. SQLite opens by path and follows links, so what it opened is compared with the files
    that were reached without following one.
    """
    with opened(path) as file, open_folder(Path(path.anchor), path.parts[1:-1], PASS) as folder:
        header = file.read(20)
        if header[:16] != b"SQLite format 3\0":
            raise Unreadable("not an SQLite database")
        before = os.fstat(file.fileno())
        log = _at(folder, f"{path.name}-wal")
        quiet = log is None and _at(folder, f"{path.name}-journal") is None
        mode = "mode=ro&immutable=1" if quiet else "mode=ro"
        with closing(connect(f"file:{quote(str(path))}?{mode}", uri=True, timeout=2.0)) as db:
            db.execute("pragma query_only = on")
            columns = _columns(db, TABLE)
            expected = [before] if log is None or header[18:] != WAL_VERSIONS else [before, log]
            if not _opened_by_sqlite(expected, path, besides=file.fileno()):
                raise Unreadable(CHANGED)
            if not COLUMNS.issubset(columns):
                raise Unreadable(UNKNOWN_SCHEMA)
            yield db
        after, log = os.fstat(file.fileno()), _at(folder, f"{path.name}-wal")
    if quiet and (log is not None or (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns)):
        raise Unreadable(CHANGED)


def _at(folder: int, name: str) -> os.stat_result | None:
    """What is at a name in an open folder, not through a link; None if nothing is."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _opened_by_sqlite(wanted: Sequence[os.stat_result], path: Path, *, besides: int) -> bool:
    """Whether this process has these files open, by another descriptor than ``besides``.

    Where the system does not list descriptors, whether the first of them is at its path now.
    """
    numbers = {int(one.name) for one in DESCRIPTORS.iterdir()} if DESCRIPTORS.is_dir() else set()
    if besides not in numbers:
        return os.path.samestat(path.stat(), wanted[0])
    there = set()
    for number in numbers - {besides}:
        with suppress(OSError):  # closed meanwhile, as that of the listing is
            about = os.fstat(number)
            there.add((about.st_dev, about.st_ino))
    return there.issuperset((about.st_dev, about.st_ino) for about in wanted)


def _columns(db: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in db.execute(f"pragma table_info({table})")}


def _session_keys(db: sqlite3.Connection) -> dict[str, tuple[str, bool]]:
    """By session id: its key, which names its purpose, and whether it was held in a group."""
    for table in ("session_windows", "sessions"):
        columns = _columns(db, table)
        if {"session_id", "session_key"}.issubset(columns):
            chat = "chat_type" if "chat_type" in columns else "null"
            rows = db.execute(f"select session_id, session_key, {chat} from {table}").fetchall()
            return {session: (str(key), chat_type in ("group", "channel")) for session, key, chat_type in rows}
    return {}


def _sessions(db: sqlite3.Connection) -> list[tuple[Any, int]]:
    """Every session that has events, in rows or in a cold archive, with the number of its last event."""
    last = dict(db.execute(f"select session_id, max(seq) from {TABLE} group by session_id").fetchall())
    if "last_seq" in _columns(db, COLD):
        for session, seq in db.execute(f"select session_id, last_seq from {COLD}").fetchall():
            last[session] = max(last.get(session, -1), seq)
    return sorted(last.items(), key=lambda one: str(one[0]))


def _events(
    db: sqlite3.Connection, path: Path, session: Session, last: int, bookmarks: Bookmarks | None
) -> Iterator[NewMemory | Skip]:
    """The turns of one session since its bookmark."""
    name = f"{path}#{session.id}"
    mark = bookmarks.find(name) if bookmarks is not None else None
    cold = _cold_of(db, session.id)
    if bookmarks is None or mark is None or not _still_there(db, session.id, mark, cold):
        mark = Bookmark(0, -1, "")
    else:
        bookmarks.resume(mark)
    reader = Transcript(session, turns=mark.turns, unattended=mark.unattended)
    seq, memories = mark.offset, mark.memories
    proof, marked = mark.digest, seq
    for seq, text in _texts(db, path, session.id, mark.offset, last, cold):
        try:
            entry = orjson.loads(text or "null")
        except orjson.JSONDecodeError:
            entry = None
        item = reader.take(entry) if isinstance(entry, dict) else "an event that is not a JSON object"
        if isinstance(item, str):
            yield Skip(f"{path}:{session.id}:{seq}", item)
        elif item is not None:
            yield item
            memories += 1
        proof = digest((text or "").encode())
        if bookmarks is not None and (seq == last or seq - marked >= ROWS):
            marked = seq
            bookmarks.set(name, Bookmark(0, seq, proof, seq, reader.turns, reader.unattended, memories))
    if bookmarks is not None and seq != marked:
        bookmarks.set(name, Bookmark(0, seq, proof, seq, reader.turns, reader.unattended, memories))


def _texts(
    db: sqlite3.Connection, path: Path, session: str, after: int, last: int, cold: _ColdArchive | None
) -> Iterator[tuple[int, str | None]]:
    """The events of a session with their numbers, a cold archive's first; None for one that cannot be unpacked."""
    if cold is not None and after < cold.last:
        yield from cold.events(path, session)
        after = cold.last
    while after < last:
        rows = db.execute(
            f"select seq, {_event_columns(db)} from {TABLE} "
            "where session_id = ? and seq > ? and seq <= ? order by seq limit ?",
            (MAX_LINE_BYTES, MAX_LINE_BYTES, session, after, last, ROWS),
        ).fetchall()
        if not rows:
            return
        for after, plain, packed in rows:
            yield after, _text_of(plain, packed)


def _event_columns(db: sqlite3.Connection) -> str:
    """The SQL of an event's text and packed form. A version of OpenClaw has one of them; null if it is too long."""
    packed = "event_zstd" if "event_zstd" in _columns(db, TABLE) else "null"
    return f"case when length(event_json) <= ? then event_json end, case when length({packed}) <= ? then {packed} end"


def _text_of(plain: str | None, packed: bytes | None) -> str | None:
    if plain is not None or packed is None:
        return plain
    import zstandard

    try:
        return zstandard.ZstdDecompressor().decompress(packed, max_output_size=MAX_LINE_BYTES).decode()
    except (zstandard.ZstdError, UnicodeDecodeError):
        return None


def _still_there(db: sqlite3.Connection, session: str, mark: Bookmark, cold: _ColdArchive | None) -> bool:
    """Whether a session still has the event of its bookmark; one that was rewritten is read anew.

    A session whose bookmark lies inside a cold archive is read anew as well: its turns are recognised by their keys. An
    archive never changes, so a bookmark at its end holds.
    """
    if cold is not None and mark.offset <= cold.last:
        return mark.offset == cold.last
    row = db.execute(
        f"select {_event_columns(db)} from {TABLE} where session_id = ? and seq = ?",
        (MAX_LINE_BYTES, MAX_LINE_BYTES, session, mark.offset),
    ).fetchone()
    return row is not None and digest((_text_of(*row) or "").encode()) == mark.digest


@dataclass(frozen=True, slots=True)
class _ColdArchive:
    """The cold archive of a session that rested for long: its events up to number ``last``."""

    last: int
    name: str
    sha256: str
    blob: bytes | None

    def events(self, database_file: Path, session: str) -> Iterator[tuple[int, str | None]]:
        """The numbered events of the archive. Raises Unreadable where it is missing or not the expected one."""
        with self._open(database_file) as file:
            lines = iter(Lines(unpacked(file), 2 * MAX_LINE_BYTES, most=MAX_UNPACKED_BYTES))
            header = _object(next(lines, None))
            if header.get("version") != 1 or header.get("sessionId") != session:
                raise Unreadable(UNKNOWN_COLD)
            seq = -1
            for line in lines:
                found = _object(line)
                row = found.get("row") if found.get("kind") == "event" else None
                if isinstance(row, dict) and isinstance(row.get("seq"), int):
                    seq = row["seq"]
                    text = row.get("event_json")
                    yield seq, text if isinstance(text, str) else None
            if seq != self.last:
                raise Unreadable(UNKNOWN_COLD)

    @contextmanager
    def _open(self, database_file: Path) -> Iterator[BinaryIO]:
        if self.blob is not None:
            yield _verify(io.BytesIO(self.blob), self.sha256)
        elif Path(self.name).name != self.name:
            raise Unreadable(UNKNOWN_COLD)
        else:
            with opened(database_file.parent.parent / "sessions" / "cold" / self.name) as file:
                yield _verify(file, self.sha256)


def _object(line: bytes | None) -> dict[str, Any]:
    try:
        found = orjson.loads(line or b"null")
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _verify(file: BinaryIO, sha256: str) -> BinaryIO:
    """Checks an archive against its hash in the database, and rewinds it. Raises Unreadable."""
    data = file.read(MAX_COLD_BYTES + 1)
    if len(data) > MAX_COLD_BYTES:
        raise Unreadable(f"its archive is larger than {MAX_COLD_BYTES >> 20} MB")
    if hashlib.sha256(data).hexdigest() != sha256:
        raise Unreadable(UNKNOWN_COLD)
    file.seek(0)
    return file


def _cold_of(db: sqlite3.Connection, session: str) -> _ColdArchive | None:
    if not {"archive_name", "archive_sha256", "last_seq", "archive_blob"}.issubset(_columns(db, COLD)):
        return None
    row = db.execute(
        f"select last_seq, archive_name, archive_sha256, archive_blob from {COLD} where session_id = ?", (session,)
    ).fetchone()
    return _ColdArchive(*row) if row else None


def _archived(
    db: sqlite3.Connection, path: Path, owner: Scope, bookmarks: Bookmarks | None, observe: Observe | None
) -> Iterator[NewMemory | Skip]:
    """The turns of sessions that were deleted or reset, from the archives in the database, the oldest first."""
    wanted = ("session_id", "generation", "session_key", "encoding", "archive_sha256", "created_at", "archive_blob")
    if not set(wanted).issubset(_columns(db, ARCHIVES)):
        return
    rows = db.execute(f"select {', '.join(wanted[:5])} from {ARCHIVES} order by created_at, session_id, generation")
    for session_id, generation, key, encoding, sha256 in rows.fetchall():
        session = _session_of_row(path, session_id, str(key), is_group_key(str(key)), owner)
        name = f"{path}#{session_id}@{generation}"
        mark = bookmarks.find(name) if bookmarks is not None else None
        if isinstance(session, Skip):
            yield session
        elif bookmarks is not None and mark is not None and mark.digest == sha256:
            bookmarks.resume(mark)
        else:
            (blob,) = db.execute(
                f"select archive_blob from {ARCHIVES} where session_id = ? and generation = ?", (session_id, generation)
            ).fetchone()
            memories = 0
            try:
                file = _verify(io.BytesIO(blob), sha256)
                stream = unpacked(file) if encoding == "zstd" else file
                lines = Lines(stream, MAX_LINE_BYTES, most=MAX_UNPACKED_BYTES)
                for item, _ in turns_of(path, lines, replace(session, observe=observe), BEGINNING):
                    if item is not None:
                        memories += isinstance(item, NewMemory)
                        yield item
            except Unreadable as reason:
                yield Skip(f"{path}:{session_id}", str(reason))
            else:
                if bookmarks is not None:
                    bookmarks.set(name, Bookmark(0, 0, sha256, memories=memories))
