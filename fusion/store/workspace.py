"""Writes files of the user's workspace safely; the gateway writes to a user's folder in no other way.

A writer reads a file, makes the new text, and passes both to `Workspace.write`. This reads the file again and replaces
it in one step. If the file differs from what the writer read, somebody edited it: the edit is kept, and the writer may
read it and try again. Before the replacement, a copy of the file and the planned change are stored in the gateway's own
folder, so that every change can be undone. A change that would lose much of the earlier text is refused.

No link is followed, no path leads out of the workspace, and no file of another user is written. Gateways that share a
workspace take turns, by a lock on the folder. Editors hold no lock: what an editor saves into the same file while it is
replaced is restored, but a new file that it saves under the same name at that very moment is overwritten.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Literal

from fusion.errors import BadInput, NotFound, StoreFull
from fusion.lib.loss import loss as share_lost
from fusion.lib.loss import lost_lines

MAX_LOSS = 0.25
"""share of a file's earlier lines, or characters, that a change may lose"""
MAX_BYTES = 16 << 20
"""maximum size of a file that is read and written"""
KEPT_COPIES = 50
"""copies that are kept of each file; older changes cannot be undone"""
KEPT_CHANGES = 1000
"""records of changes that are kept; records that name events are kept longer"""
LOCK_S = 10.0
"""maximum seconds that a writer waits for another one"""
LOCK_FILE = ".memory-fusion.lock"
"""the lock file on file systems that cannot lock a folder, such as NFS"""

ChangeState = Literal["planned", "done", "undone"]


class EditedMeanwhile(BadInput):
    """Somebody edited the file after the writer read it. Nothing was written: read the file again and retry."""


