"""The HTTP door over real sockets: what only a connection can show."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace

import httpx
import pytest

from fusion.doors.http.protocol import LimitedProtocol
from fusion.doors.http.serve import (
    OWN_FILES,
    Server,
    connections_that_fit,
    listen,
    refuse_open_door,
    url_of,
)
from fusion.errors import SettingsError
from fusion.settings import ServerSettings, Settings
from tests.doors.fakes import FakeFusion, app_over, serving

QUESTION = b'{"query": "q"}'


def request(body: bytes, *headers: str, path: str = "/fuse", length: int | None = None) -> bytes:
    """A raw POST; ``length`` announces another size than the body has."""
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *headers]
    if not any(h.lower().startswith("transfer-encoding") for h in headers):
        lines.append(f"Content-Length: {len(body) if length is None else length}")
    return "\r\n".join([*lines, "", ""]).encode() + body


async def connect(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = url.removeprefix("http://").split(":")
    return await asyncio.open_connection(host, int(port))


async def status(reader: asyncio.StreamReader) -> int:
    return int((await reader.readline()).split()[1])


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):  # the server may have hung up first, as it should
        await writer.wait_closed()


@pytest.mark.feature("a client that hangs up cancels the fan-out")
@pytest.mark.feature(
    "a client that disconnects: its searches are cancelled, and no breaker counts it", part="faults/clients"
)
async def test_a_client_that_hangs_up_cancels_the_fan_out() -> None:
    """Nobody reads the answer any more, so nobody works on it: the question is cancelled at once."""
    fusion = FakeFusion(hold=asyncio.Event())
    async with serving(fusion) as url:
        _, writer = await connect(url)
        writer.write(request(QUESTION))
        await fusion.asked.wait()
        await close(writer)
        assert await asyncio.wait_for(fusion.cancelled.wait(), 60)


async def test_a_client_that_stays_gets_its_answer() -> None:
    """The watcher for disconnects does not take a slow answer for one; the connection serves the next request."""
    hold = asyncio.Event()
    fusion = FakeFusion(hold=hold)
    async with serving(fusion) as url, httpx.AsyncClient(base_url=url) as client:
        answer = asyncio.create_task(client.post("/fuse", json={"query": "q"}))
        await fusion.asked.wait()
        hold.set()
        assert (await answer).status_code == 200
        assert (await client.post("/fuse", json={"query": "q"})).status_code == 200
    assert not fusion.cancelled.is_set()


@pytest.mark.feature("a body over the limit is 413 before it is read")
@pytest.mark.feature("a body over 256 KiB: 413 before the rest is read", part="faults/clients")
async def test_an_announced_body_over_the_limit_is_413_before_it_is_read() -> None:
    """256 KiB and one byte announced, nothing sent: refused all the same."""
    fusion = FakeFusion()
    async with serving(fusion) as url:
        reader, writer = await connect(url)
        writer.write(request(b"", length=262_145))
        assert await status(reader) == 413
        await close(writer)
    assert not fusion.requests


@pytest.mark.feature("a body over 256 KiB: 413 before the rest is read", part="faults/clients")
async def test_a_chunked_body_over_the_limit_is_413_before_its_end() -> None:
    """Chunks until the limit is passed; the server does not wait for the last one."""
    fusion = FakeFusion()
    async with serving(fusion) as url:
        reader, writer = await connect(url)
        writer.write(request(b"", "Transfer-Encoding: chunked"))
        chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        for _ in range(5):  # 5 × 64 KiB = 320 KiB, and no end
            writer.write(chunk)
        assert await status(reader) == 413
        await close(writer)
    assert not fusion.requests


async def test_a_body_at_the_limit_is_taken() -> None:
    """262,144 bytes exactly, most of them blanks round a small question."""
    body = QUESTION.ljust(262_144)
    async with serving(FakeFusion()) as url, httpx.AsyncClient(base_url=url) as client:
        response = await client.post("/fuse", content=body, headers={"content-type": "application/json"})
        assert response.status_code == 200


async def test_a_refused_body_of_a_few_megabytes_still_reads_its_refusal() -> None:
    """A client that sends 1 MB without listening sees the 413, not a reset."""
    async with serving(FakeFusion()) as url, httpx.AsyncClient(base_url=url) as client:
        response = await client.post("/fuse", content=b" " * 1_000_000, headers={"content-type": "application/json"})
        assert response.status_code == 413
        assert response.headers["content-type"] == "application/problem+json"


async def test_evil_hosts_and_origins_are_refused_on_the_wire() -> None:
    """What the in-process tests show holds for real requests; two Host headers are no Host."""
    async with serving(FakeFusion()) as url, httpx.AsyncClient(base_url=url) as client:
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/healthz", headers={"Host": "evil.example"})).status_code == 421
        assert (await client.get("/healthz", headers={"Origin": "http://evil.example"})).status_code == 403
        reader, writer = await connect(url)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
        assert await status(reader) in (400, 421)
        await close(writer)


async def test_garbage_instead_of_http_is_400() -> None:
    """A 400 and a closed connection; the next client is served."""
    async with serving(FakeFusion()) as url, httpx.AsyncClient(base_url=url) as client:
        reader, writer = await connect(url)
        writer.write(b"\x16\x03\x01\x00\xa5\x01\r\n\r\n")
        assert await status(reader) == 400
        await close(writer)
        assert (await client.get("/healthz")).status_code == 200


@pytest.mark.feature("slowloris: headers that never end are cut off")
@pytest.mark.feature("endless headers or bodies, and too many connections", part="faults/clients")
async def test_endless_headers_are_cut() -> None:
    """Slowloris: a connection that does not finish its headers in time is closed; one that does is not."""

    class Impatient(LimitedProtocol):
        headers_timeout_s = 0.05

    async with serving(FakeFusion(), protocol=Impatient) as url:
        reader, writer = await connect(url)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        assert await asyncio.wait_for(reader.read(), 60) == b""
        await close(writer)
        Impatient.headers_timeout_s = 60.0  # a busy client may need longer than what cut the first one off
        async with httpx.AsyncClient(base_url=url) as client:
            assert (await client.get("/healthz")).status_code == 200


@pytest.mark.feature(
    "… an endless body is 408, and what trickles in after a refusal is cut off", of="every function that reads text"
)
@pytest.mark.feature("endless headers or bodies, and too many connections", part="faults/clients")
async def test_endless_body_is_408() -> None:
    """Slowloris with bodies: what was announced and does not come is refused, and the connection closed."""
    fusion = FakeFusion()
    settings = Settings()
    app = app_over(fusion, settings)
    app.rules = replace(app.rules, body_timeout_s=0.05)
    async with serving(fusion, settings, app=app) as url:
        reader, writer = await connect(url)
        writer.write(request(QUESTION, length=len(QUESTION) + 1))
        assert await status(reader) == 408
        assert b"connection: close" in await asyncio.wait_for(reader.read(), 60)
        await close(writer)
    assert not fusion.requests


async def test_trickling_body_after_a_refusal_is_cut() -> None:
    """A refused body is swallowed for its sender's sake, but not for ever: then the connection is closed."""

    class Impatient(LimitedProtocol):
        body_timeout_s = 0.05

    async with serving(FakeFusion(), protocol=Impatient) as url:
        reader, writer = await connect(url)
        wrong = request(b"{", length=1000).replace(b"application/json", b"text/plain")
        writer.write(wrong)
        assert await status(reader) == 415
        await asyncio.wait_for(reader.read(), 60)  # to the end, which only the server makes
        await close(writer)


