"""Folders of notes and of agents' sessions, found by names and small heads, within a time and a number of entries.

Known places first, then the folders that people keep notes in, then those that were named. A folder inside another find
is part of it. Links are not followed, hidden folders not entered, and nothing is opened but the heads of `.json` and
`.jsonl` files and databases that may be what they are called.
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
"""names looked at, at most"""
DEPTH = 8
"""of folders below a find, for counting"""
VAULT_DEPTH = 3
"""of folders below home and Documents, for looking for vaults"""
HEAD_BYTES = 65_536
HEADS = 20
"""files of a folder whose heads are read, until one says what they are"""
LARGE_FILES, LARGE_BYTES = 5_000, 64_000_000
"""notes beyond this take minutes to be read in: nobody should be surprised by that"""
LARGE_SESSION_BYTES = 256_000_000
"""of session files, most of which is what tools said and is left out"""

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
"""of a folder that one works in, those that may be memory"""


@dataclass(frozen=True, slots=True)
class Find:
    """Something that could become memory. ``paths`` are what to read, ``where`` is what to call it.

    ``files`` and ``bytes`` are at least so many if not ``complete``. ``large``: reading it in takes a while.
    """

    kind: Kind
    where: Path
    paths: tuple[Path, ...]
    files: int
    bytes: int
    complete: bool = True

    @property
    def group(self) -> Group:
        """What it is used as, and asked about together with."""
        if self.kind in ("claude-code", "openclaw"):
            return "sessions"
        return "memories" if self.kind == "memories" else "notes"

    @property
    def large(self) -> bool:
        if self.group == "sessions":
            return self.bytes > LARGE_SESSION_BYTES
        return self.files > LARGE_FILES or self.bytes > LARGE_BYTES or not self.complete


@dataclass(frozen=True, slots=True)
class Found:
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
) -> Found:
    """Everything that is found below ``user`` (a home folder), in ``cwd`` and in ``scan``, but not in ``never``."""
    look = _Look(time.monotonic() + seconds, entries, frozenset(path.absolute() for path in never))
    user, cwd = user.absolute(), cwd.absolute()
    finds = [
        *_openclaw(look, user),
        *_claude_code(look, user),
        *_obsidian(look, user),
        *_notes(look, user, cwd),
        *(one for folder in scan for one in _named(look, user, folder.resolve())),  # a link that is named is meant
    ]
    return Found(tuple(_outermost(finds)), complete=not look.spent)


@dataclass(slots=True)
class _Look:
    """The budget of a search, and all its reading."""

    until: float
    entries: int
    never: frozenset[Path]
    spent: bool = field(default=False)

    def listing(self, folder: Path) -> list[os.DirEntry[str]]:
        """What is in a folder, by name; nothing where we may not look, or when the budget is spent."""
        if self.entries <= 0 or time.monotonic() > self.until:
            self.spent = True
            return []
        if folder in self.never or folder.is_symlink():
            return []
        try:
            with os.scandir(folder) as found:
                listed = sorted((e for e in found if _tellable(e.name)), key=lambda entry: entry.name)
        except OSError:
            return []  # not there, or not ours to look into: nothing was found
        self.entries -= len(listed)
        return listed

    def folders(self, folder: Path) -> list[Path]:
        """The folders in a folder that may be entered: neither hidden, nor links, nor machines' own."""
        entries = self.listing(folder)
        return [folder / e.name for e in entries if not NEVER_READ(e.name, True) and _really(e.is_dir)]

    def files(self, folder: Path, form: Form, depth: int = DEPTH) -> Iterator[Path]:
        """The regular files below a folder that ingest would read so; hidden ones are left out."""
        waiting = [(folder, depth)]
        while waiting:
            here, left = waiting.pop()
            for entry in self.listing(here):
                if entry.name.startswith("."):
                    continue
                path = here / entry.name
                if form_of(path) == form and _really(entry.is_file):
                    yield path
                elif left and not NEVER_READ(entry.name, True) and _really(entry.is_dir):
                    waiting.append((path, left - 1))

    def counted(self, kind: Kind, where: Path, paths: Sequence[Path], form: Form) -> Find | None:
        """A find with how much there is of it; None: nothing."""
        count = size = 0
        before, self.spent = self.spent, False
        for path in paths:
            for file in [path] if path.is_file() else self.files(path, form):
                count, size = count + 1, size + _bytes(file)
        complete, self.spent = not self.spent, self.spent or before
        return Find(kind, where, tuple(paths), count, size, complete) if count else None


