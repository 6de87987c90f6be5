"""Files as memories: Markdown in its sections, JSONL line by line. What cannot be read is skipped, with its reason.

Lazy: one Markdown file, or one line of JSONL, is in memory at a time. Every memory has a natural key (its source, its
place and its revision), so that to read the same files again remembers nothing twice.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from fusion.contract import DIMENSIONS, KINDS, Kind, Moment, Place, Precision, Scope, Unit
from fusion.ingest.intake import MAX_TEXT_CHARS, NewMemory, not_one_line
from fusion.lib.chunk import chunks
from fusion.lib.clean import clean
from fusion.lib.front_matter import front_matter
from fusion.lib.words import content_hash

MARKDOWN = (".md", ".markdown")
JSONL = (".jsonl", ".ndjson")
NO_SUCH_FILE = "there is no such file or folder"
MAX_MB = 16.0
"""of a Markdown file: what is larger is no note"""
MAX_LINE_BYTES = 1 << 20
"""of a line of JSONL: twice what the longest memory takes when each of its characters is escaped"""
PASSED_OVER = frozenset({"node_modules", "__pycache__"})
"""folders that are not entered, beside hidden ones"""
PRIVATE = frozenset({"memory.md"})
"""file names, in any case, whose memories no group may read (seed 001)"""

MAX_ID_CHARS = 256
MAX_REF_CHARS = 512
MAX_POSITION = 2**53

Progress = Callable[[int], None]
"""told how many bytes more were read"""


@dataclass(frozen=True, slots=True)
class Skip:
    """Something that was not remembered. ``where`` is a path, or ``path:line``; reasons are few, to be counted."""

    where: str
    reason: str


def size(paths: Sequence[Path]) -> int:
    """How many bytes `read` will read: for a bar. What cannot be looked at counts nothing."""
    return sum(file.bytes for file in _files(paths) if isinstance(file, _File))


def read(
    paths: Sequence[Path],
    scope: Scope | None = None,
    *,
    max_mb: float = MAX_MB,
    progress: Progress = lambda count: None,
) -> Iterator[NewMemory | Skip]:
    """The memories in files and in folders of files, in a fixed order; ``scope`` is for those that do not say whose.

    Never raises for what it finds: a file or line that makes no sense is a ``Skip``, and the others are read.
    """
    whose = scope or Scope()
    for file in _files(paths):
        if isinstance(file, Skip):
            yield file
        elif file.path.suffix.lower() in JSONL:
            yield from _jsonl(file, whose, progress)
        else:
            yield from _markdown(file, whose, max_mb, progress)


# Files -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _File:
    """A file to read: where it is, what it is called as a document, and its size when it was found."""

    path: Path
    document: str
    bytes: int


class _Unreadable(Exception):
    """``str`` is the reason."""


def _files(paths: Sequence[Path]) -> Iterator[_File | Skip]:
    """Every file that is meant, each once however often it was named."""
    seen: set[Path] = set()
    for path in paths:
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError, ValueError):  # not there; links in a circle; a NUL in the name
            yield Skip(_shown(path), NO_SUCH_FILE)
            continue
        found = _walk(real) if real.is_dir() else _one(real, real.parent)
        for file in found:
            if isinstance(file, Skip):
                yield file
            elif file.path not in seen:
                seen.add(file.path)
                yield file


def _walk(root: Path) -> Iterator[_File | Skip]:
    """What is below a folder, its files by name and then its folders; hidden ones are left out, links not followed."""
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        inner: list[Path] = []
        try:
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            yield Skip(_shown(folder), _told(error))
            continue
        for entry in entries:
            path = folder / entry.name
            wanted = path.suffix.lower() in MARKDOWN + JSONL
            if entry.name.startswith(".") or entry.name in PASSED_OVER:
                continue
            if entry.is_symlink():
                # A link within the folder leads to what is read in its own place.
                if (wanted or _is_folder(path)) and not Path(os.path.realpath(path)).is_relative_to(root):
                    yield Skip(_shown(path), "a link that leads out of its folder")
            elif entry.is_dir(follow_symlinks=False):
                inner.append(path)
            elif wanted:
                yield from _one(path, root)
        waiting.extend(reversed(inner))


def _is_folder(link: Path) -> bool:
    try:
        return link.is_dir()
    except OSError:  # in a folder that is not ours to enter: what is there cannot be read anyway
        return False


def _one(path: Path, root: Path) -> Iterator[_File | Skip]:
    document = f"{root.name or 'root'}/{path.relative_to(root).as_posix()}"
    if path.suffix.lower() not in MARKDOWN + JSONL:
        yield Skip(_shown(path), "neither Markdown (.md) nor JSONL (.jsonl)")
    elif _shown(path) != str(path):
        yield Skip(_shown(path), "its name is not UTF-8")
    elif not_one_line(str(path)):
        yield Skip(clean(str(path).replace("\n", " "))[0], "its path has a line break, a tab or an invisible character")
    elif len(f"file:{path}") > MAX_REF_CHARS:
        yield Skip(_shown(path), f"its path is longer than {MAX_REF_CHARS} characters")
    else:
        try:
            about = path.lstat()
        except OSError as error:
            yield Skip(_shown(path), _told(error))
            return
        yield _File(path, document, about.st_size if stat.S_ISREG(about.st_mode) else 0)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """A regular file, open for reading; no link is followed and no pipe waited for. Raises _Unreadable.

    Raises it also when the file is another one at the end than at the beginning.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            before = os.fstat(fd)
            if not stat.S_ISREG(before.st_mode):
                raise _Unreadable("not a regular file")
            if before.st_size == 0:
                raise _Unreadable("empty")
            yield file
            after = os.fstat(fd)
            if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
                raise _Unreadable("changed while it was read; run it again")
    except OSError as error:
        raise _Unreadable(_told(error)) from error


