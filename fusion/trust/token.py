"""What keeps other users of this computer out of a home: its token, and the permissions of its files.

Loopback is no identity: every local user can connect to 127.0.0.1. So each home has a token, 256 random bits in
``home/token`` that only its owner can read. The server wants it on every request, and shows by `proof` that it knows
it, so that a client sends nothing to another program that has taken the port.

A second secret, ``home/reader.key``, distinguishes the gateway's own readers of files and sessions (`fusion ingest`,
the hooks) from every other program that has the token: only they may say that a memory stands in a file.
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
    """The home's token, made now if there is none yet. Raises SettingsError for one that may not be believed."""
    return _made(home, TOKEN)


def reader_key(home: Path) -> str | None:
    """The key of the home's readers, made now if there is none yet; None where the disk takes none.

    Raises SettingsError for one that may not be believed.
    """
    try:
        return _made(home, READER)
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
    """The home's token; None where there is none. Raises SettingsError as `_read_secret`."""
    return _read_secret(home, TOKEN)


def read_reader_key(home: Path) -> str | None:
    """The key of the home's readers; None where there is none. Raises SettingsError as `_read_secret`."""
    return _read_secret(home, READER)


def _made(home: Path, name: str) -> str:
    """A secret of the home, made now if there is none yet."""
    secret = _read_secret(home, name)
    if secret is None:
        _make_secret(home, name)
        secret = _read_secret(home, name)
    if secret is None:
        raise SettingsError(f"{home / name} was removed while it was made. Try again.")
    return secret


def _read_secret(home: Path, name: str) -> str | None:
    """A secret of the home; None where there is none.

    Raises SettingsError unless it is a regular file of this user that nobody else can read or write: what others can
    read, they may have; what others can write, they may have chosen.
    """
    path = home / name
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(f"{path} cannot be opened ({error.strerror}). {_anew(path)}") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise SettingsError(f"{path} is not a regular file. {_anew(path)}")
        if found.st_uid != os.geteuid():
            raise SettingsError(f"{path} belongs to another user (uid {found.st_uid}). {_anew(path)}")
        if found.st_mode & _OTHERS:
            raise SettingsError(f"Other users can read or change {path}. {_anew(path)}")
        text = os.read(descriptor, 200).decode("ascii", "replace").strip()
    finally:
        os.close(descriptor)
    if not _TOKEN.fullmatch(text):
        raise SettingsError(f"{path} does not hold a token. {_anew(path)}")
    return text


def proof(token: str, nonce: str | bytes, address: Sequence[object]) -> str:
    """What shows that a server knows the token, for a client's nonce and the address of the server's end of their
    connection: HMAC-SHA256 in hex.

    With the address a proof is of no use to a program at another one, which could pass challenges on to the server.
    """
    question = nonce if isinstance(nonce, bytes) else nonce.encode()
    return hmac.new(token.encode(), question + b" " + _named(address), hashlib.sha256).hexdigest()


def _named(address: Sequence[object]) -> bytes:
    """Host and port as both ends name them; a socket for IPv6 has IPv4 addresses in a form of its own."""
    host, port = str(address[0]), address[1]
    return f"{host.removeprefix('::ffff:')} {port}".encode()


def is_nonce(nonce: bytes) -> bool:
    """Whether a challenge is one that is answered: 1 to 64 visible ASCII characters."""
    return _NONCE.fullmatch(nonce) is not None


def make_private(home: Path) -> int:
    """Takes the permissions of group and others from a home and all in it; how many files and folders had some.

    Links are not followed, and what belongs to another user stays as it is. So does the token: one that others could
    read must be replaced, see `_read_secret`. Raises SettingsError where the home itself can't be made private.
    """
    loosened = int(_tighten(home))
    if home.stat().st_mode & _OTHERS:
        raise SettingsError(
            f"Other users of this computer can look into the home {home}, and its permissions can't be changed by this "
            f"user. Run as its owner: chmod -R go= {home}"
        )
    secret = (home / TOKEN, home / READER)
    for folder, folders, files in os.walk(home):
        paths = (Path(folder, name) for name in (*folders, *files))
        loosened += sum(_tighten(path) for path in paths if path not in secret)
    if loosened:
        import logging

        logging.getLogger(__name__).warning(
            "other users could read or list %d files or folders of %s: no longer", loosened, home
        )
    return loosened


def _tighten(path: Path) -> bool:
    """Whether ``path`` was open to others and is not any more."""
    with suppress(OSError):  # it went away meanwhile, or is another user's
        found = path.lstat()
        if found.st_mode & _OTHERS and (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:  # by descriptor: a link that takes the file's place now is not followed
                os.fchmod(descriptor, stat.S_IMODE(os.fstat(descriptor).st_mode) & ~_OTHERS)
            finally:
                os.close(descriptor)
            return True
    return False


def _make_secret(home: Path, name: str) -> None:
    """Writes a new secret, whole or not at all; one that another process has just made stays."""
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


def _anew(path: Path) -> str:
    return f"Remove it, and the next start makes a new one: rm {path}"
