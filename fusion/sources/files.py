"""Finds and opens the files to read in, safely.

No link is followed, no pipe blocks, no overlong line is held in memory, and archives are unpacked only up to a limit.
"""

from __future__ import annotations

import io
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Protocol

import orjson

from fusion.ingest.intake import not_one_line
from fusion.lib.clean import clean
from fusion.lib.ignore import ALWAYS, Ignored, matcher
from fusion.lib.walk import Unlisted, is_listed, leads_out, open_file, walk

if TYPE_CHECKING:
    from zstandard import ZstdDecompressionReader

MARKDOWN = (".md", ".markdown")
JSONL = (".jsonl", ".ndjson")
SQLITE = (".sqlite", ".sqlite3", ".db")
DATABASE = "openclaw-agent.sqlite"
"""the one database that is found in folders; another must be named"""
_ARCHIVE = re.compile(r"\.(?:jsonl|ndjson)(?:\.(?:deleted|reset)\.[^/]+|\.zst)", re.IGNORECASE)
_COLD = re.compile(r"[0-9a-f]{64}\.jsonl\.zst")
"""a cold archive next to an agent's database, which is read through the database"""
_COPY = re.compile(r"\.(?:checkpoint|trajectory)\b", re.IGNORECASE)
NO_SUCH_FILE = "there is no such file or folder"
NOT_TAKEN = "neither Markdown (.md) nor JSONL (.jsonl)"
"""the reason for a named file; in a folder such files are only counted"""
LINKED = "linked "
"""the beginning of a link's kind"""
LEADS_OUT = "a link that leads out of its folder"
"""the reason for such a link; the target of a link inside the folder is read in its own place"""
EMPTY = "empty"
MAX_UNPACKED_BYTES = 1 << 29
"""maximum bytes of an unpacked archive: far beyond any conversation, so more is refused as a zip bomb"""
NEVER_READ = matcher(ALWAYS)
"""matches what is left out below a folder by default: hidden files, node_modules, __pycache__"""
MAX_REF_CHARS = 512

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"

Progress = Callable[[int], None]
"""called with the number of bytes read since the last call"""
Cutting = Callable[["File", float], None]
"""called while a large note is cut into sections, with the finished share from 0 to 1"""
Form = Literal["markdown", "lines", "database"]


@dataclass(frozen=True, slots=True)
class Skip:
    """A file or line that was not remembered. ``where`` is a path, or ``path:line``; few different reasons exist.

    ``rejected``: a line of the user's own JSONL that is no memory, which they have to correct.
    """

    where: str
    reason: str
    rejected: bool = False


@dataclass(frozen=True, slots=True)
class File:
    """A file to read: its path, the name of its document, its size when it was found, and its form."""

    path: Path
    document: str
    bytes: int
    form: Form


def no_report(file: File, share: float) -> None:
    """Does nothing with the progress."""


class Unreadable(Exception):
    """A file cannot be read; ``str`` is the reason."""