def _told(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "gone before it could be read"
    return (error.strerror or type(error).__name__).lower()


def _shown(path: Path) -> str:
    """A path as text that can be printed and sent, whatever bytes it has."""
    return str(path).encode("utf-8", "replace").decode()


# Markdown --------------------------------------------------------------------------------------------------------

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def _markdown(file: _File, whose: Scope, max_mb: float, progress: Progress) -> Iterator[NewMemory | Skip]:
    limit = int(max_mb * 1_000_000)
    where = str(file.path)
    try:
        with _opened(file.path) as opened:
            data = opened.read(limit + 1)
            if len(data) > limit:
                raise _Unreadable(f"larger than {max_mb:g} MB")
        if b"\0" in data:
            raise _Unreadable("binary: it has NUL bytes")
        text = data.decode("utf-8-sig")
    except _Unreadable as reason:
        yield Skip(where, str(reason))
        return
    except UnicodeDecodeError:
        yield Skip(where, "not UTF-8")
        return
    finally:
        progress(file.bytes)
    scope = replace(whose, audience="private") if file.path.name.lower() in PRIVATE else whose
    matter = front_matter(text)
    at = _day(file.path.stem) or _day(matter.get("date", "")) or _day(matter.get("created", ""))
    # Cut as the Markdown backend cuts, so that a chunk of the file and its event are seen to be the same span.
    found = [chunk for chunk in chunks(text) if chunk.text.strip()]
    if not found:
        yield Skip(where, "nothing in it to remember")
    for chunk in found:
        yield NewMemory(
            text=chunk.text,
            scope=scope,
            at=at,
            place=Place(file.document, chunk.start, chunk.end, "line"),
            source=f"file:{file.path}",
            revision=content_hash(chunk.text),
            origin="import",
        )


def _day(text: str) -> Moment | None:
    """The day that a text begins with, as ``YYYY-MM-DD``."""
    match = _DAY.match(text)
    try:
        return Moment(datetime.fromisoformat(match[0]).replace(tzinfo=UTC), "day") if match else None
    except ValueError:  # 2026-13-45 is a name, not a day
        return None


# JSONL -----------------------------------------------------------------------------------------------------------


def _jsonl(file: _File, whose: Scope, progress: Progress) -> Iterator[NewMemory | Skip]:
    unknown: dict[str, None] = {}
    where = str(file.path)
    try:
        with _opened(file.path) as opened:
            for number, line in enumerate(_lines(opened, progress), start=1):
                if line is None:
                    yield Skip(f"{where}:{number}", f"longer than {MAX_LINE_BYTES:,} bytes")
                    continue
                if b"\0" in line:
                    raise _Unreadable("binary: it has NUL bytes")
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                if not line.strip():
                    continue
                try:
                    row = _Row.of(line)
                    yield row.memory(file, number, whose)
                except _Unreadable as reason:
                    yield Skip(f"{where}:{number}", str(reason))
                    continue
                unknown.update(dict.fromkeys(row.unknown()))
    except _Unreadable as reason:
        yield Skip(where, str(reason))
    if unknown:
        names = ", ".join(sorted(unknown)[:10]) + (f" and {len(unknown) - 10} more" if len(unknown) > 10 else "")
        yield Skip(where, f"fields that mean nothing here were left out: {names}")


def _lines(file: BinaryIO, progress: Progress) -> Iterator[bytes | None]:
    """The lines of a file; None for one that is too long, which is passed over without being held."""
    while line := file.readline(MAX_LINE_BYTES + 1):
        progress(len(line))
        whole = len(line) <= MAX_LINE_BYTES
        while not line.endswith(b"\n") and (rest := file.readline(MAX_LINE_BYTES)):
            progress(len(rest))
            line, whole = rest, False
        yield line if whole else None


_FIELDS = frozenset(
    [
        *(*DIMENSIONS, "project", "audience", "text", "kind", "raw_kind", "speaker", "at", "valid_from", "valid_to"),
        *("document", "position", "end", "unit", "source", "revision", "origin", "supersedes"),
    ]
)
_FREE = frozenset({"text", "revision"})
"""fields that nothing cites, so that they may have several lines"""
_MAX_UNKNOWN = 100
"""names of fields kept for the report"""


@dataclass(frozen=True, slots=True)
class _Row:
    """One line's object. Every reader of a field raises _Unreadable, which names the field."""

    values: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, line: bytes) -> _Row:
        try:
            values = orjson.loads(line)
        except orjson.JSONDecodeError:
            raise _Unreadable("not a line of JSON") from None
        if not isinstance(values, dict):
            raise _Unreadable("not a JSON object")
        return cls({name: value for name, value in values.items() if value is not None})

    def unknown(self) -> list[str]:
        return [repr(name)[1:-1][:40] for name in self.values if name not in _FIELDS][:_MAX_UNKNOWN]

    def memory(self, file: _File, number: int, whose: Scope) -> NewMemory:
        """What a line says. Without a position its line's number stands in, in its document or in its revision."""
        text = self.string("text", MAX_TEXT_CHARS)
        if text is None or not text.strip():
            raise _Unreadable("text is missing or empty")
        document = self.string("document", MAX_REF_CHARS)
        position = self.integer("position")
        revision = self.string("revision", MAX_ID_CHARS)
        place = None
        if document is not None:
            start = number if position is None else position
            end = self.integer("end")
            unit: Unit = self.choice("unit", ("turn", "line")) or "turn"
            if end is not None and end < start:
                raise _Unreadable("end is before position")
            place = Place(document, start, start if end is None else end, unit)
        elif revision is None:
            # Two lines that say "yes" are two memories.
            revision = f"{number if position is None else position}:{content_hash(text)}"
        kind = self.string("kind", MAX_ID_CHARS)
        known: Kind = kind if kind in KINDS else "note"
        if kind is None and document is not None and position is not None and place and place.unit == "turn":
            known = "turn"
        return NewMemory(
            text=text,
            scope=self.scope(whose),
            kind=known,
            raw_kind=self.string("raw_kind", MAX_ID_CHARS) or (kind if kind not in KINDS else None),
            speaker=self.string("speaker", MAX_ID_CHARS),
            at=self.moment("at"),
            place=place,
            source=self.string("source", MAX_REF_CHARS) or f"jsonl:{document or file.path.name}"[:MAX_REF_CHARS],
            revision=revision or "",
            origin=self.choice("origin", ("owner", "agent", "tool", "import", "system")) or "import",
            valid_from=_utc(self.moment("valid_from")),
            valid_to=_utc(self.moment("valid_to")),
            supersedes=self.string("supersedes", MAX_REF_CHARS),
        )

    def scope(self, whose: Scope) -> Scope:
        """The scope of a line, by default that of ``whose``; the tenant is always theirs."""
        said: dict[str, Any] = {name: self.string(name, MAX_ID_CHARS) for name in (*DIMENSIONS, "project")}
        said["audience"] = self.choice("audience", ("private", "group"))
        return replace(whose, **{name: value for name, value in said.items() if value is not None})

    def string(self, name: str, longest: int) -> str | None:
        """A field's text; None when it is missing or empty."""
        value = self.values.get(name, "")
        if not isinstance(value, str):
            raise _Unreadable(f"{name} is not a text")
        if len(value) > longest:
            raise _Unreadable(f"{name} is longer than {longest:,} characters")
        if "\0" in value:
            raise _Unreadable(f"{name} has a NUL character")
        if name not in _FREE and (wrong := not_one_line(value)):
            raise _Unreadable(f"{name} {wrong}")
        return value or None

    def integer(self, name: str) -> int | None:
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_POSITION:
            raise _Unreadable(f"{name} is not a whole number from 0")
        return value

    def choice(self, name: str, choices: Sequence[str]) -> Any:
        value = self.values.get(name)
        if value is not None and value not in choices:
            raise _Unreadable(f"{name} is none of {', '.join(choices)}")
        return value

    def moment(self, name: str) -> Moment | None:
        written = self.string(name, MAX_ID_CHARS)
        if written is None:
            return None
        try:
            return moment(written)
        except ValueError:
            raise _Unreadable(f'{name} is no time; write ISO 8601: "2026-01-31" or "2026-01-31T09:30:00Z"') from None