@pytest.mark.feature("a connection over the cap gets an error that says so, and is closed")
@pytest.mark.feature("endless headers or bodies, and too many connections", part="faults/clients")
async def test_connection_over_the_cap_is_503() -> None:
    """503 with Retry-After for the third of two; when one has left, the next is let in."""
    settings = Settings(server=ServerSettings(max_connections=2))
    async with serving(FakeFusion(), settings) as url:
        let_in = [await connect(url) for _ in range(2)]
        for reader, writer in let_in:
            writer.write(request(QUESTION))
            assert await status(reader) == 200
        reader, writer = await connect(url)
        writer.write(request(QUESTION))
        refused = await asyncio.wait_for(reader.read(), 60)
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nretry-after: 1\r\n" in refused
        assert json.loads(refused.partition(b"\r\n\r\n")[2])["type"] == "urn:memory-fusion:error:Overloaded"
        await close(writer)
        for _, writer in let_in:
            await close(writer)
        while True:  # the server hears of it in its own time
            reader, writer = await connect(url)
            writer.write(request(QUESTION))
            answered = await status(reader)
            await close(writer)
            if answered == 200:
                break


@pytest.mark.feature("a connection over the cap that sends nothing for a second is refused, too, and not just closed")
async def test_silent_connection_over_the_cap_is_refused() -> None:
    """It has a second to say something, not the ten of who was let in. What it sends then is discarded."""

    class Unhurried(LimitedProtocol):
        headers_timeout_s = 3600.0  # who was let in has as long as this test needs

    settings = Settings(server=ServerSettings(max_connections=1))
    async with serving(FakeFusion(), settings, protocol=Unhurried) as url:
        _, first = await connect(url)
        reader, writer = await connect(url)
        begun = await asyncio.wait_for(reader.readuntil(b"\r\n"), 60)
        writer.write(request(QUESTION))
        assert begun.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nretry-after: 1\r\n" in await asyncio.wait_for(reader.read(), 60)
        await close(writer)
        await close(first)


