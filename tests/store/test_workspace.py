"""Writing to a user's files: what must never be lost, what is refused, and how a change is taken back."""

from __future__ import annotations

import errno
import os
import resource
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fusion.errors import BadInput, NotFound, StoreFull
from fusion.store.workspace import KEPT_COPIES, LOCK_FILE, MAX_BYTES, Change, EditedMeanwhile, TooMuchLost, Workspace

NOW = datetime(2026, 3, 4, tzinfo=UTC)
OLD = "# Facts\n\n- Ada sails."
MEMORY = "MEMORY.md"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def workspace(root: Path, tmp_path: Path) -> Workspace:
    return Workspace(root, tmp_path / "home" / "records")


def write(workspace: Workspace, text: str | None, path: str = MEMORY, max_loss: float = 1) -> Change:
    new = None if text is None else text.encode()
    return workspace.write(workspace.read(path), new, by="distill", now=NOW, max_loss=max_loss)


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class EditedAtRead(Workspace):
    """A workspace in which an editor saves right before the file is read for the ``edit_at``-th time."""

    def __init__(self, root: Path, records: Path, edit_at: int, edit: Callable[[Path], object]) -> None:
        super().__init__(root, records)
        self._reads, self._edit_at, self._edit = 0, edit_at, edit

    def _open(self, folder: int, path: str) -> int | None:
        self._reads += 1
        if self._reads == self._edit_at:
            self._edit(self.root / path)
        return super()._open(folder, path)


class Killed(Workspace):
    """A process that is killed before the file is replaced."""

    def _replace(self, folder: int, path: str, old: bytes | None, new: bytes | None) -> None:
        raise KeyboardInterrupt


