"""The user's private state folder, and safe reading of files that another user or program may have planted.

The state folder (``$XDG_STATE_HOME/memory-fusion``, or ``~/.local/state/memory-fusion``) records which homes the user
allows. A home can be cloned, copied or written by another program; this folder belongs to the user alone, so every use
checks its owner and mode.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from fusion.errors import SettingsError

NAME = "memory-fusion"
MAX_BYTES = 1 << 20
"""maximum size of a file in the state folder; real ones have a few kilobytes"""
READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""refuses a link, and does not block on a FIFO or a device"""
APPEND_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
"""appends to a file, which is made if there is none, and refuses a link"""


def state_folder(environ: Mapping[str, str] | None = None) -> Path:
    """The state folder, created if missing with mode 0700. Raises SettingsError if it is a link or not private."""
    folder = state_path(environ)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check(folder.lstat(), folder)
    except OSError as error:
        raise _unusable(folder, error) from None
    return folder


def state_path(environ: Mapping[str, str] | None = None) -> Path:
    """The path of the state folder, which may not exist."""
    return xdg_folder("XDG_STATE_HOME", ".local/state", environ) / NAME


def xdg_folder(variable: str, default: str, environ: Mapping[str, str] | None = None) -> Path:
    """A base folder of the XDG specification, which says to ignore relative paths."""
    given = (os.environ if environ is None else environ).get(variable, "")
    if given and Path(given).is_absolute():
        return Path(given)
    try:
        return Path.home() / default
    except RuntimeError:
        raise SettingsError(f"this user has no home folder: set HOME or {variable}") from None


def read_state(name: str) -> bytes | None:
    """The content of a file of the state folder, or None. Raises SettingsError for one that is not this user's own."""
    file = state_path() / name
    try:
        _check(file.parent.lstat(), file.parent)
        return read_regular(file, MAX_BYTES, ours=True)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(file, error) from None


def write_state(name: str, content: bytes) -> None:
    """Write a file of the state folder atomically."""
    folder = state_folder()
    try:
        (folder / name).parent.mkdir(mode=0o700, exist_ok=True)
        write_atomically(folder / name, content)
    except OSError as error:
        raise _unusable(folder / name, error) from None


def write_atomically(file: Path, content: bytes, *, check: Callable[[Path], object] | None = None) -> None:
    """Replace a file atomically by one of mode 0600. A link in its place is replaced, not followed.

    ``check`` reads the new file before that; if it raises, the earlier file stays.
    """
    import tempfile  # late: hooks import this module and write nothing

    descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name[:40]}-", suffix=file.suffix)  # 0600
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(content)
        if check is not None:
            check(Path(temporary))
        Path(temporary).replace(file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def sync(path: Path) -> None:
    """Make a file's content, or a folder's entries, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_regular(file: Path, max_bytes: int, *, ours: bool = False) -> bytes:
    """The bytes of a regular file; with ``ours`` it must belong to this user and be writable by no one else.

    Raises OSError for a link, a FIFO, a device, or a file of more than ``max_bytes``.
    """
    descriptor = os.open(file, READ_FLAGS)
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise OSError("it is no regular file")
        if ours:
            _check(about, file)
        if about.st_size > max_bytes:
            raise OSError(f"it has more than {max_bytes:,} bytes")
        with os.fdopen(os.dup(descriptor), "rb") as opened:
            content = opened.read(max_bytes + 1)
        if len(content) > max_bytes:
            raise OSError(f"it has more than {max_bytes:,} bytes")
        return content
    finally:
        os.close(descriptor)


def _check(about: os.stat_result, path: Path) -> None:
    """Raises OSError for a link, and for a file of another user or writable by others."""
    if stat.S_ISLNK(about.st_mode):
        raise OSError(f"{path} is a link")
    if about.st_uid != os.geteuid():
        raise OSError(f"{path} belongs to user {about.st_uid}")
    if about.st_mode & 0o022:
        raise OSError(f"{path} can be written by other users; chmod go-w {path}")


def _unusable(path: Path, error: OSError) -> SettingsError:
    why = error.strerror or str(error)
    return SettingsError(
        f"memory-fusion keeps its own state in {path}, which cannot be used: {why}. Or set XDG_STATE_HOME"
    )