# The places ------------------------------------------------------------------------------------------------------


def _openclaw(look: _Look, user: Path) -> Iterator[Find]:
    """Its workspaces, and what its agents said: JSONL, or a database an agent."""
    state = user / ".openclaw"
    workspaces = [folder for folder in look.folders(state) if folder.name.startswith("workspace")]
    for folder in [*workspaces, user / "clawd"]:
        if found := look.counted("workspace", folder, [folder], "markdown"):
            yield found
    talks: list[Path] = []
    for agent in look.folders(state / "agents"):
        sessions = agent / "sessions"
        if any(True for _ in look.files(sessions, "lines", 1)):
            talks.append(sessions)
        database = agent / "agent" / DATABASE
        if head(database, 16) == _SQLITE:
            talks.append(database)
    if talks and (found := look.counted("openclaw", state / "agents", talks, "lines")):
        yield found


def _claude_code(look: _Look, user: Path) -> Iterator[Find]:
    projects = user / ".claude" / "projects"
    if "claude-code" in _spoken(look.files(projects, "lines", 1)):
        found = look.counted("claude-code", projects, [projects], "lines")
        if found:
            yield found


def _obsidian(look: _Look, user: Path) -> Iterator[Find]:
    """The vaults on Obsidian's own list, wherever they are, and those that lie where people keep them."""
    listed = [Path(path) for name in _OBSIDIAN for path in _vaults_of(user / name)]
    for folder in dict.fromkeys([*listed, *_vaults_below(look, user, VAULT_DEPTH)]):
        if _is_vault(folder) and (found := look.counted("vault", folder, [folder], "markdown")):
            yield found


def _vaults_of(file: Path) -> list[str]:
    """The paths in an ``obsidian.json``; none in one that is not there or makes no sense."""
    try:
        vaults = json.loads(head(file, HEAD_BYTES))["vaults"].values()
        return [vault["path"] for vault in vaults if _tellable(vault["path"]) and Path(vault["path"]).is_absolute()]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


def _vaults_below(look: _Look, folder: Path, depth: int) -> Iterator[Path]:
    if _is_vault(folder):
        yield folder
    elif depth:
        for inner in look.folders(folder):
            yield from _vaults_below(look, inner, depth - 1)


def _notes(look: _Look, user: Path, cwd: Path) -> Iterator[Find]:
    """Folders for notes, Documents a folder at a time, and what one works in."""
    for folder in look.folders(user):
        if folder.name.lower() == "notes" and (found := look.counted("notes", folder, [folder], "markdown")):
            yield found
    yield from _parts(look, user / "Documents", checkouts=False)
    if cwd == user or user.is_relative_to(cwd):
        return
    if _is_checkout(cwd) and not _is_workspace(cwd):
        parts = [folder for folder in look.folders(cwd) if folder.name in _PROJECT_FOLDERS]
        for folder in parts:
            if found := look.counted("notes", folder, [folder], "markdown"):
                yield found
    else:
        yield from _named(look, user, cwd)


