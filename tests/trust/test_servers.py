"""A home's server is believed only where it proves itself, and only the process that holds the lock is stopped."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from fusion.client import AsyncClient, Client, ensure_server, open_log, stop_server
from fusion.doors.hooks import HookCall, capture_transcript
from fusion.errors import HomeNotAllowed, ServerUnreachable
from fusion.home import HomeLock, ServerRecord, holds_lock, owner, read_record, write_record
from fusion.local_server import is_here, running_server
from fusion.trust.token import CHALLENGE, PROOF, home_token, proof
from tests.doors.fakes import FakeFusion, serving_home


@dataclass
class Impostor:
    """A server that is not the home's: it keeps what it is sent, and answers ``/healthz`` as far as it can."""

    token: str | None = None
    """what it proves with; None: it gives a proof that is wrong"""
    proofs: int = 1_000_000
    """so often it proves itself; then it is another program at the same port"""
    removes: Path | None = None
    """a file that goes when it first proves itself"""
    connections: int = 0
    challenges: int = 0
    heard: list[str] = field(default_factory=list)
    """the request lines, and bodies, of what it was sent but ``GET /healthz``"""

    @contextmanager
    def serving(self) -> Iterator[str]:
        impostor = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                impostor.connections += 1
                super().setup()

            def do_GET(self) -> None:
                self.answer()

            def do_POST(self) -> None:
                self.answer()

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                if self.path != "/healthz" or self.headers.get("authorization"):
                    impostor.heard.append(f"{self.requestline} {self.headers.get('authorization')} {body.decode()}")
                reply = json.dumps({"pid": os.getpid(), "status": "ok"}).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(reply)))
                if nonce := self.headers.get(CHALLENGE):
                    impostor.challenges += 1
                    knows = impostor.token is not None and impostor.proofs > 0
                    impostor.proofs -= 1
                    token = str(impostor.token) if knows else "guessed"
                    if impostor.removes is not None:
                        impostor.removes.unlink(missing_ok=True)
                    self.send_header(PROOF, proof(token, nonce, self.connection.getsockname()))
                self.end_headers()
                self.wfile.write(reply)

            def log_message(self, *arguments: object) -> None:
                """Nothing is printed."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


@contextmanager
def recorded(home: Path, impostor: Impostor) -> Iterator[None]:
    """An impostor in ``server.json`` of a home whose lock this process holds as "fusion serve"."""
    with HomeLock.take(home, "fusion serve"), impostor.serving() as url:
        home_token(home)
        write_record(home, ServerRecord(os.getpid(), url, "now"))
        yield


def test_a_server_without_the_token_gets_no_request(home: Path) -> None:
    """It is named, and nothing but the challenge was sent."""
    impostor = Impostor()
    with recorded(home, impostor):
        assert running_server(home) is None
        with pytest.raises(ServerUnreachable, match="does not know the home's token"):
            ensure_server(home)
        with pytest.raises(ServerUnreachable), Client.of_home(home, start=False) as client:
            client.fuse("where are the keys?")
    assert impostor.heard == []


@pytest.mark.feature(
    "no question, key or transcript reaches a program that does not know the home's token, on any connection"
)
def test_a_program_that_takes_the_port_later_gets_no_question(home: Path) -> None:
    """Every connection is proved: a client that found the server an hour ago does not send to its successor."""
    with HomeLock.take(home, "fusion serve"):
        token = home_token(home)
        impostor = Impostor(token, proofs=1)
        with impostor.serving() as url:
            write_record(home, ServerRecord(os.getpid(), url, "now"))
            with Client.of_home(home, start=False) as client:
                client.health()
                impostor.heard.clear()
                with pytest.raises(ServerUnreachable):
                    client.fuse("where are the keys?")
    assert impostor.heard == []


def test_a_first_question_takes_one_connection_and_one_proof(home: Path) -> None:
    """The client asks on the connection on which the server has proved itself; the next question has one of its own."""
    with HomeLock.take(home, "fusion serve"):
        server = Impostor(home_token(home))
        with server.serving() as url, Client.of_home(home, start=False) as client:
            write_record(home, ServerRecord(os.getpid(), url, "now"))
            client.health()
            assert (server.connections, server.challenges) == (1, 1)
            client.health()
            assert (server.connections, server.challenges) == (2, 2)


@pytest.mark.feature("a hook opens one connection to the server, and the server proves itself on it")
def test_a_hook_takes_one_connection_and_one_proof(home: Path) -> None:
    """Before each prompt of an agent."""
    with HomeLock.take(home, "fusion serve"):
        server = Impostor(home_token(home))
        with server.serving() as url:
            write_record(home, ServerRecord(os.getpid(), url, "now"))
            subprocess.run(
                [sys.executable, "-m", "fusion", "hook", "user-prompt-submit", "--home", str(home)],
                input=b'{"prompt": "where do chains come from?"}',
                capture_output=True,
                check=True,
                timeout=60,
            )
    assert (server.connections, server.challenges) == (1, 1)
    [question] = server.heard
    assert question.startswith("POST /v1/fuse HTTP/1.1 Bearer ")


@pytest.mark.feature(
    "… a token that vanishes during a hook's capture does not allow a connection without proof",
    of="no question, key or transcript reaches a program",
)
def test_hook_capture_without_the_token_sends_nothing_to_an_unproven_server(home: Path, tmp_path: Path) -> None:
    """The token goes between the proof and the transcript, when another program already has the port."""
    turn = {"type": "user", "uuid": "u1", "message": {"role": "user", "content": "The keys are in the shed."}}
    turn |= {"sessionId": "s1", "timestamp": "2026-05-01T10:00:00Z"}
    (tmp_path / "talk.jsonl").write_text(json.dumps(turn) + "\n")
    with HomeLock.take(home, "fusion serve"):
        impostor = Impostor(home_token(home), proofs=1, removes=home / "token")
        with impostor.serving() as url:
            write_record(home, ServerRecord(os.getpid(), url, "now"))
            call = HookCall({"transcript_path": str(tmp_path / "talk.jsonl")}, home)
            with pytest.raises(ServerUnreachable):
                capture_transcript(call)
    assert impostor.connections > 0
    assert impostor.heard == []


async def test_an_async_client_proves_each_connection(home: Path) -> None:
    """Before its first byte: neither question nor key reaches the program that has the port by now."""
    with HomeLock.take(home, "fusion serve"):
        token = home_token(home)
        impostor = Impostor(token, proofs=1)
        with impostor.serving() as url:
            write_record(home, ServerRecord(os.getpid(), url, "now"))
            async with AsyncClient.of_home(home, start=False) as client:
                with pytest.raises(ServerUnreachable):
                    await client.fuse("where are the keys?")
    assert impostor.heard == []


@pytest.mark.feature("a server's proof is worthless to a program at another address that relays challenges")
async def test_a_program_that_passes_challenges_on_to_the_server_gets_no_question(home: Path) -> None:
    """A proof is worth nothing at another address than the server's own; everybody can ask the server for one."""
    heard = bytearray()

    async def passes_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_server, from_server = None, None
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
            while words := await reader.readuntil(b"\r\n\r\n"):
                heard.extend(words)
                to_server.write(words)
                answer = await from_server.readuntil(b"\r\n\r\n")
                length = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                writer.write(answer + await from_server.readexactly(length))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            if to_server is not None:
                to_server.close()

    async with serving_home(home, FakeFusion()) as url, await asyncio.start_server(passes_on, "127.0.0.1", 0) as relay:
        port = relay.sockets[0].getsockname()[1]
        write_record(home, ServerRecord(os.getpid(), f"http://127.0.0.1:{port}", "now"))
        async with AsyncClient.of_home(home, start=False) as client:
            with pytest.raises(ServerUnreachable):
                await client.fuse("where are the keys?")
        with Client.of_home(home, start=False) as blocking, pytest.raises(ServerUnreachable):
            await asyncio.to_thread(blocking.fuse, "where are the keys?")
    assert heard.startswith(b"GET /healthz")
    assert (b"authorization" in heard.lower(), b"keys" in heard) == (False, False)