class NoFolderLocks(Workspace):
    """A file system that cannot lock a folder, as NFS."""

    def flock(self, fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        super().flock(fd)


def test_a_file_is_replaced_and_taken_back(workspace: Workspace, root: Path) -> None:
    """Each undo gives the bytes of before, the latest first, and the file's mode stays. The log names who wrote."""
    memory = root / MEMORY
    memory.write_text(OLD)
    memory.chmod(0o640)
    first = write(workspace, f"{OLD}\n- Chains come from Kedjan.\n")
    second = write(workspace, "# Facts\n\n- Ada sails a red boat.\n")
    assert memory.read_text() == "# Facts\n\n- Ada sails a red boat.\n"
    assert memory.stat().st_mode & 0o777 == 0o640
    assert [(change.name, change.state, change.by) for change in workspace.changes(MEMORY)] == [
        ("w1", "done", "distill"),
        ("w2", "done", "distill"),
    ]
    with pytest.raises(BadInput, match="take later changes back first"):
        workspace.undo(first.name)
    workspace.undo(second.name)
    workspace.undo(first.name)
    assert memory.read_text() == OLD
    assert memory.stat().st_mode & 0o777 == 0o640
    with pytest.raises(BadInput, match="taken back already"):
        workspace.undo(first.name)
    with pytest.raises(NotFound):
        workspace.undo("w9")
    assert listing(root) == [MEMORY]


def test_new_files_and_folders_are_private_and_taken_back_as_none(workspace: Workspace, root: Path) -> None:
    write(workspace, "one\n", "memory/reflect/2026-03-04.md")
    made = root / "memory" / "reflect"
    assert made.stat().st_mode & 0o777 == 0o700
    assert (made / "2026-03-04.md").stat().st_mode & 0o777 == 0o600
    workspace.undo("w1")
    assert listing(made) == []


def test_a_deleted_file_is_taken_back(workspace: Workspace, root: Path) -> None:
    (root / MEMORY).write_text(OLD)
    write(workspace, None)
    assert listing(root) == []
    workspace.undo("w1")
    assert (root / MEMORY).read_text() == OLD


def of_run(workspace: Workspace, text: str | None, path: str, run: str = "j7") -> None:
    new = None if text is None else text.encode()
    workspace.write(workspace.read(path), new, by="extract", now=NOW, max_loss=1, run=run)


def test_a_run_is_taken_back_as_a_whole(workspace: Workspace, root: Path) -> None:
    """What it changed twice, made and deleted; not what another run changed."""
    (root / MEMORY).write_text(OLD)
    (root / "old.md").write_text("old")
    write(workspace, "by another", "other.md")
    of_run(workspace, "one", MEMORY)
    of_run(workspace, "two", MEMORY)
    of_run(workspace, "new", "new.md")
    of_run(workspace, None, "old.md")
    assert [one.name for one in workspace.undo_run("j7", dry_run=True)] == ["w5", "w4", "w3", "w2"]
    assert (root / MEMORY).read_text() == "two"
    assert {one.state for one in workspace.undo_run("j7")} == {"undone"}
    assert (root / MEMORY).read_text() == OLD
    assert (root / "old.md").read_text() == "old"
    assert listing(root) == [MEMORY, "old.md", "other.md"]
    with pytest.raises(BadInput, match="taken back already"):
        workspace.undo_run("j7")
    with pytest.raises(NotFound, match="j9 changed no file"):
        workspace.undo_run("j9")


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_run_is_not_taken_back_in_part(workspace: Workspace, root: Path, dry_run: bool) -> None:
    """A person has edited one of its files: the other one stays as well."""
    of_run(workspace, "one", MEMORY)
    of_run(workspace, "new", "new.md")
    (root / MEMORY).write_text("one, and my words")
    with pytest.raises(BadInput, match=r"MEMORY\.md was changed after w1"):
        workspace.undo_run("j7", dry_run=dry_run)
    assert (root / "new.md").read_text() == "new"
    assert {one.state for one in workspace.changes()} == {"done"}


def test_the_rest_of_a_run_is_taken_back(workspace: Workspace, root: Path) -> None:
    """One change was taken back alone, and one was interrupted before the file was replaced."""
    of_run(workspace, "one", MEMORY)
    of_run(workspace, "new", "new.md")
    of_run(workspace, "newer", "newer.md")
    workspace.undo("w1")
    (root / "newer.md").unlink()
    assert [one.name for one in workspace.undo_run("j7")] == ["w3", "w2"]
    assert listing(root) == []


def saved(path: Path) -> None:
    """An editor that saves a new file in the place of the old one."""
    (fresh := path.with_suffix(".swap")).write_text("saved by an editor\n")
    fresh.replace(path)


def added(path: Path) -> None:
    """A program that appends to the file."""
    with path.open("a") as file:
        file.write("\nby hand")


@pytest.mark.feature("an edit of a workspace file while it is rewritten is kept")
@pytest.mark.parametrize("at", [2, 3], ids=["before the lock", "right before the rename"])
@pytest.mark.parametrize("edit", [saved, added, Path.unlink])
def test_an_edit_meanwhile_wins(tmp_path: Path, root: Path, at: int, edit: Callable[[Path], object]) -> None:
    """Nothing is left behind, the log has no change, and the writer may redo it."""
    (root / MEMORY).write_text(OLD)
    workspace = EditedAtRead(root, tmp_path / "records", at, edit)
    with pytest.raises(EditedMeanwhile):
        write(workspace, "ours\n")
    expected = {saved: "saved by an editor\n", added: f"{OLD}\nby hand"}.get(edit)
    assert ((root / MEMORY).read_text() if expected else None) == expected
    assert listing(root) == ([MEMORY] if expected else [])
    assert workspace.changes() == []
    write(workspace, "ours\n")
    assert (root / MEMORY).read_text() == "ours\n"


class WrittenWhileReplaced(Workspace):
    """An editor has the file open, and writes into it in the moment in which it is replaced."""

    def _open(self, folder: int, path: str) -> int | None:
        fd = super()._open(folder, path)
        if list(self.root.glob(".*.new")):
            self.after_read = os.open(self.root / path, os.O_WRONLY | os.O_APPEND)
        return fd

    def rename(self, old: str, new: str, folder: int) -> None:
        if old.endswith(".new"):
            os.write(self.after_read, b"\nby hand")
            os.close(self.after_read)
        super().rename(old, new, folder)


def test_what_is_written_into_the_old_file_while_it_is_replaced_wins(tmp_path: Path, root: Path) -> None:
    (root / MEMORY).write_text(OLD)
    with pytest.raises(EditedMeanwhile):
        write(WrittenWhileReplaced(root, tmp_path / "records"), "ours\n")
    assert (root / MEMORY).read_text() == f"{OLD}\nby hand"
    assert listing(root) == [MEMORY]


def test_an_edited_file_is_not_taken_back(workspace: Workspace, root: Path) -> None:
    """The edits would be lost; the reason names the copy."""
    (root / MEMORY).write_text(OLD)
    write(workspace, "ours\n")
    added(root / MEMORY)
    with pytest.raises(BadInput, match=r"w1\.before"):
        workspace.undo("w1")
    assert (root / MEMORY).read_text() == "ours\n\nby hand"


def test_a_change_that_loses_much_is_refused(workspace: Workspace, root: Path) -> None:
    """More than a quarter of the lines by default; the reason has the share and the first line that would be lost."""
    facts = [f"- Boat {number} has the sail number {number * 37:03}." for number in range(8)]
    (root / MEMORY).write_text("\n".join(facts))
    with pytest.raises(TooMuchLost, match=r"would lose 3\d% .*25%.* 3 lines, the first: '- Boat 5"):
        write(workspace, "\n".join(facts[:5]), max_loss=0.25)
    with pytest.raises(TooMuchLost, match="100%"):
        write(workspace, None, max_loss=0.25)
    assert workspace.changes() == []
    assert write(workspace, "\n".join(facts[:6]), max_loss=0.25).state == "done"


def test_an_interrupted_change_leaves_the_file_and_can_be_taken_back(
    workspace: Workspace, root: Path, tmp_path: Path
) -> None:
    """Killed after the copy and before the replacement: nothing has happened to the file."""
    (root / MEMORY).write_text(OLD)
    with pytest.raises(KeyboardInterrupt):
        write(Killed(root, tmp_path / "home" / "records"), "ours\n")
    assert (root / MEMORY).read_text() == OLD
    assert [change.state for change in workspace.changes()] == ["planned"]
    assert workspace.undo("w1").state == "undone"
    assert write(workspace, "ours\n").name == "w2"


KILLED_AT_EACH_LINE = """
import os, shutil, sys
from datetime import UTC, datetime
from pathlib import Path
from fusion.store import workspace as module

root, records = Path(sys.argv[1]), Path(sys.argv[2])
OLD, NEW, now = b"the old text\\n", b"the new text\\n" * 50, datetime(2026, 3, 4, tzinfo=UTC)
memory, here = root / "memory" / "MEMORY.md", module.__file__
space, killed = module.Workspace(root, records), 0
os.fsync = lambda fd: None  # a killed process leaves what it wrote to the system, which is faster

def write(text):
    space.write(space.read("memory/MEMORY.md"), text, by="distill", now=now, max_loss=1)

while True:
    shutil.rmtree(records, ignore_errors=True)
    memory.unlink(missing_ok=True)
    write(OLD)
    if not os.fork():
        left = killed
        def count(frame, event, _):
            global left
            if frame.f_code.co_filename == here and event == "line":
                left -= 1
                if left < 0:
                    os._exit(9)
            return count
        sys.settrace(count)
        write(NEW)
        os._exit(0)
    ended = os.waitstatus_to_exitcode(os.wait()[1])
    assert memory.read_bytes() in (OLD, NEW), killed
    changes = [one for one in space.changes() if one.state == "planned"]
    assert len(changes) <= 1
    for change in changes:
        space.undo(change.name)
        assert memory.read_bytes() == OLD, killed
    write(OLD + bytes(str(killed), "ascii"))
    assert os.listdir(memory.parent) == ["MEMORY.md"], killed
    if not ended:
        break
    killed += 1
print(killed)
"""


@pytest.mark.feature("a writer of the workspace that is killed at any statement leaves the old file or the new one")
def test_a_writer_that_is_killed_at_any_statement_leaves_a_whole_file(root: Path, tmp_path: Path) -> None:
    """The old text or the new one; what was interrupted can be taken back, and the next write leaves no other file."""
    command = [sys.executable, "-c", KILLED_AT_EACH_LINE, str(root), str(tmp_path / "records")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100


@pytest.mark.feature("a full disk leaves a file of the workspace whole")
def test_a_full_disk_leaves_the_old_file(workspace: Workspace, root: Path) -> None:
    (root / MEMORY).write_text(OLD)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, hard))
    try:
        with pytest.raises(StoreFull):
            write(workspace, "ours\n" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (root / MEMORY).read_text() == OLD
    assert listing(root) == [MEMORY]
    write(workspace, "ours\n" * 1000)
    workspace.undo("w2")
    assert (root / MEMORY).read_text() == OLD


@pytest.mark.parametrize("kind", ["link to a file", "link to nothing", "folder", "pipe", "second name"])
def test_what_is_no_plain_file_is_refused(workspace: Workspace, root: Path, tmp_path: Path, kind: str) -> None:
    """And what it leads to is not touched."""
    other = tmp_path / "other.md"
    other.write_text("precious")
    memory = root / MEMORY
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
        write(workspace, "ours\n")
    assert other.read_text() == "precious"
    assert not (tmp_path / "nothing").exists()
    assert listing(root) == [MEMORY]


@pytest.mark.parametrize("path", ["../out.md", "/etc/out.md", "a/../../out.md", "", "a//b.md", "a\nb.md", LOCK_FILE])
def test_a_path_outside_the_workspace_is_refused(workspace: Workspace, tmp_path: Path, path: str) -> None:
    with pytest.raises(BadInput, match="no path of a file"):
        workspace.read(path)
    assert not (tmp_path / "out.md").exists()


def test_a_folder_that_is_a_link_is_refused(workspace: Workspace, root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (root / "memory").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInput):
        write(workspace, "ours\n", "memory/interactions.md")
    assert listing(tmp_path / "elsewhere") == []


def test_a_workspace_behind_a_link_is_refused(root: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(root)
    for folder in (link, tmp_path / "missing"):
        with pytest.raises(BadInput):
            write(Workspace(folder, tmp_path / "records"), "ours\n")
    assert listing(root) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_refused(workspace: Workspace, root: Path) -> None:
    (root / MEMORY).write_text(OLD)
    os.chown(root / MEMORY, 12345, 12345)
    with pytest.raises(BadInput, match="belongs to another user"):
        write(workspace, "ours\n")
    assert (root / MEMORY).read_text() == OLD


def test_a_text_of_many_megabytes_is_refused(workspace: Workspace, root: Path) -> None:
    with pytest.raises(BadInput, match="bytes"):
        write(workspace, "x" * (MAX_BYTES + 1))
    assert listing(root) == []


def lines_of_two_gateways(kind: type[Workspace], root: Path, tmp_path: Path) -> list[str]:
    """The lines of a file to which two gateways with homes of their own append at once; each redoes what is refused."""

    def append(host: str) -> None:
        workspace = kind(root, tmp_path / host / "records", lock_s=60)
        for number in range(25):
            while True:
                read = workspace.read(MEMORY)
                try:
                    workspace.write(read, (read.data or b"") + f"{host} {number}\n".encode(), by=host, now=NOW)
                    break
                except EditedMeanwhile:
                    continue

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(append, ("a", "b")))
    return sorted((root / MEMORY).read_text().splitlines())


@pytest.mark.feature("two gateways that write to one workspace lose none of each other's changes")
@pytest.mark.parametrize("kind", [Workspace, NoFolderLocks])
def test_two_gateways_on_one_workspace_lose_nothing(kind: type[Workspace], root: Path, tmp_path: Path) -> None:
    """Each has its own log of changes. Where a folder cannot be locked, as on NFS, a hidden file is the lock."""
    assert lines_of_two_gateways(kind, root, tmp_path) == sorted(f"{host} {n}" for host in "ab" for n in range(25))
    assert listing(root) == ([MEMORY] if kind is Workspace else [LOCK_FILE, MEMORY])


def test_a_writer_that_waits_too_long_for_another_gives_up(workspace: Workspace, root: Path, tmp_path: Path) -> None:
    (root / MEMORY).write_text(OLD)
    impatient = Workspace(root, tmp_path / "other", lock_s=0)
    with workspace._locked(), pytest.raises(BadInput, match="another program has been writing"):
        write(impatient, "ours\n")
    write(impatient, "ours\n")


def test_copies_are_bounded(workspace: Workspace, root: Path) -> None:
    """Of each file the newest are kept; an older change says that it cannot be taken back. Other files keep theirs."""
    write(workspace, "first\n", "memory/interactions.md")
    write(workspace, "second\n", "memory/interactions.md")
    for number in range(KEPT_COPIES + 3):
        write(workspace, f"{number}\n")
    copies = {path.stem for path in workspace.records.glob("*.before")}
    assert len(copies) == KEPT_COPIES + 1
    assert "w2" in copies
    last = workspace.changes(MEMORY)[-1]
    for change in reversed(workspace.changes(MEMORY)[3:]):
        workspace.undo(change.name)
    assert (root / MEMORY).read_text() == "2\n"
    with pytest.raises(BadInput, match="too old to be taken back"):
        workspace.undo("w5")
    assert last.state == "done"