def test_connection_cap_fits_the_open_files_limit() -> None:
    """As many connections as asked for where the system allows; else as many as leave the stores theirs."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert connections_that_fit(10) == 10
    if most != resource.RLIM_INFINITY:
        assert connections_that_fit(most) == most - OWN_FILES


@pytest.mark.feature("a request that outlasts the shutdown is answered with Retry-After")
@pytest.mark.feature("SIGTERM under load: nothing is dropped", part="faults/clients")
async def test_request_that_outlasts_the_drain_is_503() -> None:
    """Not cut off without a word: 503 with Retry-After, then the end."""
    fusion = FakeFusion(hold=asyncio.Event())
    settings = Settings(server=ServerSettings(drain_s=0))
    door = listen("127.0.0.1", 0)
    server = Server(app_over(fusion, settings), settings)
    running = asyncio.create_task(server.serve(sockets=[door]))
    async with httpx.AsyncClient(base_url=url_of(door)) as client:
        answer = asyncio.create_task(client.post("/fuse", json={"query": "q"}))
        await fusion.asked.wait()
        server.stop()
        server.close_door()
        late = await answer
        await running
    assert (late.status_code, late.headers["retry-after"]) == (503, "1")
    assert late.json()["type"] == "urn:memory-fusion:error:Overloaded"
    assert fusion.cancelled.is_set()


async def test_stopping_server_drains() -> None:
    """Not ready for the balancer, still there for who is on the way; what is under way is answered, then it leaves."""
    hold = asyncio.Event()
    fusion = FakeFusion(hold=hold)
    settings = Settings()
    door = listen("127.0.0.1", 0)
    url = url_of(door)
    server = Server(app_over(fusion, settings), settings)
    server.notice_s = 60  # the door is closed below, when the test has looked
    running = asyncio.create_task(server.serve(sockets=[door]))
    async with httpx.AsyncClient(base_url=url) as client, httpx.AsyncClient(base_url=url) as late:
        answer = asyncio.create_task(client.post("/fuse", json={"query": "q"}))
        await fusion.asked.wait()
        server.stop()
        assert (await late.get("/readyz")).status_code == 503
        assert (await late.get("/healthz")).status_code == 200
        server.close_door()
        hold.set()
        assert (await answer).status_code == 200
        await running
        with pytest.raises(httpx.ConnectError):
            await late.get("/healthz")


def test_replies_do_not_wait_for_nagle() -> None:
    """asyncio sets TCP_NODELAY only on sockets that name their protocol; without it each reply takes 40 ms."""
    with listen("127.0.0.1", 0) as door:
        assert door.proto == socket.IPPROTO_TCP


@pytest.fixture
async def taken() -> AsyncIterator[int]:
    with listen("127.0.0.1", 0) as door:
        yield door.getsockname()[1]


async def test_listen_on_a_taken_port_names_the_fix(taken: int) -> None:
    """Which address, why, and what to type instead."""
    with pytest.raises(SettingsError, match=rf"127\.0\.0\.1 port {taken}.*in use.*--port"):
        listen("127.0.0.1", taken)


@pytest.mark.feature("an address other than loopback is refused without a key")
@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::"])
def test_an_open_address_without_a_key_is_refused(host: str) -> None:
    """Only loopback may be served without an API key."""
    server = Settings().server.model_copy(update={"host": host})
    with pytest.raises(SettingsError, match="FUSION_API_KEY"):
        refuse_open_door(Settings().model_copy(update={"server": server}))
