"""The gateway's own folder of notes: remembered events as Markdown that a person can read and edit.

One file for each day, or each document (a session). An entry has every field of its event, so the files alone can
restore everything::

    <!-- memory {"event_id":"0192…","lines":1,"recorded_at":"2026-03-04T09:12:00+00:00"} -->
    ## 2026-03-04 09:12 UTC · Marta

    We chose PostgreSQL for the orders service.
    <!-- /memory -->

The heading is for readers; the text is everything from the blank line below it to the end marker. A line of the text
that looks like a marker gets a backslash in front. ``lines`` is the text's number of lines: it distinguishes an entry
that a crash truncated from an edited one. Between entries a person may write anything.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any

from adapters.markdown.files import Signature, signature
from adapters.markdown.log import append_lines, named, write_all
from fusion.contract import KINDS, Event, Moment, Place, Precision, Scope
from fusion.lib.walk import Unlisted, open_parent, walk

SESSIONS = "sessions"

_BEGIN = "<!-- memory "
_CLOSE = " -->"
_END = "<!-- /memory -->"
_MARKER = re.compile(r"\\*<!-- /?memory\b")
_NEW = ".new"
_ESCAPED = re.compile(r"\\+<!-- /?memory\b")


@dataclass(frozen=True, slots=True)
class Note:
    """An entry of a file, on lines ``start`` to ``end``, from 1, both included."""

    event: Event
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Page:
    """A parsed file. ``rest`` is the text outside of entries, on its original lines; ``unread`` are the lines of
    invalid markers; ``torn`` is the line where a half-written entry begins."""

    notes: tuple[Note, ...]
    rest: str
    unread: tuple[int, ...] = ()
    torn: int | None = None


def file_of(event: Event) -> str:
    """The file for an event: its session's, or that of its day in UTC."""
    if event.place is None:
        return f"{(event.at.utc if event.at else event.recorded_at).date().isoformat()}.md"
    scope, document = event.scope, event.place.document
    # Two people may both have a "session 1", so the name includes the owner.
    whose = "\0".join([document, scope.tenant, *(v or "" for v in (scope.user_id, scope.agent_id, scope.run_id))])
    slug = re.sub(r"[^\w.-]+", "-", document).strip("-.")[:40]
    return f"{SESSIONS}/{slug or 'session'}-{blake2b(whose.encode('utf-8', 'replace'), digest_size=5).hexdigest()}.md"


def write(event: Event) -> str:
    """The entry of an event, with the blank line that follows it; what UTF-8 cannot hold becomes ``?``."""
    body = [f"\\{line}" if _MARKER.match(line) else line for line in event.text.split("\n")]
    when = f"{event.at.utc if event.at else event.recorded_at:%Y-%m-%d %H:%M} UTC"
    if event.at and event.at.precision in ("day", "month", "year"):
        when = {"day": when[:10], "month": when[:7], "year": when[:4]}[event.at.precision]
    who = " ".join((event.speaker or "").split())
    marker = _BEGIN + _metadata(event, len(body)) + _CLOSE
    heading = f"## {when} · {who}" if who else f"## {when}"
    entry = "\n".join([marker, heading, "", *body, _END, "", ""])
    return entry.encode("utf-8", "replace").decode()


def parse(text: str) -> Page:
    """Parse a file into its entries and the text between them."""
    lines = text.split("\n")
    rest = list(lines)
    notes: list[Note] = []
    unread: list[int] = []
    torn: int | None = None
    i = 0
    while i < len(lines):
        if not lines[i].startswith(_BEGIN):
            if i == len(lines) - 1 and lines[i] and _BEGIN.startswith(lines[i]):
                torn, rest[i] = i + 1, ""
            i += 1
            continue
        stop, past = _ending(lines, i)
        raw = _head(lines[i])
        whole = stop < past
        if past == len(lines) and not whole and _cut_short(lines, i, raw):
            torn = i + 1
        else:
            event = _event(raw, _body(lines, i, stop, whole, raw)) if raw is not None else None
            if event is None:
                unread.append(i + 1)
            else:
                notes.append(Note(event, i + 1, past))
        rest[i:past] = [""] * (past - i)
        i = past
    return Page(tuple(notes), "\n".join(rest), tuple(unread), torn)


