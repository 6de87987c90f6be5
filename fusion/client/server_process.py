"""Starts and stops the server of a home."""

from __future__ import annotations

import errno
import os
import shlex
import signal
import stat
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from fusion.errors import HomeLocked, HomeNotAllowed, ServerUnreachable, StoreFull
from fusion.home import Owner, ServerRecord, explain_lock, holds_lock, owner, read_record
from fusion.local_server import (
    CONNECT_S,
    LOG,
    REPORTED,
    Proven,
    Silent,
    Unproven,
    connect_to,
    running_server,
    silent,
    usurped,
)
from fusion.store.writable import unwritable
from fusion.trust import make_home, require

START_TIMEOUT_S = 30.0
STARTING_S = 150.0
"""seconds to wait for a server that another process starts: a large home's stores take up to two minutes to open"""
IDLE_EXIT_S = 600
"""seconds without requests after which a server that a client started stops"""


def ensure_server(
    home: Path,
    config: Path | None = None,
    *,
    timeout_s: float = START_TIMEOUT_S,
    starting_s: float | None = None,
) -> ServerRecord:
    """The record of a home's server, which is started if none runs. Concurrent calls start one server.

    The home's lock decides: several processes may start a server, all but one of these stop, and every caller waits for
    the one that holds the lock. A process that holds the lock and has no address yet is still starting; the wait for
    it is ``starting_s``, by default `STARTING_S` unless ``timeout_s`` is shorter than `START_TIMEOUT_S`.
    Raises HomeLocked when a process that is no server has the home open, and ServerUnreachable with the end of the log
    of a server that did not start.
    """
    proven = ensure_connection(home, config, timeout_s=timeout_s, starting_s=starting_s)
    proven.close()
    return proven.record


def ensure_connection(
    home: Path,
    config: Path | None = None,
    *,
    timeout_s: float,
    starting_s: float | None = None,
    hello_s: float | None = None,
) -> Proven:
    """As `ensure_server`, with the connection on which the server has just proved itself: use it or close it.

    A running server that does not prove itself within ``hello_s`` is dead: ServerUnreachable, without more waiting.
    """
    began = time.monotonic()
    starting_limit_s = (
        starting_s if starting_s is not None else STARTING_S if timeout_s >= START_TIMEOUT_S else timeout_s
    )
    home = require(home, named=True, config=config)
    started: _ServerStart | None = None
    starting, bound_s = False, timeout_s
    while (left_s := began + bound_s - time.monotonic()) > 0:
        found = read_record(home)
        try:
            proven = None if found is None else connect_to(home, found, min(hello_s or CONNECT_S, left_s))
        except Unproven as error:
            raise usurped(home, error) from None
        except Silent:
            if hello_s is not None:
                raise silent(home, hello_s) from None
            proven = None
        if proven is not None:
            return proven
        holder = owner(home)
        if holder is not None and not holder.serves:
            raise HomeLocked(explain_lock(home, holder))
        if holder is not None and (found is None or found.pid != holder.pid):
            starting, bound_s = True, max(timeout_s, starting_limit_s)
        elif starting:  # it has its address now, or has stopped: the timeout begins again
            starting, bound_s = False, time.monotonic() - began + timeout_s
        if holder is None and started is None:
            started = _ServerStart.of(home, config)
        elif holder is None and started is not None and started.child.poll() is not None:
            raise ServerUnreachable(f"The server of {home} did not start:{started.last_words()}")
        time.sleep(0.05)
    holder = owner(home)
    raise ServerUnreachable(_not_ready(home, holder, bound_s, starting=starting or started is not None))


def _not_ready(home: Path, holder: Owner | None, waited_s: float, *, starting: bool) -> str:
    """Why a wait for a server ended: it is starting, or it has started and does not answer."""
    if starting:
        process = f"process {holder.pid}" if holder and holder.pid else "its process"
        return f"The server of {home} is still starting after {waited_s:g} s ({process}); try again in a moment."
    return str(silent(home, waited_s))


