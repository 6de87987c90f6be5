"""A file of the user's workspace to which lines are appended, with a copy of what it was before each change.

Each change is written to a new file, which replaces the old one in one step; before that, the old one is read again and
must be what the change began with. Nothing is lost: a change that would not keep every line is refused. The copies are
in the gateway's own folder, so that the last change can be taken back. No link is followed, and nothing but this one
file in the workspace is written. Editors and other programs hold no lock: what one saves between that last look and the
replacement is not seen.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path

from adapters.markdown.log import named, write_all
from fusion.errors import BadInput, NotFound

MAX_CHARS = 20_000
"""characters that an agent's host loads of one file (OpenClaw); no line is added beyond that"""
PLANNED, DONE, UNDONE = "planned", "done", "undone"


@dataclass(frozen=True, slots=True)
class Change:
    """One change of the file: its number, what was added, and the SHA-256 of the file before and after.

    ``before`` is "" if there was no file. A ``planned`` change was interrupted, and may not have happened.
    """

    number: int
    at: str
    lines: tuple[str, ...]
    events: tuple[str, ...]
    before: str
    after: str
    state: str = PLANNED

    @property
    def name(self) -> str:
        return f"w{self.number}"


class WorkspaceFile:
    """The file ``name`` in ``folder``; ``records`` is a folder of the gateway for the copies."""

    def __init__(self, folder: Path, name: str, records: Path) -> None:
        self.folder, self.name = folder, name
        self._records = records

    def text(self) -> str:
        """The text of the file; "" if there is none. Raises BadInput for a link and for what is no file."""
        with self._opened() as folder:
            return (self._read(folder) or b"").decode("utf-8", "replace")

    def changes(self) -> list[Change]:
        """All changes, the oldest first."""
        found = []
        for file in self._records.glob("w*.json"):
            values = json.loads(file.read_text(encoding="utf-8"))
            found.append(Change(**{**values, "lines": tuple(values["lines"]), "events": tuple(values["events"])}))
        return sorted(found, key=lambda change: change.number)

    def append(self, heading: str, lines: Sequence[str], events: Sequence[str], now: datetime) -> Change:
        """Append lines below ``heading``, which is added unless it is the file's last one.

        Raises BadInput if the file changed meanwhile or cannot be written to safely, and StoreFull.
        """
        with self._locked(), self._opened() as folder:
            old = self._read(folder)
            new = _appended(old or b"", heading, lines)
            if not keeps_every_line(old or b"", new):
                raise BadInput(f"{self.name} was not written: a line of it would be lost")
            number = max((change.number for change in self.changes()), default=0) + 1
            change = Change(number, now.isoformat(), tuple(lines), tuple(events), _hash(old), _hash(new))
            self._keep(change, old)
            self._replace(folder, old, new)
            return self._mark(change, DONE)

    def undo(self, name: str) -> Change:
        """Take a change back: the file is as it was before. Raises NotFound, and BadInput if it was edited since."""
        with self._locked(), self._opened() as folder:
            change = next((one for one in self.changes() if one.name == name), None)
            if change is None:
                raise NotFound(f"there is no change {name!r} of {self.name}")
            if change.state == UNDONE:
                raise BadInput(f"{name} is taken back already")
            current = self._read(folder)
            if _hash(current) == change.before:  # interrupted before the file was replaced
                return self._mark(change, UNDONE)
            copy = self._records / f"{name}.before"
            if _hash(current) != change.after:
                raise BadInput(
                    f"{self.name} was changed after {name}: take later changes back first, or edit it; "
                    f"what it was before is in {copy}"
                )
            old = copy.read_bytes() if change.before else None
            if _hash(old) != change.before:
                raise BadInput(f"{copy} is damaged, so nothing was changed")
            self._replace(folder, current, old)
            return self._mark(change, UNDONE)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One change at a time, also between processes."""
        self._records.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self._records / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """The descriptor of the workspace. Raises BadInput if it is a link, is behind one, or is missing."""
        if os.path.realpath(self.folder) != str(self.folder):
            raise BadInput(f"{self.folder} is a link or is behind one: [workspace] root_folder must name the folder")
        try:
            fd = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise BadInput(f"{self.folder} cannot be written to: {error.strerror}") from error
        try:
            yield fd
        finally:
            os.close(fd)

    def _read(self, folder: int) -> bytes | None:
        """The bytes of the file; None if there is none. Raises BadInput for a link and for what is no file."""
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with os.fdopen(os.open(self.name, flags, dir_fd=folder), "rb") as file:
                about = os.fstat(file.fileno())
                if not stat.S_ISREG(about.st_mode) or about.st_nlink > 1:
                    raise BadInput(f"{self.name} is no regular file of one name, so it is not written")
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BadInput(f"{self.name} is not written: {error.strerror}") from error

    def _keep(self, change: Change, old: bytes | None) -> None:
        """Store what the file was, then the plan of the change: durably, before anything in the workspace changes."""
        if old is not None:
            _write_durably(self._records / f"{change.name}.before", old)
        self._mark(change, PLANNED)

    def _mark(self, change: Change, state: str) -> Change:
        marked = Change(**{**asdict(change), "state": state})
        _write_durably(self._records / f"{change.name}.json", json.dumps(asdict(marked)).encode())
        return marked

    def _replace(self, folder: int, old: bytes | None, new: bytes | None) -> None:
        """Replace the file by ``new``, or delete it for None, if it still is ``old``. Raises BadInput if not."""
        fresh = f".{self.name}.{os.getpid()}.new"
        try:
            if new is not None:
                mode = 0o600 if old is None else stat.S_IMODE(os.stat(self.name, dir_fd=folder).st_mode)
                _write_new(fresh, new, mode, folder)
            if self._read(folder) != old:
                raise BadInput(f"{self.name} was changed by another program just now; nothing was written, try again")
            if new is None:
                os.unlink(self.name, dir_fd=folder)
            else:
                os.rename(fresh, self.name, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)
        except OSError as error:
            refused = named(error)
            if refused is error:
                raise BadInput(f"{self.name} cannot be written to: {error.strerror}") from error
            raise refused from error
        finally:
            with suppress(FileNotFoundError):
                os.unlink(fresh, dir_fd=folder)


def keeps_every_line(old: bytes, new: bytes) -> bool:
    """Whether ``new`` begins with all of ``old``: the gate that no change passes which loses or alters a line."""
    return new.startswith(old) and (not old or old.endswith(b"\n") or new[len(old) : len(old) + 1] == b"\n")


def _appended(old: bytes, heading: str, lines: Sequence[str]) -> bytes:
    added = "".join(f"{line}\n" for line in lines)
    kept = old if not old or old.endswith(b"\n") else old + b"\n"
    headings = [line for line in kept.decode("utf-8", "replace").splitlines() if line.startswith("#")]
    if headings[-1:] != [heading]:
        added = f"{heading}\n\n{added}" if not kept else f"\n{heading}\n\n{added}"
    return kept + added.encode("utf-8", "replace")


def _hash(data: bytes | None) -> str:
    return "" if data is None else sha256(data).hexdigest()


def _write_new(name: str, data: bytes, mode: int, folder: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)  # of a process of the same number that was killed
    fd = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        write_all(fd, data)
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
        raise named(error) from error
    finally:
        os.close(folder)