def _ending(lines: Sequence[str], begin: int) -> tuple[int, int]:
    """The line after an entry's text, and the line after its end marker. Without a marker both are the next entry's
    first line, or the file's end."""
    for n in range(begin + 1, len(lines)):
        if lines[n].rstrip("\r") == _END:
            return n, n + 1
        if lines[n].startswith(_BEGIN):
            return n, n
    return len(lines), len(lines)


def _cut_short(lines: Sequence[str], begin: int, raw: Mapping[str, Any] | None) -> bool:
    """Whether an entry without end marker, at the end of the file, was only partly written."""
    complete = len(lines) - 1 - (begin + 3)  # lines of text that have their line end, below marker, heading and blank
    return raw is None or bool(lines[-1]) or complete < _announced(raw)


def _announced(raw: Mapping[str, Any]) -> int:
    count = raw.get("lines")
    return count if isinstance(count, int) else 0


def _head(line: str) -> dict[str, Any] | None:
    marker = line.rstrip("\r")
    if not marker.endswith(_CLOSE):
        return None
    try:
        raw = json.loads(marker[len(_BEGIN) : -len(_CLOSE)])
    except json.JSONDecodeError:
        return None
    return raw if isinstance(raw, dict) else None


def _body(lines: Sequence[str], begin: int, stop: int, whole: bool, raw: Mapping[str, Any]) -> str:
    body = list(lines[begin + 1 : stop])
    if lines[begin].endswith("\r"):  # an editor has turned the whole file into CRLF
        body = [line.removesuffix("\r") for line in body]
    if body and body[0].startswith("## "):
        del body[: 2 if len(body) > 1 and not body[1] else 1]
    while not whole and len(body) > _announced(raw) and not body[-1]:
        body.pop()  # blank lines between entries, where no marker tells them from the text's own
    return "\n".join(line[1:] if _ESCAPED.match(line) else line for line in body)


def _metadata(event: Event, lines: int) -> str:
    """The fields of an event without its text, as one line of JSON without ``>``, for an HTML comment."""
    plain = Event(event_id="", text="", recorded_at=event.recorded_at)
    known: dict[str, Any] = {"event_id": event.event_id, "lines": lines, "recorded_at": event.recorded_at.isoformat()}
    for field in fields(Event):
        value = getattr(event, field.name)
        if field.name not in ("text", *known) and value != getattr(plain, field.name):
            known[field.name] = _plain(value)
    return json.dumps(known, ensure_ascii=False, separators=(",", ":")).replace(">", "\\u003e")


def _plain(value: object) -> object:
    match value:
        case Scope():
            return {f.name: v for f in fields(Scope) if (v := getattr(value, f.name)) != getattr(Scope(), f.name)}
        case Moment():
            until = {} if value.until is None else {"until": value.until.isoformat()}
            return {"utc": value.utc.isoformat(), "precision": value.precision, "zone": value.zone, **until}
        case Place():
            return {f.name: getattr(value, f.name) for f in fields(Place)}
        case datetime():
            return value.isoformat()
        case tuple():
            return list(value)
    return value


def _event(raw: Mapping[str, Any], text: str) -> Event | None:
    """The event of an entry; ``None`` if its metadata is invalid."""
    try:
        given = decoded({f.name: raw[f.name] for f in fields(Event) if f.name in raw and f.name != "text"})
        sound = isinstance(given["event_id"], str) and given["event_id"] and given.get("kind", "note") in KINDS
        return Event(text=text, **given) if sound else None
    except (KeyError, TypeError, ValueError):
        return None


def _time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(f"{text} has no zone")
    return time


def _moment(utc: str, precision: Precision, zone: str | None, until: str | None = None) -> Moment:
    return Moment(_time(utc), precision, zone, None if until is None else _time(until))


_DECODERS: Mapping[str, Callable[[Any], object]] = {
    **dict.fromkeys(("recorded_at", "valid_from", "valid_to"), _time),
    **dict.fromkeys(("derived_from", "path"), tuple),
    "scope": lambda value: Scope(**value),
    "at": lambda value: _moment(**value),
    "place": lambda value: Place(**value),
    "properties": lambda value: tuple((name, text) for name, text in value),
}


