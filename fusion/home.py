"""Finds a home, and makes one process its owner.

A home is the folder of everything that the gateway keeps. Each of its stores (local Qdrant, SQLite writers, the
indexes) allows one opener, so the process that opens them holds a lock on ``home/lock``. All others are clients, and
find the owner's server by ``home/server.json``. The lock ends with its process, so the files of a killed server are
never taken for a running one.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import stat
import sys
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from fusion.errors import HomeLocked, HomeNotAllowed, SettingsError
from fusion.store.private_files import NAME, read_regular, write_atomically, xdg_folder
from fusion.trust import make_home
from fusion.trust.fingerprint import printable

FOLDER = ".fusion"
MAX_RECORD = 1 << 16
_ATTEMPTS = 6
"""A lock is tried this often, 20 ms apart, before it counts as held: `owner` probes it for some microseconds."""


class Located(NamedTuple):
    """A home's path, and whether the user ``named`` it; otherwise it was found from the current folder upwards."""

    path: Path
    named: bool = False


def find_home(
    explicit: Path | None = None, *, environ: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Path:
    """Finds the home: the one named → FUSION_HOME → the nearest ``.fusion`` folder upwards → the user's own.

    The last is ``$XDG_DATA_HOME/memory-fusion``, or ``~/.local/share/memory-fusion``. Absolute; it may not exist yet.
    Before anything in it is opened, `fusion.trust.require` decides whether it may be.
    """
    return locate_home(explicit, environ=environ, cwd=cwd).path


def locate_home(
    explicit: Path | None = None, *, environ: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Located:
    """As `find_home`, and says whether the user named it."""
    environ = os.environ if environ is None else environ
    cwd = (cwd or Path.cwd()).absolute()
    named = explicit or environ.get("FUSION_HOME")
    if named:
        return Located(cwd / Path(named).expanduser(), named=True)
    for folder in (cwd, *cwd.parents):
        home = folder / FOLDER
        if home.is_dir():
            return Located(home)
    return Located(xdg_folder("XDG_DATA_HOME", ".local/share", environ) / NAME)


def missing_home(home: Path, hint: str = ".") -> SettingsError:
    """The error for a home that the user named and that does not exist, with the command that makes one."""
    import shlex

    return SettingsError(f"there is no home {home}{hint} To make one: fusion init --home {shlex.quote(str(home))}")


def config_root() -> Path:
    """The shipped `config/`: next to the packages in a checkout, inside `fusion` in a wheel."""
    inside = Path(__file__).parent / "config"
    return inside if inside.is_dir() else Path(__file__).parent.parent / "config"


def plugin_root() -> Path:
    """The plugins for agents' hosts: `integrations/` of a checkout, inside `fusion` in a wheel."""
    inside = Path(__file__).parent / "plugins"
    return inside if inside.is_dir() else Path(__file__).parent.parent / "integrations"


class Owner(NamedTuple):
    """The process that holds a home; ``what`` is its command line, "fusion serve --home …"."""

    pid: int
    what: str

    @property
    def serves(self) -> bool:
        """Whether this owner will answer clients, now or in a moment."""
        return self.what.split()[:2] == ["fusion", "serve"]


class HomeLock:
    """Ownership of a home, from ``take`` to ``release`` or to the end of the process, however it ends."""

    def __init__(self, home: Path, descriptor: int) -> None:
        self.home = home
        self._descriptor: int | None = descriptor

    @classmethod
    def take(cls, home: Path, what: str | None = None) -> Self:
        """Takes the lock; makes a missing home. Raises HomeLocked with owner and fix, and HomeNotAllowed."""
        home = make_home(home)
        refuse_links(home)
        descriptor = _open_lock(home)
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(0.02)
            if _flock(descriptor, fcntl.LOCK_EX):
                break
        else:
            holder = _read_owner(descriptor)
            os.close(descriptor)
            raise HomeLocked(explain_lock(home, holder))
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(Owner(os.getpid(), what or command_line())._asdict()).encode(), 0)
        return cls(home, descriptor)

    def release(self) -> None:
        """Releases the lock; may be called twice. The file stays: without it, two processes could own the home."""
        if self._descriptor is not None:
            with suppress(OSError):  # a full disk must not keep a home locked
                os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def refuse_links(home: Path) -> None:
    """Raises HomeNotAllowed for a link or a special file in a home, through which data could be written elsewhere."""
    from fusion.trust.survey import find_links

    if links := find_links(home):
        names = ", ".join(printable(name) for name in links[:5]) + (" …" if len(links) > 5 else "")
        raise HomeNotAllowed(
            f"The home {home} has links or special files in it: {names}. Nothing of a home is opened through these: "
            "put the files themselves there"
        )


def owner(home: Path) -> Owner | None:
    """The owner of a home; None without one. ``pid`` is 0 for the moment before a new owner has written its own."""
    try:
        descriptor = _open_lock(home, make=False)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        if _flock(descriptor, fcntl.LOCK_SH):
            return None
        return _read_owner(descriptor)
    finally:
        os.close(descriptor)


def holds_lock(home: Path, pid: int) -> bool:
    """Whether a process holds a home's lock according to the kernel; False where the kernel does not show it (macOS).

    Linux lists locks by process and inode. The device is left out: some file systems show another one there.
    """
    try:
        inode = (home / "lock").lstat().st_ino
        locks = Path("/proc/locks").read_text(encoding="ascii")
    except OSError:
        return False
    held = (line.split() for line in locks.splitlines())
    return any(
        one[1] == "FLOCK" and one[4] == str(pid) and one[5].rpartition(":")[2] == str(inode)
        for one in held
        if len(one) > 5
    )


def explain_lock(home: Path, holder: Owner, talk: str = "Talk to it (leave out --direct), or stop it") -> str:
    """Two sentences: which process has the home, and what to do about it; ``talk`` is the advice for a server."""
    who = f"{'this process' if holder.pid == os.getpid() else f'process {holder.pid}'} ({holder.what})"
    fix = (
        f"{talk}: fusion stop --home {home}"
        if holder.serves
        else f"Wait until it has finished, or end it: kill {holder.pid}"
    )
    return f"The home {home} is in use by {who}. {fix}"


def sizes(home: Path) -> dict[str, int]:
    """Bytes by part of a home, largest first: ``journal``, ``receipts``, ``embeddings``, ``backends/NAME``, ``log``…

    Files that come and go while it looks count as they were seen; links are not followed. No home: nothing.
    """
    found: Counter[str] = Counter()
    for folder, _, names in os.walk(home):
        inside = Path(folder).relative_to(home).parts
        part = _part((*inside, "")) if len(inside) > 1 else None  # one for all: a home has many files of notes
        for name in names:
            with suppress(OSError):
                found[part or _part((*inside, name))] += os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118
    return dict(found.most_common())


def _part(inside: tuple[str, ...]) -> str:
    """The part of a home that a file belongs to, by its path in the home."""
    if inside[0] == "backends":
        return "/".join(inside[:2])
    if len(inside) > 1:
        return inside[0]
    if inside[0] == "server.log":
        return "log"
    stem = inside[0].partition(".")[0]  # a store and its write-ahead log are one
    return stem if stem in ("journal", "receipts") else "other"


TENANTS = "tenants"
"""the folder of a home that holds the tenants, except the default one"""
_NO_NAME = re.compile(r"[^a-z0-9]+")


def tenant_folder(home: Path, tenant: str) -> Path:
    """The folder of one tenant in a home: a readable name and a hash that no two tenants share."""
    readable = _NO_NAME.sub("-", tenant.lower()).strip("-")[:32] or "tenant"
    return home / TENANTS / f"{readable}-{sha256(tenant.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def command_line() -> str:
    """The command line of this process as a user types it: "fusion serve" for ``python -m fusion serve``."""
    program = Path(sys.argv[0] or "python")
    name = program.parent.name if program.name == "__main__.py" else program.name
    return " ".join([name, *sys.argv[1:]])[:500]


class ServerRecord(NamedTuple):
    """The content of ``home/server.json`` about a running server; ``started`` is ISO 8601, UTC.

    ``token`` opens the server where it wants API keys: who can read this file (0600) can read the home anyway.
    """

    pid: int
    url: str
    started: str
    token: str | None = None


def write_record(home: Path, record: ServerRecord) -> None:
    """Writes the record atomically, readable by its owner only. Call it when the socket already listens."""
    write_atomically(home / "server.json", json.dumps(record._asdict()).encode())


def read_record(home: Path) -> ServerRecord | None:
    """The record that the last server wrote; the lock and ``/healthz`` show whether it still runs."""
    try:
        found = json.loads(read_regular(home / "server.json", MAX_RECORD, ours=True))
        return ServerRecord(int(found["pid"]), str(found["url"]), str(found["started"]), found.get("token"))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remove_record(home: Path) -> None:
    """Removes the record if this process wrote it."""
    record = read_record(home)
    if record is not None and record.pid == os.getpid():
        (home / "server.json").unlink(missing_ok=True)


def _open_lock(home: Path, *, make: bool = True) -> int:
    """Opens the lock's file. Raises FileNotFoundError, and HomeNotAllowed for a link."""
    flags = os.O_RDWR | os.O_CREAT if make else os.O_RDONLY
    try:
        descriptor = os.open(home / "lock", flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno != errno.ELOOP and error.errno != errno.ENXIO:
            raise
        raise HomeNotAllowed(f"{home / 'lock'} is a link or a special file: remove it") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise HomeNotAllowed(f"{home / 'lock'} is a special file: remove it")
    return descriptor


def _flock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_owner(descriptor: int) -> Owner:
    try:
        found = json.loads(os.pread(descriptor, 4096, 0))
        return Owner(int(found["pid"]), str(found["what"]))
    except (ValueError, KeyError, TypeError):
        return Owner(0, "fusion serve")  # it has the lock and is about to sign: treated as a server that starts
