"""Writing to a user's file: what must never be lost, what is refused, and how a change is taken back."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.markdown.workspace_file import WorkspaceFile, _appended, keeps_every_line
from fusion.errors import BadInput, NotFound

NOW = datetime(2026, 3, 4, tzinfo=UTC)
HEADING = "## Remembered"
OLD = "# Facts\n\n- Ada sails."


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def file(workspace: Path, tmp_path: Path) -> WorkspaceFile:
    return WorkspaceFile(workspace, "MEMORY.md", tmp_path / "home" / "records")


class ChangedMeanwhile(WorkspaceFile):
    """A file that an editor saves just before it is read for the last time."""

    reads = 0

    def _read(self, folder: int) -> bytes | None:
        self.reads += 1
        if self.reads == 2:
            (self.folder / self.name).write_text("saved by an editor\n")
        return super()._read(folder)


class Killed(WorkspaceFile):
    """A process that is killed before the file is replaced."""

    def _replace(self, folder: int, old: bytes | None, new: bytes | None) -> None:
        raise KeyboardInterrupt


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_lines_are_appended_and_taken_back(file: WorkspaceFile, workspace: Path) -> None:
    """Below one heading; each undo gives the bytes of before, the latest first, and the file's mode stays."""
    memory = workspace / "MEMORY.md"
    memory.write_text(OLD)
    memory.chmod(0o640)
    first = file.append(HEADING, ["- Chains come from Kedjan."], ["e1"], NOW)
    second = file.append(HEADING, ["- The boat is red."], ["e2"], NOW)
    assert memory.read_text() == f"{OLD}\n\n{HEADING}\n\n- Chains come from Kedjan.\n- The boat is red.\n"
    assert memory.stat().st_mode & 0o777 == 0o640
    assert [(change.name, change.state, change.events) for change in file.changes()] == [
        ("w1", "done", ("e1",)),
        ("w2", "done", ("e2",)),
    ]
    with pytest.raises(BadInput, match="take later changes back first"):
        file.undo(first.name)
    file.undo(second.name)
    file.undo(first.name)
    assert memory.read_text() == OLD
    with pytest.raises(BadInput, match="taken back already"):
        file.undo(first.name)
    with pytest.raises(NotFound):
        file.undo("w9")
    assert listing(workspace) == ["MEMORY.md"]


def test_a_new_file_is_taken_back_as_none(file: WorkspaceFile, workspace: Path) -> None:
    file.append(HEADING, ["- one"], [], NOW)
    assert (workspace / "MEMORY.md").read_text() == f"{HEADING}\n\n- one\n"
    file.undo("w1")
    assert listing(workspace) == []


def test_a_file_that_changed_meanwhile_is_not_replaced(workspace: Path, tmp_path: Path) -> None:
    """What an editor saved stays, and nothing is left behind."""
    (workspace / "MEMORY.md").write_text(OLD)
    file = ChangedMeanwhile(workspace, "MEMORY.md", tmp_path / "records")
    with pytest.raises(BadInput, match="changed by another program"):
        file.append(HEADING, ["- one"], [], NOW)
    assert (workspace / "MEMORY.md").read_text() == "saved by an editor\n"
    assert listing(workspace) == ["MEMORY.md"]


def test_an_edited_file_is_not_taken_back(file: WorkspaceFile, workspace: Path) -> None:
    """The edits would be lost; the reason names the copy."""
    file.append(HEADING, ["- one"], [], NOW)
    memory = workspace / "MEMORY.md"
    memory.write_text(memory.read_text() + "- by hand\n")
    with pytest.raises(BadInput, match=r"w1\.before"):
        file.undo("w1")
    assert memory.read_text().endswith("- by hand\n")


def test_an_interrupted_change_leaves_the_file_and_can_be_taken_back(
    file: WorkspaceFile, workspace: Path, tmp_path: Path
) -> None:
    """Killed after the copy and before the replacement: nothing has happened to the file."""
    (workspace / "MEMORY.md").write_text(OLD)
    killed = Killed(workspace, "MEMORY.md", tmp_path / "home" / "records")
    with pytest.raises(KeyboardInterrupt):
        killed.append(HEADING, ["- one"], ["e1"], NOW)
    assert (workspace / "MEMORY.md").read_text() == OLD
    assert [change.state for change in file.changes()] == ["planned"]
    assert file.undo("w1").state == "undone"
    assert file.append(HEADING, ["- two"], [], NOW).name == "w2"


@pytest.mark.parametrize("kind", ["link to a file", "link to nothing", "folder", "pipe", "second name"])
def test_what_is_no_plain_file_is_refused(file: WorkspaceFile, workspace: Path, tmp_path: Path, kind: str) -> None:
    """And what it leads to is not touched."""
    other = tmp_path / "other.md"
    other.write_text("precious")
    memory = workspace / "MEMORY.md"
    match kind:
        case "link to a file":
            memory.symlink_to(other)
        case "link to nothing":
            memory.symlink_to(tmp_path / "nothing")
        case "folder":
            memory.mkdir()
        case "pipe":
            os.mkfifo(memory)
        case _:
            memory.hardlink_to(other)
    with pytest.raises(BadInput, match="not writ"):
        file.append(HEADING, ["- one"], [], NOW)
    assert other.read_text() == "precious"
    assert not (tmp_path / "nothing").exists()
    assert listing(workspace) == ["MEMORY.md"]


def test_a_workspace_behind_a_link_is_refused(workspace: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(workspace)
    for folder in (link, tmp_path / "missing"):
        with pytest.raises(BadInput):
            WorkspaceFile(folder, "MEMORY.md", tmp_path / "records").append(HEADING, ["- one"], [], NOW)
    assert listing(workspace) == []


LINES = st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=10), max_size=3)


@given(st.binary(max_size=60), LINES)
def test_no_append_loses_a_line(old: bytes, lines: list[str]) -> None:
    """Whatever the bytes of the file: it begins as before, and its last line stays a line of its own."""
    new = _appended(old, HEADING, lines)
    kept = old.removesuffix(b"\n").split(b"\n") if old else []
    assert keeps_every_line(old, new)
    assert new.split(b"\n")[: len(kept)] == kept


@pytest.mark.parametrize(("old", "new"), [(b"a\nb\n", b"a\n"), (b"a\n", b"b\na\n"), (b"a", b"ab\n"), (b"a\n", b"")])
def test_a_change_that_loses_a_line_does_not_pass(old: bytes, new: bytes) -> None:
    assert not keeps_every_line(old, new)
