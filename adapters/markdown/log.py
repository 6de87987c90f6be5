"""Appends lines to a file durably, and to a daily log of the user. Existing lines never change."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from pathlib import Path

from fusion.errors import BadInput, StoreFull
from fusion.lib.walk import open_parent


def append(folder: Path, path: str, text: str) -> tuple[int, int]:
    """Append ``text`` as whole lines to ``folder/path``, created if needed. Returns its first and last line.

    One writer at a time, by a lock on the file itself; durable when it returns. No link is followed. Raises
    ``StoreFull`` with nothing half written, and ``BadInput`` if the name is not a regular file's.
    """
    try:
        with open_parent(folder, path) as (parent, name):
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            fd = os.open(name, flags, mode=0o600, dir_fd=parent)
            try:
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    raise BadInput(f"{path} is no regular file, so nothing was written to it")
                fcntl.flock(fd, fcntl.LOCK_EX)
                before = _all(fd)
                lines = text.strip("\n").split("\n")
                append_lines(fd, "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"), parent)
                start = before.count(b"\n") + (1 if not before or before.endswith(b"\n") else 2)
                return start, start + len(lines) - 1
            finally:
                os.close(fd)
    except OSError as error:
        raise BadInput(f"{path} cannot be written to: {error.strerror}") from error


def append_lines(fd: int, data: bytes, folder: int) -> None:
    """Append to an open file in ``folder``: durably, or not at all. Raises ``StoreFull``, else the system's error."""
    size = os.fstat(fd).st_size
    try:
        if size and os.pread(fd, 1, size - 1) != b"\n":
            data = b"\n" + data  # an editor left the last line without its end
        write_all(fd, data)
        os.fsync(fd)
    except OSError as error:
        os.ftruncate(fd, size)
        raise named(error) from error
    if not size:
        os.fsync(folder)


def write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def named(error: OSError) -> Exception:
    """``StoreFull`` for a full disk, any other error unchanged."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull("no space left for the notes: free some and try again; nothing was half written")
    return error


def _all(fd: int) -> bytes:
    parts: list[bytes] = []
    os.lseek(fd, 0, os.SEEK_SET)
    while part := os.read(fd, 1 << 20):
        parts.append(part)
    return b"".join(parts)
