"""The secrets of a home and the permissions of its files, which keep out other users of this computer.

Every local user can connect to 127.0.0.1, so an address proves nothing. Each home has a token, 256 random bits in
``home/token`` that only its owner can read. The server requires it on every request, and proves by `proof` that it
knows it, so that a client sends nothing to another program that has taken the port.

A second secret, ``home/reader.key``, distinguishes the gateway's own readers of files and sessions (`fusion ingest`,
the hooks) from every other program that has the token: only they may state that a memory comes from a file.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from fusion.errors import SettingsError

TOKEN = "token"  # noqa: S105 — the file's name
READER = "reader.key"
READER_HEADER = "x-fusion-reader"
CHALLENGE = "x-fusion-challenge"
PROOF = "x-fusion-proof"

_TOKEN = re.compile(r"[A-Za-z0-9_-]{43,128}")
_NONCE = re.compile(rb"[!-~]{1,64}")
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def home_token(home: Path) -> str:
    """Reads the home's token, or makes it. Raises SettingsError for one that cannot be trusted (`_read_secret`)."""
    return _read_or_make(home, TOKEN)


def reader_key(home: Path) -> str | None:
    """Reads the key of the home's readers, or makes it; None where the disk refuses the file.

    Raises SettingsError for one that cannot be trusted (`_read_secret`).
    """
    try:
        return _read_or_make(home, READER)
    except OSError:
        return None


def is_reader(home: Path, key: str | None) -> bool:
    """Whether this is the key of the home's readers."""
    if not key:
        return False
    try:
        known = read_reader_key(home)
    except SettingsError as error:
        import logging

        logging.getLogger(__name__).warning("no caller counts as a reader of files: %s", error)
        return False
    return known is not None and hmac.compare_digest(known.encode(), key.encode("utf-8", "replace"))


def read_token(home: Path) -> str | None:
    """Reads the home's token; None where there is none. Raises SettingsError as `_read_secret`."""
    return _read_secret(home, TOKEN)


def read_reader_key(home: Path) -> str | None:
    """The key of the home's readers; None where there is none. Raises SettingsError as `_read_secret`."""
    return _read_secret(home, READER)


def _read_or_make(home: Path, name: str) -> str:
    """Reads a secret of the home; makes it if there is none yet."""
    secret = _read_secret(home, name)
    if secret is None:
        _make_secret(home, name)
        secret = _read_secret(home, name)
    if secret is None:
        raise SettingsError(f"{home / name} was removed while it was made. Try again.")
    return secret


def _read_secret(home: Path, name: str) -> str | None:
    """Reads a secret of the home; None where there is none.

    Raises SettingsError unless it is a regular file of this user that nobody else can read or write: otherwise another
    user may know it, or may have chosen it.
    """
    path = home / name
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(f"{path} cannot be opened ({error.strerror}). {_how_to_replace(path)}") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise SettingsError(f"{path} is not a regular file. {_how_to_replace(path)}")
        if found.st_uid != os.geteuid():
            raise SettingsError(f"{path} belongs to another user (uid {found.st_uid}). {_how_to_replace(path)}")
        if found.st_mode & _OTHERS:
            raise SettingsError(f"Other users can read or change {path}. {_how_to_replace(path)}")
        text = os.read(descriptor, 200).decode("ascii", "replace").strip()
    finally:
        os.close(descriptor)
    if not _TOKEN.fullmatch(text):
        raise SettingsError(f"{path} does not hold a token. {_how_to_replace(path)}")
    return text


def proof(token: str, nonce: str | bytes, address: Sequence[object]) -> str:
    """Proves that a server knows the token: HMAC-SHA256 in hex over the client's nonce and the server's address.

    ``address`` is the server's end of the connection. It makes a proof useless for a program at another address, which
    could forward challenges to the server.
    """
    challenge = nonce if isinstance(nonce, bytes) else nonce.encode()
    return hmac.new(token.encode(), challenge + b" " + _encode_address(address), hashlib.sha256).hexdigest()


def _encode_address(address: Sequence[object]) -> bytes:
    """Host and port in the same form at both ends: an IPv6 socket shows IPv4 addresses as ``::ffff:…``."""
    host, port = str(address[0]), address[1]
    return f"{host.removeprefix('::ffff:')} {port}".encode()


def is_nonce(nonce: bytes) -> bool:
    """Whether a challenge is well-formed: 1 to 64 visible ASCII characters."""
    return _NONCE.fullmatch(nonce) is not None


def make_private(home: Path) -> int:
    """Removes the permissions of group and others from a home and all in it; returns how many files had some.

    Links are not followed, and files of another user stay as they are. So do the secrets: one that others could read
    must be replaced (`_read_secret`). Raises SettingsError where the home itself can't be made private.
    """
    count = int(_tighten(home))
    if home.stat().st_mode & _OTHERS:
        raise SettingsError(
            f"Other users of this computer can look into the home {home}, and its permissions can't be changed by this "
            f"user. Run as its owner: chmod -R go= {home}"
        )
    secrets = (home / TOKEN, home / READER)
    for folder, folders, files in os.walk(home):
        paths = (Path(folder, name) for name in (*folders, *files))
        count += sum(_tighten(path) for path in paths if path not in secrets)
    if count:
        import logging

        logging.getLogger(__name__).warning(
            "other users could read or list %d files or folders of %s; their permissions are removed", count, home
        )
    return count


def _tighten(path: Path) -> bool:
    """Removes the permissions of group and others from a file or folder; False where it had none."""
    with suppress(OSError):  # it is gone, or belongs to another user
        found = path.lstat()
        if found.st_mode & _OTHERS and (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:  # by descriptor, so that a link that replaces the file now is not followed
                os.fchmod(descriptor, stat.S_IMODE(os.fstat(descriptor).st_mode) & ~_OTHERS)
            finally:
                os.close(descriptor)
            return True
    return False


def _make_secret(home: Path, name: str) -> None:
    """Writes a new secret atomically; one that another process has just made stays."""
    import secrets
    import tempfile

    descriptor, made = tempfile.mkstemp(dir=home, prefix=f".{name}-")  # O_CREAT | O_EXCL | O_NOFOLLOW, 0600
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
            file.flush()
            os.fsync(descriptor)
        try:
            os.link(made, home / name)
        except FileExistsError:
            return
        except OSError:  # a file system without hard links
            Path(made).replace(home / name)
    finally:
        Path(made).unlink(missing_ok=True)


def _how_to_replace(path: Path) -> str:
    return f"Remove it, and the next start makes a new one: rm {path}"
