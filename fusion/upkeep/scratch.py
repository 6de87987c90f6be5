"""Moves old scratch notes of a workspace into its archive folder. Nothing is deleted."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path, PurePosixPath

from fusion.lib.ignore import ALWAYS, matcher
from fusion.store.workspace import Workspace

ARCHIVE = ".archive"
"""the workspace's folder for archived notes; it is hidden, so readers of notes skip it"""
NEVER = frozenset({"MEMORY.md", "memory.md", "SOUL.md", "AGENTS.md", "TOOLS.md", "USER.md", "IDENTITY.md"})
"""files that an agent's host loads into every session; they are never scratch notes, even if a pattern matches"""
BY = "shepherd"


@dataclass(frozen=True, slots=True)
class Scratch:
    """Which files are scratch notes, as patterns of .gitignore, and how long they stay after their last change."""

    patterns: Sequence[str] = ()
    keep: timedelta = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Archived:
    """A moved note: its path before and after, and the change that `fusion undo` takes."""

    path: str
    to: str
    change: str = ""


def old_notes(root: Path, scratch: Scratch, now: datetime) -> list[str]:
    """The scratch notes below ``root`` that did not change for ``scratch.keep``: plain files, no links."""
    fits, skips = matcher(scratch.patterns), matcher(ALWAYS)
    until = (now - scratch.keep).timestamp()

    def is_old(entry: os.DirEntry[str]) -> bool:
        return entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_mtime < until

    def below(folder: Path, path: str, whole: bool) -> Iterator[str]:
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                name = f"{path}{entry.name}"
                is_folder = entry.is_dir(follow_symlinks=False)
                if skips(name, is_folder):
                    continue
                if is_folder:
                    yield from below(Path(entry.path), f"{name}/", whole or fits(name, True))
                elif (whole or fits(name, False)) and is_old(entry) and name not in NEVER:
                    yield name

    return list(below(root, "", False)) if scratch.patterns else []


def archive(workspace: Workspace, path: str, now: datetime, run: str = "") -> Archived:
    """Copy a note into the archive, then delete it. Raises as `Workspace.write` does."""
    read = workspace.read(path)
    place = PurePosixPath(ARCHIVE, path)
    target = workspace.read(str(place))
    if target.data not in (None, read.data):  # an earlier note of the same name
        place = place.with_name(f"{place.stem}-{sha256(read.data or b'').hexdigest()[:8]}{place.suffix}")
        target = workspace.read(str(place))
    if target.data != read.data:
        workspace.write(target, read.data, by=BY, now=now, max_loss=1, run=run)
    change = workspace.write(read, None, by=BY, now=now, max_loss=1, run=run)
    return Archived(path, str(place), change.name)