async def test_the_homes_own_server_is_believed(home: Path) -> None:
    """By both clients."""
    async with serving_home(home, FakeFusion()):
        assert await asyncio.to_thread(running_server, home) is not None
        async with AsyncClient.of_home(home, start=False) as client:
            assert (await client.fuse("q"))["receipt_id"] == "r1"
            assert (await client.fuse("q"))["receipt_id"] == "r1"
        with Client.of_home(home, start=False) as blocking:
            assert (await asyncio.to_thread(blocking.fuse, "q"))["receipt_id"] == "r1"


def test_a_record_without_the_lock_is_not_believed(home: Path) -> None:
    """A planted server.json with a token of its own and a server that knows it: nobody holds the lock."""
    impostor = Impostor()
    HomeLock.take(home).release()
    impostor.token = home_token(home)
    with impostor.serving() as url:
        write_record(home, ServerRecord(os.getpid(), url, "now"))
        assert running_server(home) is None


@pytest.mark.feature(
    "… `server.json` is used only if its process holds the home's lock",
    of="no question, key or transcript reaches a program",
)
def test_a_record_of_another_process_than_the_lock_is_not_believed(home: Path) -> None:
    """The one that holds the lock is the server."""
    impostor = Impostor()
    with HomeLock.take(home, "fusion serve"), impostor.serving() as url:
        impostor.token = home_token(home)
        write_record(home, ServerRecord(os.getppid(), url, "now"))
        assert running_server(home) is None


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:8765", True),
        ("http://[::1]:8765", True),
        ("http://localhost:8765", True),
        ("http://evil.example:80", False),
        ("http://203.0.113.7:80", False),
        ("http://0.0.0.0:80", False),
        ("https://127.0.0.1:80", False),
        ("http://user@127.0.0.1:80", False),
        ("http://127.0.0.1:80/other", False),
        ("http://127.0.0.1.evil.example:80", False),
        ("http://127.0.0.1", False),
        ("file:///etc/passwd", False),
        ("http://[", False),
    ],
)
def test_a_server_is_on_this_computer(url: str, *, here: bool) -> None:
    """By its address alone: no name is looked up, and nothing is sent."""
    assert is_here(url) is here