def stop_server(home: Path, *, timeout_s: float = 20.0) -> ServerRecord | None:
    """Stop the server of a home and wait until the home is free; None if no server ran.

    Only the process that holds the home's lock gets the signal: the system confirms that, or the process proves it.
    Raises ServerUnreachable if a server neither answers nor stops.
    """
    deadline = time.monotonic() + timeout_s
    home = require(home, named=True)
    while (record := _signal(home)) is None:
        holder = owner(home)
        if holder is None or not holder.serves:
            return None
        if time.monotonic() > deadline:
            fix = f"; end it: kill {holder.pid}; if it stays: kill -9 {holder.pid}" if holder.pid else ""
            raise ServerUnreachable(f"The server of {home} does not answer within {timeout_s:g} s{fix}")
        time.sleep(0.05)  # it may be starting; then it is stopped as soon as it can be
    while (holder := owner(home)) is not None and holder.pid == record.pid:
        if time.monotonic() > deadline:
            raise ServerUnreachable(
                f"Process {record.pid} did not stop within {timeout_s:g} s; end it: kill -9 {record.pid}"
            )
        time.sleep(0.02)
    return record


def _signal(home: Path) -> ServerRecord | None:
    """Send SIGTERM to the home's server and return its record; None if there is none, or none to signal yet."""
    record, holder = read_record(home), owner(home)
    if record is None or holder is None or holder.pid != record.pid or not holder.serves:
        return None
    try:
        process = os.pidfd_open(record.pid) if hasattr(os, "pidfd_open") else None
    except ProcessLookupError:
        return None
    except OSError:  # a sandbox without pidfds
        process = None
    try:
        if not holds_lock(home, record.pid) and running_server(home) is None:
            return None
        # The descriptor refers to the process that held the lock, also if its pid is reused.
        if process is None:
            os.kill(record.pid, signal.SIGTERM)
        else:
            signal.pidfd_send_signal(process, signal.SIGTERM)
    except ProcessLookupError:
        return None
    finally:
        if process is not None:
            os.close(process)
    return record


@dataclass(frozen=True, slots=True)
class _ServerStart:
    """A server process that this process started, and where its lines begin in the home's log."""

    child: subprocess.Popen[bytes]
    log: Path
    begin: int

    @classmethod
    def of(cls, home: Path, config: Path | None) -> Self:
        """Start a server. It outlives this process, stops when idle, and writes its log into the home."""
        make_home(home)
        if why := unwritable(home):
            raise StoreFull(
                f"The home {home} cannot be written to ({why}), so no server can be started for it. Make room or make "
                f"it writable. Meanwhile fusion fuse --home {shlex.quote(str(home))} and fusion mcp answer from a copy"
            )
        # -P: a fusion.py in the current folder must not run as the server.
        command = [sys.executable, "-P", "-m", "fusion", "serve", "--home", str(home), "--port", "0"]
        command += ["--idle-exit", str(IDLE_EXIT_S)] + ([] if config is None else ["--config", str(config.absolute())])
        log = open_log(home, os.O_CREAT)
        try:
            begin = os.fstat(log).st_size
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        finally:
            os.close(log)
        threading.Thread(target=child.wait, daemon=True).start()  # a long-lived program must not keep a zombie
        return cls(child, home / LOG, begin)

    def last_words(self) -> str:
        """The reason why the server did not start: the line that it reported, or the end of its log."""
        try:
            with self.log.open("rb") as log:
                log.seek(self.begin)
                text = log.read().decode("utf-8", "replace")[-1500:].strip()
        except OSError as error:
            return f" (its log {self.log} cannot be read: {error.strerror})"
        last = text.rpartition("\n")[2]
        return f" {last.removeprefix(REPORTED)}" if last.startswith(REPORTED) else f"\n{text or '(it logged nothing)'}"


def open_log(home: Path, flags: int = 0) -> int:
    """A descriptor of the home's log, to append to. Raises HomeNotAllowed if the log is a link or a special file."""
    try:
        flags |= os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        log = os.open(home / LOG, flags, 0o600)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):
            raise
        raise HomeNotAllowed(f"{home / LOG} is a link or a special file: remove it") from None
    if not stat.S_ISREG(os.fstat(log).st_mode):
        os.close(log)
        raise HomeNotAllowed(f"{home / LOG} is a special file: remove it")
    return log
