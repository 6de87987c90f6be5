"""Servers that hang, die, flood or trickle, on real sockets; a prompt must not wait for them."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Literal

from fusion.home import HomeLock, ServerRecord, write_record
from fusion.trust import allow
from fusion.trust.token import CHALLENGE, PROOF, home_token, proof

Way = Literal[
    "dead",
    "hung",
    "hung_after_proof",
    "flooding",
    "flooding_after_proof",
    "trickling",
    "garbage",
    "failing",
    "another",
    "stale",
]
WAYS: Mapping[Way, str] = {
    "dead": "its process has gone; its record and its address are still there",
    "hung": "it takes a connection and says nothing",
    "hung_after_proof": "it proves who it is, takes the question and says nothing",
    "flooding": "it sends without end before it has proved anything",
    "flooding_after_proof": "it proves who it is and answers without end",
    "trickling": "it proves who it is and answers a character at a time",
}
DEAD: Mapping[Way, str] = {
    "hung": WAYS["hung"],
    "garbage": "it answers what is no HTTP",
    "failing": "it answers 500 to everything",
    "another": "another program answers at its address, and knows nothing of the home",
    "stale": "its process has gone, and another program has its address",
}
"""servers that are known to be dead before a question is sent"""
_ANOTHER = b'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"pid":1}'
_REPLIES: Mapping[Way, bytes] = {
    "garbage": b"SSH-2.0-OpenSSH_9.9\r\n\r\n",
    "failing": b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 2\r\n\r\n{}",
    "another": b'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"pid":1}',
}
_NONCE = re.compile(rb"(?i)%b: (\S+)\r\n" % CHALLENGE.encode())
_CHUNK = b"x" * (1 << 16)
TRICKLE_S = 0.01


@contextmanager
def bad_server(home: Path, way: Way) -> Iterator[None]:
    """A server of ``home`` that behaves badly until the end of the block."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if way == "dead":
        allow(home)
        gone = subprocess.Popen([sys.executable, "-c", ""])
        gone.wait()
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        write_record(home, ServerRecord(gone.pid, f"http://127.0.0.1:{port}", "now"))
        yield
        return
    owned = nullcontext() if way == "stale" else HomeLock.take(home, "fusion serve")
    with owned, socket.create_server(("127.0.0.1", 0)) as listener:
        allow(home)
        server = _Server(listener, way, home_token(home))
        write_record(home, ServerRecord(os.getpid(), f"http://127.0.0.1:{listener.getsockname()[1]}", "now"))
        server.start()
        try:
            yield
        finally:
            server.stop()


class _Server(threading.Thread):
    """Takes connections, each in a thread, until it is stopped."""

    def __init__(self, listener: socket.socket, way: Way, token: str) -> None:
        super().__init__(daemon=True)
        self._listener, self._way, self._token = listener, way, token
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            if self._way == "flooding":
                self._flood(connection)
            elif self._way in _REPLIES:
                self._read_request(connection)
                connection.sendall(_REPLIES[self._way])
                return
            elif self._way != "hung":
                self._prove(connection)
                self._read_request(connection)
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
                if self._way == "flooding_after_proof":
                    connection.sendall(b'content-length: 8000000\r\n\r\n{"block": "')
                    self._flood(connection)
                while self._way == "trickling" and not self._stopped.wait(TRICKLE_S):
                    connection.sendall(b"x")
            self._stopped.wait()

    def _flood(self, connection: socket.socket) -> None:
        while not self._stopped.is_set():
            connection.sendall(_CHUNK)

    def _prove(self, connection: socket.socket) -> None:
        """Answer the challenge as the gateway's server does."""
        request = self._read_request(connection)
        found = _NONCE.search(request)
        nonce = found[1].decode() if found else ""
        body = b'{"pid": %d}' % os.getpid()
        head = f"HTTP/1.1 200 OK\r\n{PROOF}: {proof(self._token, nonce, connection.getsockname())}\r\n"
        connection.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)

    def _read_request(self, connection: socket.socket) -> bytes:
        received = b""
        while b"\r\n\r\n" not in received:
            chunk = connection.recv(1 << 16)
            if not chunk:
                raise ConnectionError
            received += chunk
        return received
