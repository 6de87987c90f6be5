"""The connections of one gateway to PostgreSQL: bounded in number, made by the thread that needs one, used again.

psycopg's own pool connects in the background. A caller whose server refuses then waits for the whole time limit without
the reason, and one after an outage waits for the pool's backoff as well.

A server that hangs, or is cut off from the network, answers nothing and closes nothing, and its callers would wait
without end. `Connections` asks such a server over a new connection, and cuts the old ones if that has no answer.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import errors, pq

from fusion.errors import BackendUnreachable, StoreBusy

Raw = psycopg.Connection[Any]

log = logging.getLogger(__name__)

IDLE_S = 120.0
"""seconds after which an unused connection is closed"""
SILENT_S = 10.0
"""seconds that a caller has a connection before its server is asked whether it answers at all"""
LOOK_S = 2.0
"""seconds between two looks at the connections in use"""
ASK_S = 5.0
"""seconds in which a server that has refused a connection has to say anything at all"""
_ASKS_FOR_TLS = (8).to_bytes(4, "big") + (80877103).to_bytes(4, "big")
"""the message SSLRequest of PostgreSQL's protocol: its length, and its number"""


class Connections:
    """At most ``most`` connections, which ``connect`` makes. ``place`` is the server in messages."""

    def __init__(self, connect: Callable[..., Raw], most: int, wait_s: float, place: str) -> None:
        """A caller waits at most ``wait_s`` for a connection. ``connect`` takes the parameters that replace its own."""
        self._connect = connect
        self._slots = threading.Semaphore(most)
        self._wait_s = wait_s
        self._place = place
        self._lock = threading.Lock()
        self._idle: list[tuple[float, Raw]] = []
        """with the time since which it is idle; the last one was used last"""
        self._lent: dict[Raw, float] = {}
        """with the time since which it is in use"""
        self._closed = threading.Event()
        self._watcher: threading.Thread | None = None

    def take(self) -> tuple[Raw, bool]:
        """A connection, and whether it was used before, so that its server may be gone.

        Raises StoreBusy when all are in use, BackendUnreachable once closed, and the error of ``connect``.
        """
        if not self._slots.acquire(timeout=self._wait_s):
            raise StoreBusy(f"all connections to {self._place} are in use; try again in a moment")
        try:
            with self._lock:
                if self._closed.is_set():
                    raise BackendUnreachable(f"{self._place} is closed")
                idle = self._idle.pop()[1] if self._idle else None
            db = idle or self._connect()
            with self._lock:
                self._lent[db] = time.monotonic()
                self._watch()
        except BaseException:
            self._slots.release()
            raise
        return db, idle is not None

    def give_back(self, db: Raw) -> None:
        """Roll back what is not finished, and keep the connection if it still works."""
        if not db.closed and db.info.transaction_status != pq.TransactionStatus.IDLE:
            with suppress(psycopg.Error):
                db.execute("rollback")
        works = not db.closed and db.info.transaction_status == pq.TransactionStatus.IDLE
        with self._lock:
            self._lent.pop(db, None)
            if works and not self._closed.is_set():
                self._idle.append((time.monotonic(), db))
            else:
                db.close()
        self._slots.release()

    def drop_idle(self, older_s: float = 0.0) -> None:
        """Close the connections that were idle for so long: their server was restarted, or is not the primary now."""
        before = time.monotonic() - older_s
        with self._lock:
            dropped = [db for since, db in self._idle if since <= before]
            self._idle = [(since, db) for since, db in self._idle if since > before]
        for db in dropped:
            db.close()

    def close(self) -> None:
        """Close the idle connections now, and those in use when they are given back. Idempotent."""
        self._closed.set()
        self.drop_idle()
        if self._watcher is not None:
            self._watcher.join()

    # Servers that do not answer

    def _watch(self) -> None:
        if self._watcher is None:
            self._watcher = threading.Thread(target=self._look_regularly, name="watch-postgres", daemon=True)
            self._watcher.start()

    def _look_regularly(self) -> None:
        while not self._closed.wait(LOOK_S):
            self.drop_idle(IDLE_S)
            self._cut_silent()

    def _cut_silent(self) -> None:
        """Cut the connections in use whose server does not answer another one."""
        before = time.monotonic() - SILENT_S
        with self._lock:
            long_used = {db: _address(db) for db, since in self._lent.items() if since < before}
        silent = {where for where in set(long_used.values()) if where and not self._answers(*where)}
        for db, where in long_used.items():
            if where in silent:
                with self._lock:
                    if db in self._lent:
                        log.warning("%s does not answer: a connection is cut", self._place)
                        _cut(db)

    def _answers(self, host: str, port: int) -> bool:
        """Whether the server at this very address answers, also if it is not the primary any more."""
        try:
            self._connect(host=host, hostaddr="", port=port, target_session_attrs="any").close()
        except errors.ConnectionTimeout:
            return False
        except psycopg.OperationalError:
            # It may be full. Or its certificate has the host's name, and it is asked by the address.
            return _responds(host, port)
        return True


def _responds(host: str, port: int) -> bool:
    """Whether a server says anything at all. The driver's error does not tell a refusal from a broken network.

    Every server answers the question for TLS with a letter, before it looks at who asks and how many others there are.
    """
    with suppress(OSError), _reached(host, port) as asking:
        asking.sendall(_ASKS_FOR_TLS)
        return bool(asking.recv(1))
    return False


def _reached(host: str, port: int) -> socket.socket:
    if not host.startswith("/"):
        return socket.create_connection((host, port), ASK_S)
    local = socket.socket(socket.AF_UNIX)
    try:
        local.settimeout(ASK_S)
        local.connect(f"{host}/.s.PGSQL.{port}")
    except OSError:
        local.close()
        raise
    return local


def _address(db: Raw) -> tuple[str, int] | None:
    try:
        return db.info.hostaddr or db.info.host, db.info.port
    except psycopg.Error:
        return None


def _cut(db: Raw) -> None:
    """End a connection that another thread waits on, which gets an error then."""
    with suppress(psycopg.Error, OSError), socket.socket(fileno=os.dup(db.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)
