"""Private files: the user's state folder outside every home, its key, and opening files that may be somebody's trap.

The state folder (``$XDG_STATE_HOME/memory-fusion``, or ``~/.local/state/memory-fusion``) holds what decides about
homes. A home can be cloned, copied or written by another program; this folder belongs to the user alone, so every use
checks its owner and mode.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from fusion.errors import SettingsError

NAME = "memory-fusion"
KEY_BYTES = 32
MAX_BYTES = 1 << 20
"""of a file in the state folder; ours have a few kilobytes"""
READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""a link is refused, and a FIFO or a device does not block"""


def user_key() -> bytes:
    """This user's own random key of 32 bytes, made on first use. Keep what it signs in homes; keep the key out of them.

    Raises SettingsError where the state folder cannot be used.
    """
    folder = state_folder()
    for _ in range(2):
        key = read_state("key")
        if key is not None and len(key) == KEY_BYTES:
            return key
        if key is not None:
            raise SettingsError(f"{folder / 'key'} is damaged: remove it, and a new key is made")
        _create(folder / "key", os.urandom(KEY_BYTES))
    raise SettingsError(f"{folder / 'key'} cannot be read")


def state_folder(environ: Mapping[str, str] | None = None) -> Path:
    """The state folder, made if it is not there: mode 0700, ours, and no link.

    Raises SettingsError, which says what to do.
    """
    folder = state_path(environ)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check(folder.lstat(), folder)
    except OSError as error:
        raise _unusable(folder, error) from None
    return folder


def state_path(environ: Mapping[str, str] | None = None) -> Path:
    """Where the state folder is, whether it is there or not."""
    return xdg_folder("XDG_STATE_HOME", ".local/state", environ) / NAME


def xdg_folder(variable: str, default: str, environ: Mapping[str, str] | None = None) -> Path:
    """A base folder of the XDG specification, which wants relative paths ignored."""
    given = (os.environ if environ is None else environ).get(variable, "")
    if given and Path(given).is_absolute():
        return Path(given)
    try:
        return Path.home() / default
    except RuntimeError:
        raise SettingsError(f"this user has no home folder: set HOME or {variable}") from None


def read_state(name: str) -> bytes | None:
    """A file of the state folder; None where there is none. Raises SettingsError for one that is not ours."""
    file = state_path() / name
    try:
        _check(file.parent.lstat(), file.parent)
        return read_regular(file, MAX_BYTES, ours=True)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(file, error) from None


def write_state(name: str, content: bytes) -> None:
    """Writes a file of the state folder, whole or not at all."""
    folder = state_folder()
    (folder / name).parent.mkdir(mode=0o700, exist_ok=True)
    write_atomically(folder / name, content)


def write_atomically(file: Path, content: bytes) -> None:
    """Replaces a file by one of mode 0600, whole or not at all. A link in its place is replaced, not followed."""
    import tempfile  # a hook imports this module, and writes nothing

    temporary: str | None = None
    try:
        descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name[:40]}-")  # 0600
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(content)
        Path(temporary).replace(file)
    except BaseException as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _unusable(file, error) from None
        raise


def read_regular(file: Path, max_bytes: int, *, ours: bool = False) -> bytes:
    """The bytes of a regular file; ``ours`` demands that it is this user's and that nobody else may write it.

    Raises OSError for anything else: a link, a FIFO, a device, a file that is larger.
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


def _create(file: Path, content: bytes) -> None:
    """Makes a file that is not there. Where another process was first, its file stays."""
    import tempfile

    descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        os.link(temporary, file)
    except FileExistsError:
        pass
    except OSError as error:
        raise _unusable(file, error) from None
    finally:
        Path(temporary).unlink(missing_ok=True)


def _check(about: os.stat_result, path: Path) -> None:
    """Raises OSError for what is a link, another user's, or writable by others."""
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
