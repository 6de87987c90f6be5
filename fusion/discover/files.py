"""Finds folders of notes and of agents' sessions, within a time limit and a number of directory entries.

It looks in the places that agents use, then in folders where people keep notes, then in the named folders. A folder
inside another find is part of it. Links are not followed and hidden folders not entered. Only the beginnings of
candidates are read: of `.json` and `.jsonl` files, and of databases.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from fusion.contract import Scope
from fusion.sources.files import DATABASE, NEVER_READ, Form, form_of
from fusion.sources.sessions import session_of

SECONDS = 5.0
ENTRIES = 200_000
"""maximum number of directory entries that are listed"""
DEPTH = 8
"""levels of folders below a find in which files are counted"""
VAULT_DEPTH = 3
"""levels below the home folder that are searched for vaults"""
HEAD_BYTES = 65_536
SAMPLED_FILES = 20
"""files of a folder whose beginnings are read to recognise sessions"""
LARGE_FILES, LARGE_BYTES = 5_000, 64_000_000
"""files and bytes above which notes take minutes to read in, so `fusion init --yes` does not choose them"""
LARGE_SESSION_BYTES = 256_000_000
"""the same limit for session files, in bytes; most of their bytes are results of tools, which are left out"""

Kind = Literal["workspace", "vault", "notes", "claude-code", "openclaw", "memories"]
Group = Literal["notes", "sessions", "memories"]

_SQLITE = b"SQLite format 3\0"
_OBSIDIAN = (
    ".config/obsidian/obsidian.json",
    "Library/Application Support/obsidian/obsidian.json",
    ".var/app/md.obsidian.Obsidian/config/obsidian/obsidian.json",
    "snap/obsidian/current/.config/obsidian/obsidian.json",
)
"""where Obsidian keeps its list of vaults: Linux, macOS, Flatpak, Snap"""
_PROJECT_FOLDERS = ("memory", "notes", "docs")
"""folders of a project that may hold notes"""


@dataclass(frozen=True, slots=True)
class Find:
    """Files that could become memories: ``paths`` are read, ``where`` is the name to show.

    ``files`` and ``bytes`` are lower bounds if not ``complete``. ``large``: reading them in takes minutes.
    """

    kind: Kind
    where: Path
    paths: tuple[Path, ...]
    files: int
    bytes: int
    complete: bool = True

    @property
    def group(self) -> Group:
        """The group in which the user is asked about it."""
        if self.kind in ("claude-code", "openclaw"):
            return "sessions"
        return "memories" if self.kind == "memories" else "notes"

    @property
    def large(self) -> bool:
        if self.group == "sessions":
            return self.bytes > LARGE_SESSION_BYTES
        return self.files > LARGE_FILES or self.bytes > LARGE_BYTES or not self.complete


@dataclass(frozen=True, slots=True)
class FileFinds:
    """All finds; ``complete`` says that the limits allowed to look everywhere."""

    finds: tuple[Find, ...]
    complete: bool


def find(
    user: Path,
    cwd: Path,
    scan: Sequence[Path] = (),
    *,
    never: Sequence[Path] = (),
    seconds: float = SECONDS,
    entries: int = ENTRIES,
) -> FileFinds:
    """Finds notes and sessions below ``user`` (a home folder), in ``cwd`` and in ``scan``, but not in ``never``."""
    search = _Search(time.monotonic() + seconds, entries, frozenset(path.absolute() for path in never))
    user, cwd = user.absolute(), cwd.absolute()
    finds = [
        *_openclaw(search, user),
        *_claude_code(search, user),
        *_obsidian(search, user),
        *_notes(search, user, cwd),
        *(one for folder in scan for one in _in_named_folder(search, user, folder.resolve())),  # follows a named link
    ]
    return FileFinds(tuple(_without_nested(finds)), complete=not search.exhausted)


@dataclass(slots=True)
class _Search:
    """Lists folders for a search until its limits are reached."""

    until: float
    entries: int
    never: frozenset[Path]
    exhausted: bool = field(default=False)

    def listing(self, folder: Path) -> list[os.DirEntry[str]]:
        """The entries of a folder by name; none where it cannot be listed, or the limits are reached."""
        if self.entries <= 0 or time.monotonic() > self.until:
            self.exhausted = True
            return []
        if folder in self.never or folder.is_symlink():
            return []
        try:
            with os.scandir(folder) as found:
                listed = sorted((e for e in found if _is_printable(e.name)), key=lambda entry: entry.name)
        except OSError:
            return []  # missing, or without permission
        self.entries -= len(listed)
        return listed

    def folders(self, folder: Path) -> list[Path]:
        """The folders in a folder, without hidden ones, links and those of `NEVER_READ`."""
        entries = self.listing(folder)
        return [folder / e.name for e in entries if not NEVER_READ(e.name, True) and _check_entry(e.is_dir)]

    def files(self, folder: Path, form: Form, depth: int = DEPTH) -> Iterator[Path]:
        """The regular files below a folder that ingest reads in this form, without hidden ones."""
        waiting = [(folder, depth)]
        while waiting:
            here, left = waiting.pop()
            for entry in self.listing(here):
                if entry.name.startswith("."):
                    continue
                path = here / entry.name
                if form_of(path) == form and _check_entry(entry.is_file):
                    yield path
                elif left and not NEVER_READ(entry.name, True) and _check_entry(entry.is_dir):
                    waiting.append((path, left - 1))

    def find(self, kind: Kind, where: Path, paths: Sequence[Path], form: Form) -> Iterator[Find]:
        """A find with the number and size of its files; nothing without any."""
        count = size = 0
        before, self.exhausted = self.exhausted, False
        for path in paths:
            for file in [path] if path.is_file() else self.files(path, form):
                count, size = count + 1, size + _bytes(file)
        complete, self.exhausted = not self.exhausted, self.exhausted or before
        if count:
            yield Find(kind, where, tuple(paths), count, size, complete)


# The places ------------------------------------------------------------------------------------------------------


def _openclaw(search: _Search, user: Path) -> Iterator[Find]:
    """OpenClaw's workspaces, and its agents' sessions: JSONL files, or one database for each agent."""
    state = user / ".openclaw"
    workspaces = [folder for folder in search.folders(state) if folder.name.startswith("workspace")]
    for folder in [*workspaces, user / "clawd"]:
        yield from search.find("workspace", folder, [folder], "markdown")
    paths: list[Path] = []
    for agent in search.folders(state / "agents"):
        sessions = agent / "sessions"
        if any(True for _ in search.files(sessions, "lines", 1)):
            paths.append(sessions)
        database = agent / "agent" / DATABASE
        if head(database, 16) == _SQLITE:
            paths.append(database)
    if paths:
        yield from search.find("openclaw", state / "agents", paths, "lines")


def _claude_code(search: _Search, user: Path) -> Iterator[Find]:
    """The sessions of Claude Code."""
    projects = user / ".claude" / "projects"
    if "claude-code" in _kinds_of(search.files(projects, "lines", 1)):
        yield from search.find("claude-code", projects, [projects], "lines")


def _obsidian(search: _Search, user: Path) -> Iterator[Find]:
    """The vaults on Obsidian's own list, and those in the upper levels of the home folder."""
    listed = [Path(path) for name in _OBSIDIAN for path in _vaults_of(user / name)]
    for folder in dict.fromkeys([*listed, *_vaults_below(search, user, VAULT_DEPTH)]):
        if _is_vault(folder):
            yield from search.find("vault", folder, [folder], "markdown")


