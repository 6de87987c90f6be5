"""Agents' sessions as memories: what a person and an assistant said, turn by turn, and nothing that programs wrote.

Read are Claude Code's transcripts (``~/.claude/projects/<slug>/<session>.jsonl``) and OpenClaw's, which are below
``~/.openclaw/agents/<id>``: ``sessions/*.jsonl``, the archives beside them, and ``agent/openclaw-agent.sqlite`` with
what it keeps packed, cold (``sessions/cold``) or archived.

A session is a document; its turns are counted from 0 in the order of the file, whether they are kept or not, so that a
turn has its place for good as the file grows. Source, place and the entry's own id are its natural key: the same turn
from a file, its archive, a database or a hook is one memory. Sessions are private: no group reads them, but for those
that a database says were held in a group.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal
from urllib.parse import quote

import orjson

from fusion.contract import Moment, Origin, Place, Scope
from fusion.ingest.intake import NewMemory, not_one_line
from fusion.lib.envelope import UNATTENDED, Speaker, said
from fusion.lib.moment import moment
from fusion.sources.files import (
    MAX_UNPACKED_BYTES,
    Lines,
    Progress,
    Skip,
    Unreadable,
    form_of,
    is_json,
    is_packed,
    opened,
    unpacked,
)
from fusion.sources.offsets import ReadOffset, ReadOffsets, begins_so, digest, is_untouched, up_to, whole
from fusion.sources.split import in_pieces

Agent = Literal["claude-code", "openclaw"]

MAX_LINE_BYTES = 16 << 20
"""of a transcript: a turn may come with pictures; what is longer is no talk"""
HEAD_LINES = 50
"""in which a transcript shows whose it is"""
HEAD_BYTES = 1 << 20
MARK_EVERY = 500
"""turns between two bookmarks"""
MAX_ID_CHARS = 256
BEGINNING = ReadOffset(0, 0, "")


@dataclass(frozen=True, slots=True)
class Session:
    """Which conversation a transcript is, and whose its turns are."""

    agent: Agent
    id: str
    scope: Scope

    @property
    def source(self) -> str:
        return ":".join(filter(None, [self.agent, self._agent_id, self.id]))

    @property
    def document(self) -> str:
        return "/".join(filter(None, [self.agent, self._agent_id, self.id]))

    @property
    def _agent_id(self) -> str | None:
        return self.scope.agent_id if self.agent == "openclaw" else None


class Transcript:
    """Makes memories of a session's entries, which are handed in one by one in their order.

    ``turns`` counts those so far; ``unattended`` says that no person wrote the last prompt. To go on where an earlier
    reading stopped, hand these two in.
    """

    def __init__(self, session: Session, *, turns: int = 0, unattended: bool = False) -> None:
        self.session = session
        self.turns = turns
        self.unattended = unattended

    def take(self, entry: Mapping[str, Any]) -> NewMemory | str | None:
        """The memory that an entry is, or why a turn is not kept. None: it is no turn, or has nothing to tell of."""
        turn = _claude_code(entry) if self.session.agent == "claude-code" else _openclaw(entry)
        if turn is None:
            return None
        position = self.turns
        self.turns += 1
        found = said(turn.text.replace("\0", ""), turn.speaker)
        if turn.speaker == "user":
            self.unattended = found.unattended or turn.unattended
        if self.unattended:
            return UNATTENDED
        if not found.text:
            return found.reason or None
        return NewMemory(
            text=found.text,
            scope=self.session.scope,
            kind="turn",
            speaker=turn.speaker,
            at=turn.at,
            place=Place(self.session.document, position, position),
            source=self.session.source,
            revision=turn.id,
            origin=self._origin(turn.speaker),
        )

    def _origin(self, speaker: Speaker) -> Origin:
        if speaker == "assistant":
            return "agent"
        return "owner" if self.session.scope.audience == "private" else "import"  # in a group anybody may speak


def read_session(
    path: Path, scope: Scope, *, bookmarks: ReadOffsets | None = None, progress: Progress = lambda count: None
) -> Iterator[NewMemory | Skip]:
    """The turns of one transcript; with ``bookmarks``, those since the last time. Never raises for what it finds.

    A turn that is too long for one memory comes in pieces.
    """
    if form_of(path, named=True) == "database":
        yield from in_pieces(database(path, scope, bookmarks))
    elif session := session_of(path, scope):
        yield from in_pieces(transcript(path, session, bookmarks, progress))
    else:
        yield Skip(str(path), "no session that is known")


# Entries ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Turn:
    """One thing that was said, as its transcript has it."""

    id: str
    speaker: Speaker
    text: str
    at: Moment | None
    unattended: bool = False


_HIDDEN = ("isSidechain", "isMeta", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")


def _claude_code(entry: Mapping[str, Any]) -> _Turn | None:
    message = entry.get("message")
    speaker = entry.get("type")
    if not isinstance(message, dict) or speaker not in ("user", "assistant") or any(map(entry.get, _HIDDEN)):
        return None
    if message.get("model") == "<synthetic>":  # "No response requested.", limits, errors
        return None
    text = _text(message.get("content"))
    return _Turn(_id(entry.get("uuid")), speaker, text, _when(entry.get("timestamp"))) if text.strip() else None


_PROGRAMS = ("inter_session", "internal_system")
_ECHOES = ("delivery-mirror", "gateway-injected")
"""models by whose name OpenClaw writes down again what it delivered"""


def _openclaw(entry: Mapping[str, Any]) -> _Turn | None:
    message = entry.get("message")
    if entry.get("type") != "message" or not isinstance(message, dict):
        return None
    speaker = message.get("role")
    if speaker not in ("user", "assistant") or message.get("model") in _ECHOES or message.get("stopReason") == "error":
        return None
    text = _text(message.get("content"))
    if not text.strip():
        return None
    at = _when(entry.get("timestamp")) or _when(message.get("timestamp"))
    provenance = message.get("provenance")
    by_program = isinstance(provenance, dict) and provenance.get("kind") in _PROGRAMS
    return _Turn(_id(entry.get("id")), speaker, text, at, by_program)


def _text(content: object) -> str:
    """What is text in a message: never what a tool was told or said, nor what a model thought."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (block.get("text") for block in content if isinstance(block, dict) and block.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str))