class HasLimit(Protocol):
    """A table of the settings that limits the size of files."""

    @property
    def max_file_mb(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest size of a file in megabytes, by its form; larger ones are not read."""

    note_mb: float = 16.0
    log_mb: float = 1024.0
    """of a transcript, a file of JSONL or a database, which are not held in memory as a whole"""

    @classmethod
    def of(cls, ingest: HasLimit, sessions: HasLimit) -> Limits:
        """The limits of the tables [ingest] and [sessions] of the settings."""
        return cls(ingest.max_file_mb, sessions.max_file_mb)

    def too_large(self, file: File) -> str | None:
        """Why a file is too large, with the setting to change; None if it is not."""
        note = file.form == "markdown"
        most, setting = (self.note_mb, "[ingest]") if note else (self.log_mb, "[sessions]")
        return None if file.bytes <= most * 1_000_000 else f"larger than {most:g} MB ({setting} max_file_mb)"


DEFAULT_LIMITS = Limits()


def sized(file: File) -> str:
    """A file with its size in megabytes, for a report."""
    return f"{file.path} ({file.bytes / 1_000_000:,.1f} MB)"


def form_of(path: Path, *, named: bool = False) -> Form | None:
    """The form in which a file is read, by its name; None for other files. ``named`` by the user, more are accepted."""
    suffix = path.suffix.lower()
    if suffix in MARKDOWN:
        return "markdown"
    if suffix in JSONL or _ARCHIVE.search(path.name):
        return "lines" if named or not (_is_checkpoint(path.name) or _COLD.fullmatch(path.name)) else None
    if path.name == DATABASE or (named and suffix in SQLITE):
        return "database"
    return None


def kind_of(path: Path) -> str:
    """The kind under which a file that is not read is counted: its suffix."""
    return path.suffix.lower() or "without an ending"


def _kind_of_link(path: Path) -> str:
    return LINKED + ("folder" if is_folder(path) else kind_of(path))


def _is_checkpoint(name: str) -> bool:
    return name.lower().endswith(".jsonl") and _COPY.search(name) is not None


def files(
    paths: Sequence[Path], passed: Counter[str] | None = None, ignored: Ignored = NEVER_READ
) -> Iterator[File | Skip]:
    """Yields every file to read at or below ``paths``, each once.

    ``passed`` counts by kind the files and links that are not read. ``ignored`` holds for what is below a folder.
    """
    seen: set[Path] = set()
    for path in paths:
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError, ValueError):  # not there; links in a circle; a NUL in the name
            yield Skip(shown(path), NO_SUCH_FILE)
            continue
        found = _below(real, passed, ignored) if is_folder(real) else _one(real, real.parent, named=True)
        for file in found:
            if isinstance(file, Skip):
                yield file
            elif file.path not in seen:
                seen.add(file.path)
                yield file


def _below(root: Path, passed: Counter[str] | None, ignored: Ignored) -> Iterator[File | Skip]:
    """The files to read below a folder: those of each folder by name, then its folders. No link is followed."""
    for entry in walk(root, ignored):
        path = root / entry.path
        if isinstance(entry, Unlisted):
            yield Skip(shown(path), reason_of(entry.error))
            continue
        wanted = form_of(path) is not None
        if entry.listed.is_symlink():
            if (wanted or is_folder(path)) and leads_out(root, entry.path):
                yield Skip(shown(path), LEADS_OUT)
            elif passed is not None:
                passed[_kind_of_link(path)] += 1
        elif wanted:
            yield from _one(path, root)
        elif passed is not None and entry.listed.is_file(follow_symlinks=False):
            passed[kind_of(path)] += 1


def linked(found: Iterable[File | Skip], passed: Mapping[str, int]) -> dict[str, int]:
    """The number of links by kind, from what `files` yielded and counted as ``passed``."""
    counts = Counter({kind: count for kind, count in passed.items() if kind.startswith(LINKED)})
    out = [Path(one.where) for one in found if isinstance(one, Skip) and one.reason == LEADS_OUT]
    counts.update(_kind_of_link(path) for path in out)
    return dict(counts.most_common())


def _one(path: Path, root: Path, *, named: bool = False) -> Iterator[File | Skip]:
    document = f"{root.name or 'root'}/{path.relative_to(root).as_posix()}"
    form = form_of(path, named=named)
    if form is None:
        yield Skip(shown(path), NOT_TAKEN)
    elif shown(path) != str(path):
        yield Skip(shown(path), "its name is not UTF-8")
    elif not_one_line(str(path)):
        yield Skip(clean(str(path).replace("\n", " "))[0], "its path has a line break, a tab or an invisible character")
    elif len(f"file:{path}") > MAX_REF_CHARS:
        yield Skip(shown(path), f"its path is longer than {MAX_REF_CHARS} characters")
    else:
        try:
            about = path.lstat()
        except OSError as error:
            yield Skip(shown(path), reason_of(error))
            return
        yield File(path, document, about.st_size if stat.S_ISREG(about.st_mode) else 0, form)


def is_there(path: Path) -> bool:
    """Whether a path exists, or cannot be checked."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def is_gone(path: Path) -> bool:
    """Whether a path does not exist, or leads through a link, which is not followed."""
    return not is_there(path) or os.path.realpath(path) != str(path)


def is_folder(path: Path) -> bool:
    """Whether a path is a folder; False without permission, where `Path.is_dir` raises."""
    try:
        return path.is_dir()
    except OSError:
        return False


def is_file(path: Path) -> bool:
    """Whether a path is a file; False without permission."""
    try:
        return path.is_file()
    except OSError:
        return False


def is_below(path: Path, folder: Path, ignored: Ignored = NEVER_READ) -> bool:
    """Whether walking a folder comes to a path."""
    if not path.is_relative_to(folder):
        return False
    return path == folder or is_listed(path.relative_to(folder).as_posix(), ignored)


def file_at(path: Path, paths: Sequence[Path], ignored: Ignored = NEVER_READ) -> File | None:
    """The file at a path, if `files` of these ``paths`` finds it."""
    if os.path.realpath(path) != str(path):  # through a link
        return None
    for root in (one.resolve() for one in paths):
        if path == root or is_below(path, root, ignored):
            found = next(_one(path, path.parent if path == root else root, named=path == root))
            return found if isinstance(found, File) else None
    return None


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Opens a regular file that is not empty, without following a link anywhere in its path. Raises Unreadable."""
    try:
        fd = open_file(path)
        with os.fdopen(fd, "rb") as file:
            about = os.fstat(fd)
            if not stat.S_ISREG(about.st_mode):
                raise Unreadable("not a regular file")
            if about.st_size == 0:
                raise Unreadable(EMPTY)
            yield file
    except OSError as error:
        raise Unreadable(reason_of(error)) from error


@contextmanager
def unchanged(file: BinaryIO) -> Iterator[None]:
    """Raises Unreadable at the end if the file changed while it was read."""
    before = os.fstat(file.fileno())
    yield
    after = os.fstat(file.fileno())
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise Unreadable("changed while it was read; run it again")


def is_packed(file: BinaryIO) -> bool:
    """Whether a file is zstandard, by its first bytes."""
    return os.pread(file.fileno(), 4, 0) == ZSTD_MAGIC


def unpacked(file: BinaryIO) -> BinaryIO:
    """The content of a zstandard archive from its beginning; the window takes at most 128 MB of memory."""
    import zstandard

    file.seek(0)
    reader = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(file, read_across_frames=True)
    return io.BufferedReader(_Raw(reader))


class _Raw(io.RawIOBase):
    """A decompressor as a raw stream; raises Unreadable for a damaged archive."""

    def __init__(self, reader: ZstdDecompressionReader) -> None:
        self._reader = reader

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        import zstandard

        try:
            return self._reader.readinto(buffer)
        except zstandard.ZstdError as error:
            raise Unreadable("damaged: it cannot be unpacked") from error


class Lines:
    """Iterates over the lines of a stream, each with its line break; None for a line that is longer than ``longest``.

    ``offset`` is the position after the last complete line, ``number`` the number of that line from 1. A last line
    without a line break moves neither, because it may be incomplete. Raises Unreadable beyond ``most`` bytes.
    """

    def __init__(
        self,
        stream: BinaryIO,
        longest: int,
        progress: Progress = lambda count: None,
        *,
        offset: int = 0,
        number: int = 0,
        most: int | None = None,
    ) -> None:
        self.offset = offset
        self.number = number
        self._stream = stream
        self._longest = longest
        self._progress = progress
        self._most = most

    def __iter__(self) -> Iterator[bytes | None]:
        while line := self._stream.readline(self._longest + 1):
            read = len(line)
            self._read(read, read)
            whole = read <= self._longest
            while not line.endswith(b"\n") and (rest := self._stream.readline(self._longest)):
                read += len(rest)
                self._read(len(rest), read)
                line, whole = rest, False
            if line.endswith(b"\n"):
                self.offset += read
                self.number += 1
            yield line if whole else None

    def _read(self, count: int, of_line: int) -> None:
        self._progress(count)
        if self._most is not None and self.offset + of_line > self._most:
            raise Unreadable(f"more than {self._most >> 20} MB when it is unpacked")


def is_json(line: bytes) -> bool:
    """Whether a line is valid JSON, so that it is complete."""
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return True


def reason_of(error: OSError) -> str:
    """The reason of an error of the file system."""
    if isinstance(error, FileNotFoundError):
        return "gone before it could be read"
    return (error.strerror or type(error).__name__).lower()


def shown(path: Path) -> str:
    """A path as text that can be printed and sent; bytes that are not UTF-8 are replaced."""
    return str(path).encode("utf-8", "replace").decode()
