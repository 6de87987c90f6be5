"""Lists and reads folders of Markdown safely.

Only regular files below a root are opened, and each folder on the way with ``O_NOFOLLOW``, so a link placed there at
any moment has no effect. A file that is not read becomes a ``Skip`` with the reason.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path, PurePosixPath

from fusion.lib.ignore import matcher
from fusion.lib.walk import Entry, Unlisted, leads_out, open_parent, walk

SUFFIXES = (".md", ".markdown")
_TRIES = 3
_SETTLED_NS = 50_000_000
"""a file that changed less than this before it was read may change again within the same tick of its clock"""

Signature = tuple[int, int, int, int]
"""mtime and ctime in ns, size in bytes, inode: while it stays, the content is taken to be the same"""


@dataclass(frozen=True, slots=True)
class Root:
    """A folder whose files are memory. ``only``: just these files, regardless of their names.

    ``suffixes``: what the names of the others end with.
    """

    name: str
    folder: Path
    own: bool = False
    only: frozenset[str] = frozenset()
    suffixes: tuple[str, ...] = SUFFIXES

    def document(self, path: str) -> str:
        return f"{self.name}/{path}"


@dataclass(frozen=True, slots=True)
class Seen:
    """A file as a scan found it; ``path`` is relative to the root, with ``/``."""

    root: Root
    path: str
    signature: Signature

    @property
    def document(self) -> str:
        return self.root.document(self.path)


@dataclass(frozen=True, slots=True)
class Skip:
    document: str
    reason: str

    def __str__(self) -> str:
        return f"{self.document}: {self.reason}"


class Unreadable(Exception):
    """A file was not read; ``str`` is the reason. ``passing``: it may well be readable at the next scan."""

    def __init__(self, reason: str, passing: bool = False) -> None:
        super().__init__(reason)
        self.passing = passing


@dataclass(frozen=True, slots=True)
class Content:
    data: bytes
    signature: Signature

    @property
    def digest(self) -> bytes:
        return blake2b(self.data, digest_size=16).digest()

    @property
    def settled(self) -> Signature | None:
        """The signature under which the content counts as read: none yet, if the file changed a moment ago."""
        return self.signature if time.time_ns() - self.signature[1] > _SETTLED_NS else None


def roots(own: Path, paths: Sequence[Path], more: Sequence[str] = ()) -> list[Root]:
    """The gateway's own folder and the user's, each under a name of its own.

    A path inside another one is part of it. Names are the folders' own; a second folder of the same
    name carries a hash of its path. ``more`` are suffixes that are read in the user's folders, besides Markdown's.
    """
    folders: list[Path] = []
    files: list[Path] = []
    for path in dict.fromkeys(Path(os.path.realpath(p)) for p in paths):
        single = path.is_file() or (not path.is_dir() and path.suffix.lower() in SUFFIXES)
        (files if single else folders).append(path)
    folders = [f for f in folders if not any(f != other and f.is_relative_to(other) for other in folders)]
    singles: dict[Path, set[str]] = {}
    for file in files:
        if file.suffix.lower() not in SUFFIXES or not any(file.is_relative_to(folder) for folder in folders):
            singles.setdefault(file.parent, set()).add(file.name)
    found = [Root("notes", own, own=True)]
    for folder, only in [*((folder, set[str]()) for folder in folders), *singles.items()]:
        name = folder.name or "root"
        if any(root.name == name for root in found):
            name = f"{name}-{blake2b(os.fsencode(folder), digest_size=4).hexdigest()}"
        found.append(Root(name, folder, only=frozenset(only), suffixes=(*SUFFIXES, *more)))
    return found


def scan(root: Root, ignore: Sequence[str], hidden: Path) -> tuple[list[Seen], list[Skip]]:
    """Every Markdown file below a root, by metadata alone. ``hidden`` is a folder that is never entered.

    If there are both MEMORY.md and memory.md, only MEMORY.md counts.
    """
    patterns = matcher(ignore)

    def ignored(path: str, is_folder: bool) -> bool:
        if root.only:
            return path not in root.only
        return patterns(path, is_folder) or (is_folder and not root.own and _same(root.folder / path, hidden))

    seen: list[Seen] = []
    skips: list[Skip] = []
    for entry in walk(root.folder, ignored):
        if isinstance(entry, Unlisted) and not entry.path:
            reason = f"not there ({entry.error.strerror}): create it or take it out of `paths`"
            return [], [Skip(str(root.folder), reason)]
        with suppress(FileNotFoundError):  # it went away between the listing and the look: as if never listed
            found = _skipped(root, entry) if isinstance(entry, Unlisted) else _examined(root, entry)
            if isinstance(found, Seen):
                seen.append(found)
            elif found is not None:
                skips.append(found)
    seen.sort(key=lambda file: file.path.split("/"))
    skips.sort(key=lambda skip: skip.document.split("/"))
    seen, beaten = _precedence(seen)
    skips += beaten
    named = {skip.document for skip in skips} | {file.document for file in seen}
    missing = [document for document in map(root.document, sorted(root.only)) if document not in named]
    return seen, skips + [Skip(document, "not there: create it or take it out of `paths`") for document in missing]


def _skipped(root: Root, folder: Unlisted) -> Skip | None:
    """A folder that could not be listed: it may not be read, or is no folder any more. None for one that is gone."""
    gone = isinstance(folder.error, FileNotFoundError)
    return None if gone else Skip(root.document(folder.path), f"skipped: {folder.error.strerror}")


def _examined(root: Root, entry: Entry) -> Seen | Skip | None:
    """A listed entry: a file to read, one that is skipped, or None for another kind of file."""
    document = root.document(entry.path)
    try:
        document.encode("utf-8")
    except UnicodeEncodeError:
        return Skip(ascii(document), "skipped: its name is not UTF-8; rename it")
    wanted = bool(root.only) or entry.path.lower().endswith(root.suffixes)
    if entry.listed.is_symlink():
        out = leads_out(root.folder, entry.path) and (wanted or Path(root.folder / entry.path).is_dir())
        return Skip(document, "skipped: a link that leads out of its folder") if out else None
    if not wanted:
        return None
    about = entry.listed.stat(follow_symlinks=False)
    if not stat.S_ISREG(about.st_mode):
        return Skip(document, "skipped: not a regular file")
    return Seen(root, entry.path, signature(about))


def look(root: Root, paths: Iterable[str]) -> tuple[list[Seen], list[str]] | None:
    """The files at some paths below a root, as `scan` would find them, and the paths without such a file.

    ``None`` if only a scan can tell: for a folder, a link, an unreadable path, a single file of the user's, a name that
    is not UTF-8 or that another may take precedence over, and if the root itself is missing.
    """
    seen: list[Seen] = []
    gone: list[str] = []
    for path in paths:
        if root.only or PurePosixPath(path).name.lower() == "memory.md":
            return None
        try:
            path.encode("utf-8")
            with open_parent(root.folder, path) as (folder, name):
                about = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            gone.append(path)
            continue
        except (OSError, UnicodeEncodeError):
            return None
        if not stat.S_ISREG(about.st_mode):
            return None
        if path.lower().endswith(root.suffixes):
            seen.append(Seen(root, path, signature(about)))
        else:
            gone.append(path)
    return None if gone and not root.folder.is_dir() else (seen, gone)


def _precedence(seen: list[Seen]) -> tuple[list[Seen], list[Skip]]:
    """The files without each memory.md whose folder also has a MEMORY.md."""
    paths = {file.path for file in seen}
    beaten = [
        file
        for file in seen
        if PurePosixPath(file.path).name == "memory.md" and f"{file.path.removesuffix('memory.md')}MEMORY.md" in paths
    ]
    if not beaten:
        return seen, []
    skips = [Skip(file.document, "skipped: MEMORY.md in the same folder is read instead") for file in beaten]
    return [file for file in seen if file not in beaten], skips


def read(root: Root, path: str, max_bytes: int, setting: str = "max_file_mb") -> Content:
    """The bytes of one file, all of the same moment. Raises ``Unreadable``, which names ``setting`` as its limit."""
    try:
        with open_parent(root.folder, path) as (folder, name):
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
            try:
                return _steady(fd, max_bytes, setting)
            finally:
                os.close(fd)
    except FileNotFoundError as error:
        raise Unreadable("skipped: it went away while being read", passing=True) from error
    except OSError as error:
        raise Unreadable(f"skipped: {error.strerror}") from error


def signature(about: os.stat_result) -> Signature:
    return about.st_mtime_ns, about.st_ctime_ns, about.st_size, about.st_ino & 0x7FFF_FFFF_FFFF_FFFF  # as SQLite counts


def _steady(fd: int, max_bytes: int, setting: str) -> Content:
    """Read until the file was the same before and after; a writer that never rests is left for the next scan."""
    for _ in range(_TRIES):
        before = os.fstat(fd)
        if not stat.S_ISREG(before.st_mode):
            raise Unreadable("skipped: not a regular file")
        if before.st_size > max_bytes:
            raise Unreadable(f"skipped: larger than {max_bytes / 2**20:g} MB (`{setting}`)")
        os.lseek(fd, 0, os.SEEK_SET)
        data = _all(fd, before.st_size)
        if signature(os.fstat(fd)) == signature(before) and len(data) == before.st_size:
            return Content(data, signature(before))
    raise Unreadable("skipped: it is being written", passing=True)


def _all(fd: int, size: int) -> bytes:
    parts: list[bytes] = []
    wanted = size + 1  # one more than announced shows that it grew
    while wanted > 0 and (part := os.read(fd, wanted)):
        parts.append(part)
        wanted -= len(part)
    return b"".join(parts)


def _same(a: Path, b: Path) -> bool:
    try:
        return a.samefile(b)
    except OSError:
        return False
