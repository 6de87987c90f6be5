"""Finds the server of a home on this computer, verifies its proof, and sends one request over the same connection.

A hook does this before every prompt of an agent, in a process of its own. So this module imports neither an HTTP
library nor the client, which take longer than the request.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from hmac import compare_digest
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from fusion.errors import ServerUnreachable
from fusion.home import ServerRecord, owner, read_record
from fusion.settings_table import setting
from fusion.trust.token import CHALLENGE, PROOF, proof, read_token

CONNECT_S = 10.0
"""seconds for a connection and each part of a proof: a busy server is late, one that has stopped refuses at once"""
HELLO_MS = 250
"""milliseconds that an agent waits for the proof of a server, unless `[hooks] hello_timeout_ms` says otherwise"""
LOG = "server.log"
"""the log of a home's servers"""
REPORTED, HOOKS_LINE = "fusion: ", "fusion hook: "
"""the beginning of the line in which a command reports its error, and of the lines of hooks in the log"""
LAST_BYTES = 4096
"""bytes at the end of the log that are read"""
MAX_PROOF = 1 << 16
"""maximum bytes of a server's proof"""
MAX_REPLY = 8 << 20
"""maximum bytes of a reply to `ask`"""
NOT_OURS = "what answers at its address does not know the home's token: another program, or an earlier version"
NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_CHUNK = 1 << 16
_HEAD_END = b"\r\n\r\n"


class Unsent(Exception):
    """There is no proven connection, so the request was not sent to any program."""


class Unproven(Unsent):
    """The program that answers does not know the home's token."""


class Silent(Unsent):
    """A server runs, and does not prove itself in time: it hangs, or its computer is very busy."""


class Head(NamedTuple):
    """Status line and headers of a reply, with the names of headers in lower case."""

    status: int
    headers: Mapping[bytes, bytes]

    @classmethod
    def parse(cls, head: bytes) -> Head:
        """The head of an HTTP/1.1 reply, without its last empty line. Raises ValueError for anything else."""
        first, *lines = head.split(b"\r\n")
        protocol, _, rest = first.partition(b" ")
        if protocol != b"HTTP/1.1":
            raise ValueError("the reply is not HTTP/1.1")
        fields = (line.partition(b":") for line in lines)
        return cls(int(rest[:3]), {name.strip().lower(): value.strip() for name, _, value in fields})

    @property
    def length(self) -> int:
        """The length of the body. Raises ValueError where the reply does not give it."""
        return int(self.headers.get(b"content-length", b"none"))

    @property
    def closes(self) -> bool:
        """Whether the server closes the connection after this reply."""
        return self.headers.get(b"connection", b"").lower() == b"close"


def challenge(host: bytes, nonce: str) -> bytes:
    """The request that makes a server prove that it knows the home's token."""
    return b"GET /healthz HTTP/1.1\r\nhost: %b\r\n%b: %b\r\n\r\n" % (host, CHALLENGE.encode(), nonce.encode())


def check_proof(token: str, nonce: str, address: Sequence[object], head: Head) -> None:
    """Raises Unproven unless a reply to `challenge` proves the token at the address of the connection."""
    given = head.headers.get(PROOF.encode(), b"")
    if head.status != 200 or not compare_digest(given, proof(token, nonce, address).encode()):
        raise Unproven(NOT_OURS)