class TooMuchLost(BadInput):
    """The new text would lose too much of the earlier one. Nothing was written."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A file as it was read; ``data`` is None if it did not exist."""

    path: str
    data: bytes | None

    @property
    def text(self) -> str:
        return (self.data or b"").decode("utf-8", "replace")

    @property
    def hash(self) -> str:
        return hash_of(self.data)


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a file: its number, who made it, and the SHA-256 of the file before and after.

    A hash is "" if there was no file. A ``planned`` change was interrupted, and may not have taken place. ``events``
    are the memories for which ``lines`` were added, if the writer names them.
    """

    number: int
    at: str
    lines: tuple[str, ...]
    events: tuple[str, ...]
    before: str
    after: str
    state: ChangeState = "planned"
    path: str = "MEMORY.md"
    by: str = "promote"
    run: str = ""
    """the run of the job that made it, as `j12`"""

    @property
    def name(self) -> str:
        return f"w{self.number}"


class Workspace:
    """The folder ``root`` of the user; ``records`` is the gateway's folder for the copies and the log of changes."""

    def __init__(self, root: Path, records: Path, *, lock_s: float = LOCK_S) -> None:
        self.root, self.records = root, records
        self._lock_s = lock_s

    def read(self, path: str) -> Snapshot:
        """Read a file of the workspace. Raises BadInput for a link, a special file and a file of another user."""
        with self._opened() as root, self._folder(root, path) as folder:
            return Snapshot(path, None if folder is None else self._read(folder, path))

    def names(self, folder: str) -> list[str]:
        """The names of the regular files in a folder of the workspace; empty if the folder does not exist."""
        with self._opened() as root, self._folder(root, f"{folder}/-") as fd:
            if fd is None:
                return []
            with os.scandir(fd) as listing:
                return sorted(entry.name for entry in listing if entry.is_file(follow_symlinks=False))

    def write(
        self,
        read: Snapshot,
        new: bytes | None,
        *,
        by: str,
        now: datetime,
        max_loss: float = MAX_LOSS,
        lines: Sequence[str] = (),
        events: Sequence[str] = (),
        run: str = "",
    ) -> Change:
        """Replace the file that was ``read`` by ``new``, or delete it for None. It keeps its mode; a new one has 0600.

        Raises EditedMeanwhile, TooMuchLost, BadInput if it cannot be written to safely, and StoreFull.
        """
        if new is not None and len(new) > MAX_BYTES:
            raise BadInput(f"{read.path} is not written: it would have more than {MAX_BYTES:,} bytes")
        _check_loss(read, new, max_loss)
        with self._locked() as root, self._folder(root, read.path, make=new is not None) as folder:
            current = None if folder is None else self._read(folder, read.path)
            if current != read.data:
                raise _edited(read.path)
            number = max((change.number for change in self.changes()), default=0) + 1
            change = Change(
                number,
                now.isoformat(),
                tuple(lines),
                tuple(events),
                read.hash,
                hash_of(new),
                path=read.path,
                by=by,
                run=run,
            )
            self._keep(change, read.data, new)
            try:
                if folder is not None:
                    self._replace(folder, read.path, current, new)
            except EditedMeanwhile:
                self._discard(change)
                raise
            done = self._mark(change, "done")
            self._forget_old()
            return done

    def changes(self, path: str | None = None) -> list[Change]:
        """The changes of one file, or of all, the oldest first."""
        found = []
        for file in self.records.glob("w*.json"):
            values = json.loads(file.read_text(encoding="utf-8"))
            found.append(Change(**{**values, "lines": tuple(values["lines"]), "events": tuple(values["events"])}))
        return sorted((one for one in found if path in (None, one.path)), key=lambda change: change.number)

    def happened(self, read: Snapshot) -> list[Change]:
        """The changes of a file that was read just now, the oldest first, without those that were interrupted before
        the file was replaced."""
        changes = self.changes(read.path)
        following = [*(one.before for one in changes), read.hash][1:]
        return [
            one for one, then in zip(changes, following, strict=True) if one.state != "planned" or one.after == then
        ]

    def before(self, change: Change) -> bytes | None:
        """The file's content before a change. Raises BadInput if the copy is deleted or damaged."""
        return _copied(change, change.before, self._copy(change))

    def after(self, change: Change) -> bytes | None:
        """The file's content after a change. Raises BadInput as `before` does."""
        return _copied(change, change.after, self._written(change))

    def undo(self, name: str) -> Change:
        """Take a change back: the file is as it was before. Raises NotFound, and BadInput if it was edited since."""
        with self._locked() as root:
            change = next((one for one in self.changes() if one.name == name), None)
            if change is None:
                raise NotFound(f"there is no change {name!r} of the workspace")
            if change.state == "undone":
                raise BadInput(f"{name} is taken back already")
            return self._undo(root, [change])[0]

    def undo_run(self, run: str, *, dry_run: bool = False) -> list[Change]:
        """Take back all changes of one run of a job, the latest first, or with ``dry_run`` only return them.

        All or none: raises NotFound, and BadInput if one of the files was edited since, before any is changed.
        """
        with self._locked() as root:
            made = [one for one in reversed(self.changes()) if one.run == run]
            if not made:
                raise NotFound(f"the run {run} changed no file of the workspace")
            left = [one for one in made if one.state != "undone"]
            if not left:
                raise BadInput(f"what {run} changed is taken back already")
            return self._undo(root, left, dry_run=dry_run)

    def _undo(self, root: int, changes: Sequence[Change], *, dry_run: bool = False) -> list[Change]:
        """Take changes back in this order, after all of them were checked."""
        found: dict[str, str] = {}
        for change in changes:
            if change.path not in found:
                with self._folder(root, change.path) as folder:
                    found[change.path] = hash_of(None if folder is None else self._read(folder, change.path))
            if self._happened(change, found[change.path]):
                self.before(change)
                found[change.path] = change.before
        return [*changes] if dry_run else [self._undo_one(root, change) for change in changes]

    def _undo_one(self, root: int, change: Change) -> Change:
        with self._folder(root, change.path, make=bool(change.before)) as folder:
            current = None if folder is None else self._read(folder, change.path)
            if self._happened(change, hash_of(current)) and folder is not None:
                self._replace(folder, change.path, current, self.before(change))
            return self._mark(change, "undone")

    def _happened(self, change: Change, now: str) -> bool:
        """Whether the file, which has the hash ``now``, is as a change left it; False if it is as it was before.

        Raises BadInput if it is neither.
        """
        if now not in (change.before, change.after):
            raise BadInput(
                f"{change.path} was changed after {change.name}: take later changes back first, or edit it; "
                f"what it was before is in {self._copy(change)}"
            )
        return now != change.before  # if it is, the change was interrupted before the file was replaced

    def _copy(self, change: Change) -> Path:
        return self.records / f"{change.name}.before"

    def _written(self, change: Change) -> Path:
        return self.records / f"{change.name}.after"

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Lock the workspace and yield its descriptor. Raises BadInput if another writer holds the lock too long."""
        try:
            self.records.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise _named(error, str(self.records)) from error
        with self._opened() as root:
            try:
                lock = self._lock(root)
            except OSError as error:
                raise _named(error, str(self.root)) from error
            try:
                yield root
            finally:
                os.close(lock)

    def _lock(self, root: int) -> int:
        """The descriptor that holds the lock. Closing it releases the lock; so does the end of the process."""
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=root)
        until = time.monotonic() + self._lock_s
        while True:
            try:
                self.flock(fd)
                return fd
            except BlockingIOError:
                if time.monotonic() >= until:
                    os.close(fd)
                    raise BadInput(
                        f"another program has been writing to {self.root} for {self._lock_s:g} s: try again later"
                    ) from None
                time.sleep(0.02)
            except OSError:
                is_folder = stat.S_ISDIR(os.fstat(fd).st_mode)
                os.close(fd)
                if not is_folder:
                    raise
                fd = os.open(LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=root)

    def flock(self, fd: int) -> None:
        """Take the lock of an open file or folder, or raise BlockingIOError."""
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """Yield the workspace's descriptor. Raises BadInput for a link, a missing folder and one of another user."""
        if os.path.realpath(self.root) != str(self.root):
            raise BadInput(f"{self.root} is a link or is behind one: [workspace] root_folder must name the folder")
        try:
            fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise BadInput(f"{self.root} cannot be written to: {error.strerror}") from error
        try:
            _check_owner(fd, str(self.root))
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def _folder(self, root: int, path: str, *, make: bool = False) -> Iterator[int | None]:
        """Yield the descriptor of a path's folder; None if it does not exist and ``make`` is false."""
        *steps, name = path.split("/")
        if not {"", ".", ".."}.isdisjoint([*steps, name]) or not path.isprintable() or name == LOCK_FILE:
            raise BadInput(f"{path!r} is no path of a file in the workspace")
        fd = os.dup(root)
        try:
            for step in steps:
                inner = _open_inner(fd, step, path, make=make)
                if inner is None:
                    yield None
                    return
                os.close(fd)
                fd = inner
            yield fd
        finally:
            os.close(fd)

    def _read(self, folder: int, path: str) -> bytes | None:
        """The bytes of the file; None if it does not exist."""
        opened = self._open(folder, path)
        if opened is None:
            return None
        try:
            return _all(opened, path)
        finally:
            os.close(opened)

    def _open(self, folder: int, path: str) -> int | None:
        """Open the file for reading; None if it does not exist."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            fd = os.open(_name(path), flags, dir_fd=folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BadInput(f"{path} is not written: {error.strerror}") from error
        try:
            about = os.fstat(fd)
            if not stat.S_ISREG(about.st_mode) or about.st_nlink > 1:
                raise BadInput(f"{path} is no regular file of one name, so it is not written")
            _check_owner(fd, path)
            return fd
        except BaseException:
            os.close(fd)
            raise

    def _keep(self, change: Change, old: bytes | None, new: bytes | None) -> None:
        """Store the old content, the plan and the new content durably, before anything in the workspace changes."""
        if old is not None:
            _write_durably(self._copy(change), old)
        self._mark(change, "planned")
        if new is not None:
            _write_durably(self._written(change), new)

    def _discard(self, change: Change) -> None:
        """Delete the records of a change that did not take place."""
        (self.records / f"{change.name}.json").unlink(missing_ok=True)
        self._copy(change).unlink(missing_ok=True)
        self._written(change).unlink(missing_ok=True)

    def _mark(self, change: Change, state: ChangeState) -> Change:
        marked = replace(change, state=state)
        _write_durably(self.records / f"{change.name}.json", json.dumps(asdict(marked)).encode())
        return marked

    def _replace(self, folder: int, path: str, old: bytes | None, new: bytes | None) -> None:
        """Replace the file by ``new``, or delete it for None. Raises EditedMeanwhile if its content is not ``old``.

        If an editor writes into the old file before it is replaced, that edit is restored.
        """
        name, fresh = _name(path), f".{_name(path)}.{os.getpid()}.new"
        opened = None
        try:
            _remove_leftovers(folder, name)
            if new is not None:
                mode = 0o600 if old is None else stat.S_IMODE(os.stat(name, dir_fd=folder).st_mode)
                _write_new(fresh, new, mode, folder)
            opened = self._open(folder, path)
            if (None if opened is None else _all(opened, path)) != old:
                raise _edited(path)
            if new is not None:
                self.rename(fresh, name, folder)
            elif opened is not None:
                os.unlink(name, dir_fd=folder)
            if opened is not None and (edited := _all(opened, path)) != old:
                mode = stat.S_IMODE(os.fstat(opened).st_mode)
                _write_new(saved := f".{name}.{os.getpid()}.edit", edited, mode, folder)
                self.rename(saved, name, folder)
                raise _edited(path)
            os.fsync(folder)
        except OSError as error:
            refused = _named(error, path)
            raise refused from error
        finally:
            if opened is not None:
                os.close(opened)
            with suppress(FileNotFoundError):
                os.unlink(fresh, dir_fd=folder)

    def rename(self, old: str, new: str, folder: int) -> None:
        """Replace the file ``new`` by ``old``, in one step."""
        os.rename(old, new, src_dir_fd=folder, dst_dir_fd=folder)

    def _forget_old(self) -> None:
        """Delete the copies and records over the limits, the oldest first."""
        newest_first = self.changes()[::-1]
        of_file: Counter[str] = Counter()
        for place, change in enumerate(newest_first):
            of_file[change.path] += 1
            if of_file[change.path] > KEPT_COPIES:
                self._copy(change).unlink(missing_ok=True)
                self._written(change).unlink(missing_ok=True)
                if place >= KEPT_CHANGES and not change.events:
                    (self.records / f"{change.name}.json").unlink(missing_ok=True)


def _copied(change: Change, expected: str, copy: Path) -> bytes | None:
    """The content of a copy; None if there was no file. ``expected`` is its SHA-256."""
    if not expected:
        return None
    try:
        data = copy.read_bytes()
    except FileNotFoundError:
        raise BadInput(f"{change.name} is too old to be taken back: its copy of {change.path} is gone") from None
    if hash_of(data) != expected:
        raise BadInput(f"{copy} is damaged, so nothing was changed")
    return data


def _check_loss(read: Snapshot, new: bytes | None, max_loss: float) -> None:
    """Raise TooMuchLost, with the first line that would be lost, if a change loses too much."""
    if read.data is None or max_loss >= 1:
        return
    after = (new or b"").decode("utf-8", "replace")
    share = share_lost(read.text, after)
    if share > max_loss:
        lost = lost_lines(read.text, after)
        raise TooMuchLost(
            f"{read.path} was not written: it would lose {share:.0%} of what it said, more than {max_loss:.0%}; "
            f"{len(lost)} lines, the first: {lost[0].strip()[:80]!r}"
        )


def _edited(path: str) -> EditedMeanwhile:
    return EditedMeanwhile(f"{path} was changed by another program just now; nothing was written, try again")


def _check_owner(fd: int, path: str) -> None:
    if (owner := os.fstat(fd).st_uid) != os.geteuid():
        raise BadInput(f"{path} belongs to another user ({owner}), so it is not written")


def _open_inner(folder: int, step: str, path: str, *, make: bool) -> int | None:
    """Open a folder inside an open one; None if it does not exist and ``make`` is false."""
    try:
        if make:
            with suppress(FileExistsError):
                os.mkdir(step, 0o700, dir_fd=folder)
        fd = os.open(step, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _named(error, path) from error
    try:
        _check_owner(fd, path)
    except BadInput:
        os.close(fd)
        raise
    return fd


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _all(fd: int, path: str) -> bytes:
    """All bytes of an open file. Raises BadInput for a file that is too large."""
    parts: list[bytes] = []
    os.lseek(fd, 0, os.SEEK_SET)
    while part := os.read(fd, 1 << 20):
        parts.append(part)
        if len(parts) > MAX_BYTES >> 20:
            raise BadInput(f"{path} has more than {MAX_BYTES:,} bytes, so it is not written")
    return b"".join(parts)


def hash_of(data: bytes | None) -> str:
    """The SHA-256 of a file's content; "" if there is no file."""
    return "" if data is None else sha256(data).hexdigest()


def _named(error: OSError, path: str) -> Exception:
    """The error for an OSError: StoreFull for a full disk, else BadInput."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StoreFull(f"no space left for {path}: free some and try again; nothing was half written")
    return BadInput(f"{path} cannot be written to: {error.strerror}")


def _remove_leftovers(folder: int, name: str) -> None:
    """Delete the new files of writers that were killed before they replaced the file."""
    for found in os.listdir(folder):
        if found.startswith(f".{name}.") and found.endswith(".new") and found[len(name) + 2 : -4].isdecimal():
            with suppress(FileNotFoundError):
                os.unlink(found, dir_fd=folder)


def _write_new(name: str, data: bytes, mode: int, folder: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)  # left by a killed process with the same id
    fd = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]
        os.fchmod(fd, mode)
        os.fsync(fd)
    finally:
        os.close(fd)


def _write_durably(path: Path, data: bytes) -> None:
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _write_new(f"{path.name}.new", data, 0o600, folder)
        os.rename(f"{path.name}.new", path.name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
    except OSError as error:
        raise _named(error, str(path)) from error
    finally:
        os.close(folder)