def decoded(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an event or a hit from their JSON. Raises KeyError, TypeError or ValueError for an invalid one."""
    return {name: _DECODERS[name](value) if name in _DECODERS else value for name, value in given.items()}


@dataclass(frozen=True, slots=True)
class Appended:
    """``before`` is ``None`` for a file that did not exist."""

    before: Signature | None
    after: Signature


class Notes:
    """The writer of the folder: one at a time, also between processes; durable when a method returns."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepare(self, whole: Mapping[str, Signature | None] = MappingProxyType({})) -> None:
        """Create the folder if needed, and remove partial writes of a crash.

        Files that are as they were when they were ``whole``, by path, are not read.
        """
        with self._locked():
            for entry in walk(self.folder, _all_of_it):
                if isinstance(entry, Unlisted):
                    continue
                name = entry.path.rpartition("/")[2]
                if name.startswith(".") and name.endswith(_NEW):
                    (self.folder / entry.path).unlink()
                elif _is_note(entry.listed) and whole.get(entry.path) != _state(entry.listed):
                    _cut_torn(self.folder / entry.path)

    def append(self, path: str, entries: str) -> Appended:
        """Append entries to a file: all of them, or none and an error."""
        data = entries.encode()
        with self._locked(), open_parent(self.folder, path) as (folder, name):
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
            fd = os.open(name, flags, mode=0o600, dir_fd=folder)
            try:
                about = os.fstat(fd)
                append_lines(fd, data, folder)
                return Appended(signature(about) if about.st_size else None, signature(os.fstat(fd)))
            finally:
                os.close(fd)

    def remove(self, path: str, event_ids: Collection[str]) -> bool:
        """Remove events' entries from a file, and an empty file with them. Returns False if there were none."""
        with self._locked(), open_parent(self.folder, path) as (folder, name):
            try:
                fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
            except FileNotFoundError:
                return False
            with os.fdopen(fd, "rb") as file:
                text = file.read().decode("utf-8", "surrogateescape")
            lines = text.split("\n")
            to_drop = [note for note in parse(text).notes if note.event.event_id in event_ids]
            for note in reversed(to_drop):
                blank = note.end < len(lines) - 1 and not lines[note.end].strip()
                del lines[note.start - 1 : note.end + blank]
            if not to_drop:
                return False
            left = "\n".join(lines)
            if left.strip():
                _replace(folder, name, left.encode("utf-8", "surrogateescape"))
            else:
                os.unlink(name, dir_fd=folder)
                os.fsync(folder)
            return True

    def events(self) -> dict[str, list[Event]]:
        """Every readable event, by file."""
        found: dict[str, list[Event]] = {}
        for folder in (self.folder, self.folder / SESSIONS):
            for file in sorted(folder.glob("*.md")):
                if file.is_symlink():
                    continue
                with suppress(OSError):
                    text = file.read_bytes().decode("utf-8", "surrogateescape")
                    found[file.relative_to(self.folder).as_posix()] = [note.event for note in parse(text).notes]
        return found

    @contextmanager
    def _locked(self) -> Iterator[None]:
        for folder in (self.folder, self.folder / SESSIONS):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self.folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)


def _all_of_it(path: str, is_folder: bool) -> bool:
    """Ignores nothing."""
    return False


def _is_note(listed: os.DirEntry[str]) -> bool:
    return listed.name.endswith(".md") and listed.is_file(follow_symlinks=False)


def _state(listed: os.DirEntry[str]) -> Signature:
    return signature(listed.stat(follow_symlinks=False))


def _cut_torn(path: Path) -> None:
    """Cut off a half-written last entry."""
    if (torn := _torn_at(path.read_bytes())) is not None:
        with path.open("r+b") as file:
            file.truncate(torn)
            os.fsync(file.fileno())


def _torn_at(data: bytes) -> int | None:
    """The byte at which a half-written last entry begins."""
    # Only the last entry can be torn. Its beginning is the last marker, or a part of one in the last line.
    begin = data.rfind(b"\n" + _BEGIN.encode()) + 1
    if not begin and not data.startswith(_BEGIN.encode()):
        begin = data.rfind(b"\n") + 1
    text = data[begin:].decode("utf-8", "surrogateescape")
    torn = parse(text).torn
    if torn is None:
        return None
    return begin + len("\n".join([*text.split("\n")[: torn - 1], ""]).encode("utf-8", "surrogateescape"))


def _replace(folder: int, name: str, data: bytes) -> None:
    """Replace a file's content atomically."""
    temporary = f".{blake2b(name.encode(), digest_size=8).hexdigest()}{_NEW}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    fd = os.open(temporary, flags, mode=0o600, dir_fd=folder)
    try:
        write_all(fd, data)
        os.fsync(fd)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError as error:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise named(error) from error
    finally:
        os.close(fd)
    os.fsync(folder)