_ISO = re.compile(
    r"(?P<year>\d{4})(?:-(?P<month>\d\d)(?:-(?P<day>\d\d)"
    r"(?P<clock>[T ]\d\d(?P<minute>:\d\d(?P<second>:\d\d(?:[.,]\d{1,9})?)?)?(?:Z|[+-]\d\d(?::?\d\d)?)?)?)?)?",
    re.ASCII | re.IGNORECASE,
)


def moment(written: str) -> Moment:
    """ISO 8601, as precise as it is written: ``2026``, ``2026-01``, ``2026-01-31``, or with a time of day.

    A time without a zone is UTC. Raises ValueError.
    """
    match = _ISO.fullmatch(written.strip())
    if match is None:
        raise ValueError(f"{written!r} is not ISO 8601")
    finest = next(name for name in ("second", "minute", "clock", "day", "month", "year") if match[name])
    precision: Precision = "hour" if finest == "clock" else finest  # type: ignore[assignment]
    whole = match[0].upper() + {"year": "-01-01", "month": "-01"}.get(finest, "")
    try:
        found = datetime.fromisoformat(whole)
        return Moment(found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC), precision)
    except OverflowError:
        raise ValueError(f"{written!r} is out of range") from None


def _utc(found: Moment | None) -> datetime | None:
    return found.utc if found else None
