"""Old scratch notes go into the archive folder of their workspace."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fusion.errors import BadInput
from fusion.store.workspace import Workspace
from fusion.upkeep.scratch import Scratch, archive, old_notes

NOW = datetime(2026, 3, 14, 12, 0, tzinfo=UTC)
SCRATCH = Scratch(["scratch/", "*.scratch.md", "MEMORY.md"], timedelta(days=7))


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "agent").mkdir()
    return Workspace((tmp_path / "agent").resolve(), tmp_path / "home" / "workspace")


def _note(workspace: Workspace, path: str, text: str = "a thought\n", days: float = 30) -> Path:
    file = workspace.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    at = (NOW - timedelta(days=days)).timestamp()
    os.utime(file, (at, at))
    return file


def test_old_notes_are_the_files_that_a_pattern_names_and_nobody_changed(workspace: Workspace) -> None:
    for path in (
        "memory/scratch/deep/a.md",
        "b.scratch.md",
        "memory/2026-02-01.md",
        "MEMORY.md",
        ".hidden/scratch/c.md",
    ):
        _note(workspace, path)
    _note(workspace, "scratch/new.md", days=1)
    (workspace.root / "scratch" / "link.md").symlink_to(workspace.root / "MEMORY.md")
    assert old_notes(workspace.root, SCRATCH, NOW) == ["b.scratch.md", "memory/scratch/deep/a.md"]
    assert old_notes(workspace.root, Scratch(), NOW) == []


def test_archive_moves_a_note_and_undo_brings_it_back(workspace: Workspace) -> None:
    note = _note(workspace, "memory/scratch/a.md")
    moved = archive(workspace, "memory/scratch/a.md", NOW)
    assert not note.exists()
    assert (workspace.root / moved.to).read_text(encoding="utf-8") == "a thought\n"
    workspace.undo(moved.change)
    assert note.read_text(encoding="utf-8") == "a thought\n"
    assert archive(workspace, "memory/scratch/a.md", NOW).to == moved.to  # its copy is there already


def test_archive_keeps_an_earlier_note_of_the_same_name(workspace: Workspace) -> None:
    _note(workspace, "scratch/a.md", "one\n")
    first = archive(workspace, "scratch/a.md", NOW)
    _note(workspace, "scratch/a.md", "two\n")
    second = archive(workspace, "scratch/a.md", NOW)
    assert first.to != second.to
    assert [(workspace.root / one.to).read_text(encoding="utf-8") for one in (first, second)] == ["one\n", "two\n"]


def test_archive_follows_no_link(workspace: Workspace, tmp_path: Path) -> None:
    _note(workspace, "scratch/a.md")
    (workspace.root / ".archive").symlink_to(tmp_path)
    with pytest.raises(BadInput):
        archive(workspace, "scratch/a.md", NOW)
    assert (workspace.root / "scratch" / "a.md").exists()
