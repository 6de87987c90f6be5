"""Probes whether a home can be written to."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

PROBE_BYTES = 256 * 1024
"""bytes that a start needs at least: locks, shared memory of a few databases, the server's record"""
_UNWRITABLE = {errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM}


def unwritable(home: Path) -> str:
    """Why a home cannot be written to, in the system's words; empty if it can, or does not exist."""
    if not home.is_dir():
        return ""
    probe = home / f".probe-{os.getpid()}"
    try:
        descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        return _reason(error)
    try:
        left = PROBE_BYTES
        while left > 0:
            left -= os.write(descriptor, bytes(left))
    except OSError as error:
        return _reason(error)
    finally:
        os.close(descriptor)
        with suppress(OSError):
            probe.unlink()
    return ""


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)) if error.errno in _UNWRITABLE else ""