def _named(look: _Look, user: Path, folder: Path) -> Iterator[Find]:
    """What is in a folder that somebody points at: itself if it is one of notes, else its parts; and JSONL files.

    One whose notes all lie loose in it is meant as a whole: the next note is written beside them. But for a home folder
    and what is above it.
    """
    if _is_workspace(folder) or _is_vault(folder):
        kind: Kind = "workspace" if _is_workspace(folder) else "vault"
        if found := look.counted(kind, folder, [folder], "markdown"):
            yield found
    else:
        parts = list(_parts(look, folder, checkouts=True))
        if [one.where for one in parts] == [folder] and not user.is_relative_to(folder):
            parts = [replace(parts[0], paths=(folder,))]
        yield from parts
    spoken: dict[tuple[Kind, Path], list[Path]] = {}
    for file in look.files(folder, "lines", 2):
        if kind_of := _kind_of(file):
            spoken.setdefault((kind_of, file.parent), []).append(file)
    for (kind, parent), files in spoken.items():
        if found := look.counted(kind, files[0] if len(files) == 1 else parent, files, "lines"):
            yield found


def _parts(look: _Look, folder: Path, *, checkouts: bool) -> Iterator[Find]:
    """The folders in a folder that have notes, each on its own, and the notes that lie loose in it.

    Without ``checkouts``, a folder of somebody's code is none of notes, whatever documentation it has.
    """
    if loose := list(look.files(folder, "markdown", 0)):
        found = look.counted("notes", folder, loose, "markdown")
        if found:
            yield found
    for part in look.folders(folder):
        if _is_vault(part) or _is_workspace(part):
            kind: Kind = "vault" if _is_vault(part) else "workspace"
        elif checkouts or not _is_checkout(part):
            kind = "notes"
        else:
            continue
        if found := look.counted(kind, part, [part], "markdown"):
            yield found


def _is_vault(folder: Path) -> bool:
    return (folder / ".obsidian").is_dir() and not folder.is_symlink()


def _is_workspace(folder: Path) -> bool:
    """Whether an agent keeps its memory here, as OpenClaw lays it out."""
    return (folder / "MEMORY.md").is_file()


def _is_checkout(folder: Path) -> bool:
    return (folder / ".git").exists()


def _outermost(finds: Iterable[Find]) -> Iterator[Find]:
    """Each place once, in the order found; what lies within another find of notes is read with it."""
    once: dict[tuple[Path, ...], Find] = {}
    for one in finds:
        once.setdefault(one.paths, one)
    roots = [path for one in once.values() if one.group == "notes" for path in one.paths]

    def inside(path: Path) -> bool:
        return any(root != path and path.is_relative_to(root) for root in roots)

    for one in once.values():
        if one.group == "sessions" or not all(inside(path) for path in one.paths):
            yield one


# Heads -----------------------------------------------------------------------------------------------------------


def markdown_files(path: Path) -> list[Path]:
    """The notes below a folder, or the one that is named, looked for during a second at most."""
    if path.is_file():
        return [path]
    look = _Look(time.monotonic() + 1.0, 10_000, frozenset())
    return list(look.files(path, "markdown"))


def _spoken(files: Iterable[Path]) -> set[Kind]:
    """What the first few of some JSONL files are."""
    found: set[Kind] = set()
    for _, file in zip(range(HEADS), files, strict=False):
        if kind := _kind_of(file):
            found.add(kind)
    return found


def _kind_of(file: Path) -> Kind | None:
    """What the first lines of a file say that it is: a session, as ingest would know it, or memories."""
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
    """The first bytes of a regular file; nothing of anything else, or of what we may not read."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as opened:
            return opened.read(count) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    except OSError:
        return b""


def _really(is_one: Callable[..., bool]) -> bool:
    """Whether an entry itself, not what it may link to, is one: ask ``entry.is_dir`` or ``entry.is_file``."""
    try:
        return is_one(follow_symlinks=False)
    except OSError:
        return False


def _bytes(file: Path) -> int:
    try:
        return file.lstat().st_size
    except OSError:  # it went away since it was listed
        return 0


def _tellable(name: str) -> bool:
    """Whether a name can be printed, and written into a configuration."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return name.isprintable()