def _id(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= MAX_ID_CHARS and not not_one_line(value) else ""


def _when(value: object) -> Moment | None:
    """A time as transcripts write it: ISO 8601, or milliseconds since 1970."""
    try:
        if isinstance(value, str):
            return moment(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return Moment(datetime.fromtimestamp(value / 1000, UTC))
    except (ValueError, OverflowError, OSError):
        return None
    return None


# Transcripts ------------------------------------------------------------------------------------------------------

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_AGENT = re.compile(r"/agents/([^/]+)/(?:sessions|agent)/[^/]+$")


def session_of(path: Path, whose: Scope) -> Session | None:
    """Whose transcript a file is, by what its first lines say; None: no agent's that is known, or not to be read."""
    try:
        with opened(path) as file:
            stream = unpacked(file) if is_packed(file) else file
            head = list(islice(_objects(Lines(stream, HEAD_BYTES, most=HEAD_BYTES)), HEAD_LINES))
    except Unreadable:
        return None  # whoever reads it next says why
    return _recognised(head, path, whose)


def _objects(lines: Lines) -> Iterator[Mapping[str, Any]]:
    """The objects among lines, until there are too many bytes of them."""
    try:
        for line in lines:
            try:
                found = orjson.loads(line or b"null")
            except orjson.JSONDecodeError:
                found = None
            if isinstance(found, dict):
                yield found
    except Unreadable:
        return


def _recognised(head: Iterable[Mapping[str, Any]], path: Path, whose: Scope) -> Session | None:
    head = list(head)
    for entry in head:
        kind = entry.get("type")
        if kind == "session" and isinstance(entry.get("id"), str):
            return _openclaw_session(_name(path, entry["id"]), path, whose)
        if kind == "message" and isinstance(entry.get("message"), dict) and "role" in entry["message"]:
            return _openclaw_session(_name(path, None), path, whose)
        if (
            (kind in ("user", "assistant") and isinstance(entry.get("message"), dict) and "sessionId" in entry)
            or (kind == "summary" and "leafUuid" in entry)
            or (kind == "file-history-snapshot" and "messageId" in entry)
        ):
            named = next((e["sessionId"] for e in head if isinstance(e.get("sessionId"), str)), None)
            folder = next((e["cwd"] for e in head if isinstance(e.get("cwd"), str)), None)
            session = _name(path, named)
            return Session(
                "claude-code",
                session,
                replace(whose, session_id=session, project=project_of(folder) or whose.project, audience="private"),
            )
    return None


def _openclaw_session(session: str, path: Path, whose: Scope) -> Session:
    agent = _AGENT.search(path.as_posix())
    agent_id = (_id(agent[1]) if agent else "") or whose.agent_id
    return Session("openclaw", session, replace(whose, agent_id=agent_id, session_id=session, audience="private"))


def _name(path: Path, named: str | None) -> str:
    """A session's id. A file is named after it; a fork begins with the lines, and so the ids, of another session."""
    stem = path.name.partition(".jsonl")[0]
    return stem if _UUID.search(stem) else _id(named) or stem


def project_of(folder: str | None) -> str | None:
    """The project that a working directory is: its name."""
    name = Path(folder).name if folder else ""
    return _id(name) or None


def transcript(
    path: Path, session: Session, bookmarks: ReadOffsets | None, progress: Progress
) -> Iterator[NewMemory | Skip]:
    """The turns of a file, or of an archive, since the last time. What is written meanwhile is for the next run."""
    try:
        with opened(path) as file:
            mark = bookmarks.find(str(path)) if bookmarks is not None else None
            if is_packed(file):
                yield from _archive(path, file, session, bookmarks, mark)
                progress(path.stat().st_size)
                return
            if bookmarks is None or mark is None or not begins_so(mark, file.fileno()):
                mark = BEGINNING
            else:
                bookmarks.resumed(mark)
            progress(file.seek(mark.offset))
            lines = Lines(file, MAX_LINE_BYTES, progress, offset=mark.offset, number=mark.lines)
            for item, before in _turns(path, lines, session, mark):
                if bookmarks is not None and before is not None:
                    found = up_to(file.fileno(), before.offset)
                    bookmarks.reached(str(path), replace(before, inode=found.inode, digest=found.digest))
                if item is not None:
                    yield item
    except Unreadable as reason:
        yield Skip(str(path), str(reason))


def _archive(
    path: Path, file: BinaryIO, session: Session, bookmarks: ReadOffsets | None, mark: ReadOffset | None
) -> Iterator[NewMemory | Skip]:
    if bookmarks is not None and mark is not None and is_untouched(mark, os.fstat(file.fileno())):
        bookmarks.resumed(mark)
        return
    memories = 0
    for item, before in _turns(
        path, Lines(unpacked(file), MAX_LINE_BYTES, most=MAX_UNPACKED_BYTES), session, BEGINNING
    ):
        memories = before.memories if before is not None else memories
        if item is not None:
            yield item
    if bookmarks is not None:
        bookmarks.reached(str(path), whole(os.fstat(file.fileno()), memories))


def _turns(
    path: Path, lines: Lines, session: Session, since: ReadOffset
) -> Iterator[tuple[NewMemory | Skip | None, ReadOffset | None]]:
    """What the lines of a transcript say, and now and then, and at the end, how far that was: before the item."""
    reader = Transcript(session, turns=since.turns, unattended=since.unattended)
    memories = since.memories
    marked = since.turns
    here = since
    for line in lines:
        if line is None:
            yield Skip(f"{path}:{lines.number}", f"longer than {MAX_LINE_BYTES >> 20} MB"), None
            continue
        whole_line = line.endswith(b"\n")
        if not line.strip() or (not whole_line and not is_json(line)):  # it is being written
            continue
        try:
            entry = orjson.loads(line)
        except orjson.JSONDecodeError:
            yield Skip(f"{path}:{lines.number}", "not a line of JSON"), None
            continue
        taken = reader.take(entry) if isinstance(entry, dict) else None
        item = Skip(f"{path}:{lines.number + (not whole_line)}", taken) if isinstance(taken, str) else taken
        due = reader.turns >= marked + MARK_EVERY
        if item is not None:
            yield item, here if due else None
        if due:
            marked = reader.turns
        if whole_line:
            memories += isinstance(item, NewMemory)
            here = replace(
                since,
                offset=lines.offset,
                lines=lines.number,
                turns=reader.turns,
                unattended=reader.unattended,
                memories=memories,
            )
    yield None, here


# OpenClaw's database ----------------------------------------------------------------------------------------------

TABLE = "transcript_events"
ARCHIVES = "session_transcript_archives"
COLD = "session_transcript_cold_archives"
COLUMNS = frozenset({"session_id", "seq", "event_json"})
ROWS = 200
"""a query's at most: between two, OpenClaw may write"""
MAX_COLD_BYTES = 1 << 26
"""of a packed archive in the database or beside it"""
UNKNOWN_SCHEMA = "its tables are none that are known of OpenClaw: no transcript_events with session_id, seq, event_json"
UNKNOWN_COLD = "its cold archive is not what the database says of it"
_UNATTENDED_KEY = re.compile(r":(?:cron|subagent|heartbeat|hook|acp)(?::|$)")
_GROUP_KEY = re.compile(r":(?:group|channel):")


def database(path: Path, whose: Scope, bookmarks: ReadOffsets | None = None) -> Iterator[NewMemory | Skip]:
    """The turns in an OpenClaw agent's database since the last time. It is opened to read, and never written.

    A session's events stand in rows, packed or not; those of one that rested for long in a cold archive, in the
    database or beside it; those of one that was deleted or reset in an archive of their own, which comes first here,
    so that what is current is read last.
    """
    try:
        with _database(path) as db:
            windows = _windows(db)
            yield from _archived(db, path, whose, bookmarks)
            for session_id, last in _sessions(db):
                key, group = windows.get(session_id, ("", False))
                session = _meant(path, session_id, key, group, whose)
                if isinstance(session, Skip):
                    yield session
                    continue
                try:
                    yield from _events(db, path, session, last, bookmarks)
                except Unreadable as reason:
                    yield Skip(f"{path}:{session_id}", str(reason))
    except sqlite3.Error as error:
        yield Skip(str(path), f"cannot be read: {error}")
    except Unreadable as reason:
        yield Skip(str(path), str(reason))


def _meant(path: Path, session_id: object, key: str, group: bool, whose: Scope) -> Session | Skip:
    """Whose session it is, or why it is left out."""
    if not isinstance(session_id, str) or not _id(session_id):
        return Skip(str(path), "a session without an id that can be cited")
    if _UNATTENDED_KEY.search(key):
        return Skip(f"{path}:{session_id}", UNATTENDED)
    session = _openclaw_session(session_id, path, whose)
    return replace(session, scope=replace(session.scope, audience=whose.audience)) if group else session


@contextmanager
def _database(path: Path) -> Iterator[sqlite3.Connection]:
    """A database of somebody else's, open to read.

    Where nobody has it open (there is no write-ahead log), it is taken as it stands: opened otherwise, SQLite would put
    files of its own beside it. Should its owner come meanwhile, what was read may be torn, and that is told.
    """
    with opened(path) as file:
        begins = file.read(16)
    if begins != b"SQLite format 3\0":
        raise Unreadable("not an SQLite database")
    log = path.with_name(path.name + "-wal")
    before = path.stat()
    quiet = not log.exists() and not path.with_name(path.name + "-journal").exists()
    mode = "mode=ro&immutable=1" if quiet else "mode=ro"
    with closing(sqlite3.connect(f"file:{quote(str(path))}?{mode}", uri=True, timeout=2.0)) as db:
        db.execute("pragma query_only = on")
        if not COLUMNS.issubset(_columns(db, TABLE)):
            raise Unreadable(UNKNOWN_SCHEMA)
        yield db
    after = path.stat()
    if quiet and (log.exists() or (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns)):
        raise Unreadable("changed while it was read; run it again")


def _columns(db: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in db.execute(f"pragma table_info({table})")}


def _windows(db: sqlite3.Connection) -> dict[str, tuple[str, bool]]:
    """By session: its key, which says what it is for, and whether it was held in a group."""
    for table in ("session_windows", "sessions"):
        columns = _columns(db, table)
        if {"session_id", "session_key"}.issubset(columns):
            chat = "chat_type" if "chat_type" in columns else "null"
            rows = db.execute(f"select session_id, session_key, {chat} from {table}").fetchall()
            return {session: (str(key), chat_type in ("group", "channel")) for session, key, chat_type in rows}
    return {}


def _sessions(db: sqlite3.Connection) -> list[tuple[Any, int]]:
    """Every session that has events, in rows or cold, with the number of its last one."""
    last = dict(db.execute(f"select session_id, max(seq) from {TABLE} group by session_id").fetchall())
    if "last_seq" in _columns(db, COLD):
        for session, seq in db.execute(f"select session_id, last_seq from {COLD}").fetchall():
            last[session] = max(last.get(session, -1), seq)
    return sorted(last.items(), key=lambda one: str(one[0]))


def _events(
    db: sqlite3.Connection, path: Path, session: Session, last: int, bookmarks: ReadOffsets | None
) -> Iterator[NewMemory | Skip]:
    name = f"{path}#{session.id}"
    mark = bookmarks.find(name) if bookmarks is not None else None
    cold = _cold_of(db, session.id)
    if bookmarks is None or mark is None or not _still_there(db, session.id, mark, cold):
        mark = ReadOffset(0, -1, "")
    else:
        bookmarks.resumed(mark)
    reader = Transcript(session, turns=mark.turns, unattended=mark.unattended)
    seq, memories = mark.offset, mark.memories
    proof, marked = mark.digest, seq
    for seq, text in _texts(db, path, session.id, mark.offset, last, cold):
        try:
            entry = orjson.loads(text or "null")
        except orjson.JSONDecodeError:
            entry = None
        item = reader.take(entry) if isinstance(entry, dict) else "an event that makes no sense"
        if isinstance(item, str):
            yield Skip(f"{path}:{session.id}:{seq}", item)
        elif item is not None:
            yield item
            memories += 1
        proof = digest((text or "").encode())
        if bookmarks is not None and (seq == last or seq - marked >= ROWS):
            marked = seq
            bookmarks.reached(name, ReadOffset(0, seq, proof, seq, reader.turns, reader.unattended, memories))
    if bookmarks is not None and seq != marked:
        bookmarks.reached(name, ReadOffset(0, seq, proof, seq, reader.turns, reader.unattended, memories))


def _texts(
    db: sqlite3.Connection, path: Path, session: str, after: int, last: int, cold: _Cold | None
) -> Iterator[tuple[int, str | None]]:
    """The events of a session with their numbers, those that lie cold first; None for one that cannot be unpacked."""
    if cold is not None and after < cold.last:
        yield from cold.events(path, session)
        after = cold.last
    while after < last:
        rows = db.execute(
            f"select seq, {_packed(db)} from {TABLE} "
            "where session_id = ? and seq > ? and seq <= ? order by seq limit ?",
            (MAX_LINE_BYTES, MAX_LINE_BYTES, session, after, last, ROWS),
        ).fetchall()
        if not rows:
            return
        for after, plain, packed in rows:
            yield after, _text_of(plain, packed)


def _packed(db: sqlite3.Connection) -> str:
    """An event's text and its packed form, one of which newer versions of OpenClaw have; None where it is too long."""
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


def _still_there(db: sqlite3.Connection, session: str, mark: ReadOffset, cold: _Cold | None) -> bool:
    """Whether a session still has the event that was the last one; rewritten, it is read anew.

    What was read before the whole of it went cold is read anew as well, unless it was all of that: an archive is
    never changed, and the turns are known by their keys.
    """
    if cold is not None and mark.offset <= cold.last:
        return mark.offset == cold.last
    row = db.execute(
        f"select {_packed(db)} from {TABLE} where session_id = ? and seq = ?",
        (MAX_LINE_BYTES, MAX_LINE_BYTES, session, mark.offset),
    ).fetchone()
    return row is not None and digest((_text_of(*row) or "").encode()) == mark.digest


@dataclass(frozen=True, slots=True)
class _Cold:
    """Where the events of a session lie that rested for long, up to number ``last``."""

    last: int
    name: str
    sha256: str
    blob: bytes | None

    def events(self, database_file: Path, session: str) -> Iterator[tuple[int, str | None]]:
        """Raises Unreadable where the archive is gone or another one."""
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
            yield _verified(io.BytesIO(self.blob), self.sha256)
        elif Path(self.name).name != self.name:
            raise Unreadable(UNKNOWN_COLD)
        else:
            with opened(database_file.parent.parent / "sessions" / "cold" / self.name) as file:
                yield _verified(file, self.sha256)


def _object(line: bytes | None) -> dict[str, Any]:
    try:
        found = orjson.loads(line or b"null")
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _verified(file: BinaryIO, sha256: str) -> BinaryIO:
    """A packed file, at its beginning, which must be the one that the database means. Raises Unreadable."""
    data = file.read(MAX_COLD_BYTES + 1)
    if len(data) > MAX_COLD_BYTES:
        raise Unreadable(f"its archive is larger than {MAX_COLD_BYTES >> 20} MB")
    if hashlib.sha256(data).hexdigest() != sha256:
        raise Unreadable(UNKNOWN_COLD)
    file.seek(0)
    return file


def _cold_of(db: sqlite3.Connection, session: str) -> _Cold | None:
    if not {"archive_name", "archive_sha256", "last_seq", "archive_blob"}.issubset(_columns(db, COLD)):
        return None
    row = db.execute(
        f"select last_seq, archive_name, archive_sha256, archive_blob from {COLD} where session_id = ?", (session,)
    ).fetchone()
    return _Cold(*row) if row else None


def _archived(
    db: sqlite3.Connection, path: Path, whose: Scope, bookmarks: ReadOffsets | None
) -> Iterator[NewMemory | Skip]:
    """The turns of sessions that were deleted or reset, as the database keeps them: the oldest first."""
    wanted = ("session_id", "generation", "session_key", "encoding", "archive_sha256", "created_at", "archive_blob")
    if not set(wanted).issubset(_columns(db, ARCHIVES)):
        return
    rows = db.execute(f"select {', '.join(wanted[:5])} from {ARCHIVES} order by created_at, session_id, generation")
    for session_id, generation, key, encoding, sha256 in rows.fetchall():
        session = _meant(path, session_id, str(key), bool(_GROUP_KEY.search(str(key))), whose)
        name = f"{path}#{session_id}@{generation}"
        mark = bookmarks.find(name) if bookmarks is not None else None
        if isinstance(session, Skip):
            yield session
        elif bookmarks is not None and mark is not None and mark.digest == sha256:
            bookmarks.resumed(mark)
        else:
            (blob,) = db.execute(
                f"select archive_blob from {ARCHIVES} where session_id = ? and generation = ?", (session_id, generation)
            ).fetchone()
            memories = 0
            try:
                file = _verified(io.BytesIO(blob), sha256)
                stream = unpacked(file) if encoding == "zstd" else file
                lines = Lines(stream, MAX_LINE_BYTES, most=MAX_UNPACKED_BYTES)
                for item, _ in _turns(path, lines, session, BEGINNING):
                    if item is not None:
                        memories += isinstance(item, NewMemory)
                        yield item
            except Unreadable as reason:
                yield Skip(f"{path}:{session_id}", str(reason))
            else:
                if bookmarks is not None:
                    bookmarks.reached(name, ReadOffset(0, 0, sha256, memories=memories))