def test_a_server_record_is_read_from_a_file_of_ours_only(home: Path, tmp_path: Path) -> None:
    """No link, no FIFO, nothing that others can write."""
    HomeLock.take(home).release()
    record = {"pid": 1, "url": "http://127.0.0.1:1", "started": "now"}
    (tmp_path / "elsewhere").write_text(json.dumps(record))
    (home / "server.json").symlink_to(tmp_path / "elsewhere")
    assert read_record(home) is None
    (home / "server.json").unlink()
    os.mkfifo(home / "server.json")
    assert read_record(home) is None
    (home / "server.json").unlink()
    (home / "server.json").write_text(json.dumps(record))
    (home / "server.json").chmod(0o666)
    assert read_record(home) is None


SLEEP = [sys.executable, "-c", "import sys; print('up', flush=True); sys.stdin.read()"]


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[str]]:
    """A process that has nothing to do with the home."""
    with subprocess.Popen(SLEEP, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        yield process
        process.kill()


def sign(home: Path, pid: int) -> None:
    """The lock and the record name a process, as a folder's author can write them."""
    (home / "lock").write_text(json.dumps({"pid": pid, "what": "fusion serve --home x"}))
    write_record(home, ServerRecord(pid, "http://127.0.0.1:9", "now"))


def test_stop_signals_no_process_that_a_file_names(home: Path, victim: subprocess.Popen[str]) -> None:
    """Nobody holds the lock, so there is no server."""
    HomeLock.take(home).release()
    sign(home, victim.pid)
    assert stop_server(home) is None
    assert victim.poll() is None


@pytest.mark.feature("`fusion stop` signals the process that holds the lock, never one that a file names")
def test_stop_signals_no_process_that_the_holder_of_the_lock_names(home: Path, victim: subprocess.Popen[str]) -> None:
    """Somebody holds the lock, and says that it is another."""
    with HomeLock.take(home, "fusion serve"):
        sign(home, victim.pid)
        with pytest.raises(ServerUnreachable):
            stop_server(home, timeout_s=0.3)
        assert victim.poll() is None


def test_the_system_says_who_holds_the_lock(home: Path) -> None:
    """By its own list of locks."""
    if not Path("/proc/locks").exists():
        pytest.skip("this system has no list of locks")
    with HomeLock.take(home):
        assert holds_lock(home, os.getpid())
        assert not holds_lock(home, os.getppid())
    assert not holds_lock(home, os.getpid())


@pytest.mark.parametrize("name", ["lock", "server.log"])
def test_nothing_is_written_through_a_link(home: Path, tmp_path: Path, name: str) -> None:
    """A link in the place of the lock truncated its target, one at the log was appended to."""
    HomeLock.take(home).release()
    victim = tmp_path / "bashrc"
    victim.write_text("mine")
    (home / name).unlink(missing_ok=True)
    (home / name).symlink_to(victim)
    with pytest.raises(HomeNotAllowed, match=name):
        HomeLock.take(home)
    with pytest.raises(HomeNotAllowed, match=name):
        open_log(home) if name == "server.log" else owner(home)
    assert victim.read_text() == "mine"


@pytest.mark.feature("nothing in a home is opened through a link or a special file")
@pytest.mark.parametrize(
    "name",
    ["journal.sqlite", "receipts.sqlite", "backends", "embeddings", "recipes/x.toml", "backends/mem0", "deep/er/x"],
)
@pytest.mark.parametrize("kind", ["link", "fifo", "dangling"])
def test_a_home_with_a_link_or_special_file_is_refused_by_its_name(
    home: Path, tmp_path: Path, name: str, kind: str
) -> None:
    """Wherever it is; the target stays as it was."""
    HomeLock.take(home).release()
    (home / name).parent.mkdir(parents=True, exist_ok=True)
    if kind == "fifo":
        os.mkfifo(home / name)
    else:
        (tmp_path / "target").mkdir()
        (home / name).symlink_to(tmp_path / ("target" if kind == "link" else "missing"))
    with pytest.raises(HomeNotAllowed, match=name):
        HomeLock.take(home)
    assert list((tmp_path / "target").iterdir() if kind == "link" else ()) == []


def test_a_socket_in_a_home_is_no_trap(home: Path) -> None:
    """A server may listen on one there."""
    HomeLock.take(home).release()
    with socket.socket(socket.AF_UNIX) as door, chdir(home):
        door.bind("s")
        HomeLock.take(home).release()
        assert (home / "s").is_socket()