def _vaults_of(file: Path) -> list[str]:
    """The paths in an ``obsidian.json``; none where it is missing or malformed."""
    try:
        vaults = json.loads(head(file, HEAD_BYTES))["vaults"].values()
        return [vault["path"] for vault in vaults if _is_printable(vault["path"]) and Path(vault["path"]).is_absolute()]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


def _vaults_below(search: _Search, folder: Path, depth: int) -> Iterator[Path]:
    """The vaults at or below a folder; a vault is not searched for others."""
    if _is_vault(folder):
        yield folder
    elif depth:
        for inner in search.folders(folder):
            yield from _vaults_below(search, inner, depth - 1)


def _notes(search: _Search, user: Path, cwd: Path) -> Iterator[Find]:
    """Folders named "notes", the folders of Documents, and the current folder."""
    for folder in search.folders(user):
        if folder.name.lower() == "notes":
            yield from search.find("notes", folder, [folder], "markdown")
    yield from _parts(search, user / "Documents", checkouts=False)
    if cwd == user or user.is_relative_to(cwd):
        return
    if _is_checkout(cwd) and not _is_workspace(cwd):
        parts = [folder for folder in search.folders(cwd) if folder.name in _PROJECT_FOLDERS]
        for folder in parts:
            yield from search.find("notes", folder, [folder], "markdown")
    else:
        yield from _in_named_folder(search, user, cwd)