class Proven:
    """An open connection on which the server has proved that it knows the home's token."""

    def __init__(self, sock: socket.socket, record: ServerRecord, token: str) -> None:
        self.record = record
        self.token = token
        self._socket = sock

    @classmethod
    def open(cls, record: ServerRecord, token: str, timeout_s: float) -> Self:
        """Connects and verifies the proof. Raises Unproven, Unsent, and TimeoutError where the proof takes too long."""
        deadline = time.monotonic() + timeout_s
        parts = urlsplit(record.url)
        try:
            sock = _connect(parts.hostname or "", parts.port or 80, min(timeout_s, CONNECT_S))
        except TimeoutError:
            raise
        except OSError as error:
            raise Unsent(str(error)) from error
        try:
            nonce = os.urandom(16).hex()
            sock.sendall(challenge(parts.netloc.encode(), nonce))
            head, body = _read_reply(sock, deadline, MAX_PROOF)
            check_proof(token, nonce, sock.getpeername(), head)
            if head.closes:
                raise Unsent("the server is stopping")
            if json.loads(body)["pid"] != record.pid:
                raise Unsent("another process has taken the server's place")
            return cls(sock, record, token)
        except BaseException as error:
            sock.close()
            if isinstance(error, ValueError | KeyError | TypeError):  # the reply is not that of the gateway's server
                raise Unproven(NOT_OURS) from error
            if isinstance(error, OSError) and not isinstance(error, TimeoutError):
                raise Unsent(str(error)) from error
            raise

    def send(
        self,
        path: str,
        content: bytes | None,
        timeout_s: float,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> tuple[int, bytes]:
        """Sends one request, the last on this connection; returns the status and body of the reply.

        Without ``content`` it is a GET.

        Raises TimeoutError and other OSErrors, and ValueError for a reply that is not HTTP.
        """
        deadline = time.monotonic() + timeout_s
        body = content or b""
        more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = (
            f"{'GET' if content is None else 'POST'} {path} HTTP/1.1\r\nhost: {urlsplit(self.record.url).netloc}\r\n"
            f"authorization: Bearer {self.token}\r\nconnection: close\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n{more}\r\n"
        )
        self._socket.settimeout(timeout_s)
        self._socket.sendall(head.encode() + body)
        answer, body = _read_reply(self._socket, deadline, MAX_REPLY)
        return answer.status, body

    def detach(self) -> socket.socket:
        """The socket, for use by an HTTP library; the caller closes it."""
        return self._socket

    def close(self) -> None:
        self._socket.close()


def running_server(home: Path, *, timeout_s: float = CONNECT_S) -> ServerRecord | None:
    """The record of a home's server, if the server runs and proves itself."""
    connection = connect(home, timeout_s)
    if connection is None:
        return None
    connection.close()
    return connection.record


def connect(home: Path, timeout_s: float) -> Proven | None:
    """A proven connection to the server of a home; None where none runs that proves itself."""
    record = read_record(home)
    if record is not None:
        with suppress(Unproven, Silent):
            return connect_to(home, record, timeout_s)
    return None


def greet(home: Path, timeout_s: float) -> Proven | None:
    """A proven connection to the server of a home; None where none runs, so that one can be started.

    Raises ServerUnreachable for a dead server: one that hangs, or whose place another program has.
    """
    record = read_record(home)
    try:
        return None if record is None else connect_to(home, record, timeout_s)
    except Silent:
        raise silent(home, timeout_s) from None
    except Unproven as error:
        raise usurped(home, error) from None


def hello_s(home: Path) -> float:
    """Seconds that an agent waits for the proof of a home's server: after that the server counts as dead."""
    try:
        return max(1, int(setting(home, "hooks", "hello_timeout_ms", HELLO_MS))) / 1000
    except (TypeError, ValueError):  # the server names the mistake
        return HELLO_MS / 1000


def silent(home: Path, waited_s: float) -> ServerUnreachable:
    """The error for a server that does not prove itself."""
    holder = owner(home)
    process = f"process {holder.pid}" if holder and holder.pid else "its process"
    what = f"does not answer within {waited_s:g} s ({process})"
    return ServerUnreachable(f"The server of {home} {what}. See {home / LOG}")


def usurped(home: Path, error: Unproven) -> ServerUnreachable:
    """The error for a server whose address another program answers at."""
    stop = f"fusion stop --home {home}"
    return ServerUnreachable(f"The server of {home} is not asked: {error}. To start another: {stop}")


def failed_start(home: Path) -> str | None:
    """Why the last server of a home did not start, as its log has it; None if it did, or the settings are newer."""
    try:
        with (home / LOG).open("rb") as log:
            about = os.fstat(log.fileno())
            log.seek(max(0, about.st_size - LAST_BYTES))
            lines = log.read().decode("utf-8", "replace").splitlines()
        changed = (home / "fusion.toml").stat().st_mtime if (home / "fusion.toml").exists() else 0.0
    except OSError:
        return None
    said = next((line for line in reversed(lines) if line.strip() and not line.startswith(HOOKS_LINE)), "")
    return said.removeprefix(REPORTED).strip() if said.startswith(REPORTED) and about.st_mtime >= changed else None


def connect_to(home: Path, record: ServerRecord, timeout_s: float) -> Proven | None:
    """A proven connection to the server of a record; None where nothing answers, or the record cannot be trusted.

    The record is trusted when its URL is on this computer, its process holds the home's lock, and the server proves
    that it knows the home's token and is that process. Raises Unproven where another program answers, Silent where the
    proof takes too long, and SettingsError for a token that cannot be trusted.
    """
    holder = owner(home)
    if holder is None or holder.pid != record.pid or not is_here(record.url):
        return None
    token = read_token(home)
    if token is None:
        raise Unproven(NOT_OURS)
    try:
        return Proven.open(record, token, timeout_s)
    except Unproven:
        raise
    except TimeoutError as error:
        raise Silent(str(error)) from error
    except (Unsent, OSError):
        return None


def ask(home: Path, path: str, body: Mapping[str, object], *, look_s: float, answer_s: float) -> dict[str, Any] | None:
    """Sends one request to a home's server; returns the reply, or None where no proven server runs: nothing was sent.

    Raises the error that the server replied with, and ServerUnreachable.
    """
    return _asked(home, path, json.dumps(body).encode(), look_s, answer_s)


def fetch(home: Path, path: str, *, look_s: float, answer_s: float) -> dict[str, Any] | None:
    """As `ask`, by GET."""
    return _asked(home, path, None, look_s, answer_s)


def _asked(home: Path, path: str, content: bytes | None, look_s: float, answer_s: float) -> dict[str, Any] | None:
    connection = greet(home, look_s)
    if connection is None:
        return None
    try:
        with closing(connection):
            status, content = connection.send(path, content, answer_s)
        reply = json.loads(content)
    except TimeoutError as error:
        raise ServerUnreachable(f"The server of {home} did not answer in time. See {home / 'server.log'}") from error
    except (OSError, ValueError) as error:
        what = str(error) or type(error).__name__
        raise ServerUnreachable(f"The server of {home} does not answer ({what}). See {home / 'server.log'}") from error
    if status == 200 and isinstance(reply, dict):
        return reply
    from fusion.problem import error_of

    raise error_of(reply if isinstance(reply, dict) else {}, status)


def is_here(url: str) -> bool:
    """Whether the host of a URL is this computer: loopback, or one of its own addresses."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return False
    if parts.scheme != "http" or port is None or parts.username or parts.query or parts.path not in ("", "/"):
        return False
    if host in ("127.0.0.1", "::1", "localhost"):
        return True
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.inet_pton(family, host)
        with socket.socket(family, socket.SOCK_STREAM) as own:
            own.bind((host, 0))  # the system refuses addresses of other computers
    except (OSError, ValueError):
        return False
    return host not in ("0.0.0.0", "::")  # noqa: S104 — refused


def _connect(host: str, port: int, timeout_s: float) -> socket.socket:
    """A socket to an address of this computer; `socket.create_connection` would import Unicode tables for a name."""
    if host == "localhost":
        return socket.create_connection((host, port), timeout_s)
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout_s)
        sock.connect((host, port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        sock.close()
        raise
    return sock


def _read_reply(sock: socket.socket, deadline: float, most: int) -> tuple[Head, bytes]:
    """Reads one whole reply. The deadline limits the sum of all waits; a socket's own timeout limits each wait.

    Raises TimeoutError and other OSErrors, and ValueError for a reply that is not HTTP, gives no length or is longer
    than ``most``.
    """
    received = bytearray()
    while (end := received.find(_HEAD_END)) < 0:
        received += _read_chunk(sock, deadline)
        if len(received) > MAX_PROOF + _CHUNK:
            raise ValueError("the head of the reply is too long")
    head = Head.parse(bytes(received[:end]))
    whole = end + len(_HEAD_END) + head.length
    if not 0 <= head.length <= most:
        raise ValueError("the reply is too long")
    while len(received) < whole:
        received += _read_chunk(sock, deadline)
    return head, bytes(received[end + len(_HEAD_END) : whole])


def _read_chunk(sock: socket.socket, deadline: float) -> bytes:
    """Reads some bytes of a reply. Raises TimeoutError after the deadline, and ConnectionError at its end."""
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("the reply is too slow")
    sock.settimeout(left_s)
    chunk = sock.recv(_CHUNK)
    if not chunk:
        raise ConnectionError("the server closed the connection")
    return chunk