def _in_named_folder(search: _Search, user: Path, folder: Path) -> Iterator[Find]:
    """The finds in a folder that the user named: the folder itself if it holds notes, else its parts; and JSONL files.

    A folder with notes only at its top is a find as a whole, so that later notes in it count, too; not so a home folder
    and those above it.
    """
    if _is_workspace(folder) or _is_vault(folder):
        kind: Kind = "workspace" if _is_workspace(folder) else "vault"
        yield from search.find(kind, folder, [folder], "markdown")
    else:
        parts = list(_parts(search, folder, checkouts=True))
        if [one.where for one in parts] == [folder] and not user.is_relative_to(folder):
            parts = [replace(parts[0], paths=(folder,))]
        yield from parts
    by_kind: dict[tuple[Kind, Path], list[Path]] = {}
    for file in search.files(folder, "lines", 2):
        if kind_of := _kind_of(file):
            by_kind.setdefault((kind_of, file.parent), []).append(file)
    for (kind, parent), files in by_kind.items():
        yield from search.find(kind, files[0] if len(files) == 1 else parent, files, "lines")


def _parts(search: _Search, folder: Path, *, checkouts: bool) -> Iterator[Find]:
    """The subfolders that have notes, one find each, and the notes directly in the folder.

    Without ``checkouts``, a Git checkout is left out, although its documentation may be Markdown.
    """
    if loose := list(search.files(folder, "markdown", 0)):
        yield from search.find("notes", folder, loose, "markdown")
    for part in search.folders(folder):
        if _is_vault(part) or _is_workspace(part):
            kind: Kind = "vault" if _is_vault(part) else "workspace"
        elif checkouts or not _is_checkout(part):
            kind = "notes"
        else:
            continue
        yield from search.find(kind, part, [part], "markdown")


def _is_vault(folder: Path) -> bool:
    return (folder / ".obsidian").is_dir() and not folder.is_symlink()


def _is_workspace(folder: Path) -> bool:
    """Whether a folder is an agent's workspace as OpenClaw lays it out, with a MEMORY.md."""
    return (folder / "MEMORY.md").is_file()


def _is_checkout(folder: Path) -> bool:
    return (folder / ".git").exists()


def _without_nested(finds: Iterable[Find]) -> Iterator[Find]:
    """Each find once, in order, without those inside another find of notes."""
    unique: dict[tuple[Path, ...], Find] = {}
    for one in finds:
        unique.setdefault(one.paths, one)
    roots = [path for one in unique.values() if one.group == "notes" for path in one.paths]

    def inside(path: Path) -> bool:
        return any(root != path and path.is_relative_to(root) for root in roots)

    for one in unique.values():
        if one.group == "sessions" or not all(inside(path) for path in one.paths):
            yield one


# Beginnings of files ---------------------------------------------------------------------------------------------


def markdown_files(path: Path) -> list[Path]:
    """The notes below a folder, or the file itself; the search takes at most a second."""
    if path.is_file():
        return [path]
    search = _Search(time.monotonic() + 1.0, 10_000, frozenset())
    return list(search.files(path, "markdown"))


def _kinds_of(files: Iterable[Path]) -> set[Kind]:
    """The kinds of the first `SAMPLED_FILES` of some JSONL files."""
    found: set[Kind] = set()
    for _, file in zip(range(SAMPLED_FILES), files, strict=False):
        if kind := _kind_of(file):
            found.add(kind)
    return found


def _kind_of(file: Path) -> Kind | None:
    """The kind of a JSONL file by its first lines: an agent's session, or memories; None for neither."""
    if (session := session_of(file, Scope())) is not None:
        return session.agent
    for line in head(file, HEAD_BYTES).split(b"\n")[:10]:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        return "memories" if isinstance(row, dict) and isinstance(row.get("text"), str) else None
    return None


def head(file: Path, count: int) -> bytes:
    """The first bytes of a regular file; empty for any other entry, and without permission."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as opened:
            return opened.read(count) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    except OSError:
        return b""


def _check_entry(is_one: Callable[..., bool]) -> bool:
    """Calls ``entry.is_dir`` or ``entry.is_file`` for the entry itself and not the target of a link."""
    try:
        return is_one(follow_symlinks=False)
    except OSError:
        return False


def _bytes(file: Path) -> int:
    try:
        return file.lstat().st_size
    except OSError:  # gone since it was listed
        return 0


def _is_printable(name: str) -> bool:
    """Whether a name can be printed and written into a settings file."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return name.isprintable()
