"""A real server process under load: a thousand at once, and told to stop in the middle of it."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import orjson
import pytest

from fusion.client import AsyncClient
from fusion.doors.http.serve import connections_that_fit
from fusion.trust import allow
from tests.doors.fakes import SMALL

THOUSAND = 1000
LOADERS = 16
TOLD = b'{"text": "The bookings move to Postgres in April", "user_id": "nadia"}'
ASKED = b'{"query": "where do the bookings move?", "user_id": "nadia"}'
TOKEN = "t0ken" * 9
JSON = {"content-type": "application/json", "authorization": f"Bearer {TOKEN}"}


@contextmanager
def serve(home: Path, settings: str = "") -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """`fusion serve` as a process, and its URL; every request needs the header of `JSON`."""
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "fusion.toml").write_text(SMALL + settings)
    allow(home)  # which takes away a token that came with a home
    (home / "token").touch(0o600)
    (home / "token").write_text(TOKEN)
    command = [sys.executable, "-m", "fusion", "serve", "--home", str(home), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield process, orjson.loads(process.stdout.readline())["url"]
        finally:
            process.kill()


def open_in(process: subprocess.Popen[bytes]) -> tuple[int, int]:
    """How many sockets a process has open, and how many files."""
    targets = []
    for entry in Path(f"/proc/{process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since
            targets.append(str(entry.readlink()))
    sockets = sum(target.startswith("socket:") for target in targets)
    return sockets, len(targets) - sockets


async def one(url: str, body: bytes) -> tuple[int, bool]:
    """One question over a connection of its own: its status, and whether it was told when to come back."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST /fuse HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    writer.write(f"{head}\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n".encode() + body)
    reply = await reader.read()
    writer.close()
    await writer.wait_closed()
    return int(reply.split()[1]), b"\r\nretry-after: " in reply.partition(b"\r\n\r\n")[0]


@pytest.mark.feature(
    "of a thousand requests at once, each is answered or refused with Retry-After, and nothing is left open"
)
@pytest.mark.feature(
    "a thousand requests at once: answered or 503 with Retry-After, nothing left open", part="faults/clients"
)
async def test_1000_concurrent_requests_are_answered_or_503(home: Path) -> None:
    """64 are worked on and 128 wait (the defaults); the others get 503 with Retry-After. Then all is as before."""
    assert connections_that_fit(THOUSAND) == THOUSAND
    with serve(home) as (process, url):
        async with httpx.AsyncClient(base_url=url) as client:
            assert (await client.post("/v1/memories", content=TOLD, headers=JSON)).status_code == 201
            assert (await client.post("/fuse", content=ASKED, headers=JSON)).status_code == 200
            sockets, before = open_in(process)
            for _ in range(5):
                replies = Counter(await asyncio.gather(*(one(url, ASKED) for _ in range(THOUSAND))))
                assert set(replies) <= {(200, False), (503, True)}
                assert replies[200, False] >= 64
                while open_in(process)[0] > sockets:
                    assert (await client.get("/healthz")).status_code == 200  # a turn of its loop, to close them
                files = open_in(process)[1]
                if files == before:
                    break
                before = files
            # Stores open their readers when they first need them, which ends; a leak would go on.
            assert open_in(process) == (sockets, before)
            assert (await client.post("/fuse", content=ASKED, headers=JSON)).status_code == 200


async def load(url: str, running: asyncio.Event) -> Counter[int]:
    """Remembers and asks in turns until a reply says that it is its connection's last; the statuses."""
    statuses: Counter[int] = Counter()
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        while True:
            for path, body in (("/v1/memories", TOLD), ("/fuse", ASKED)):
                response = await client.post(path, content=body, headers=JSON)
                statuses[response.status_code] += 1
                if response.headers.get("connection") == "close":
                    return statuses
            running.set()


@pytest.mark.feature(
    "SIGTERM under load drops nothing: first not ready, then the last reply of each connection, then the end"
)
@pytest.mark.feature("SIGTERM under load: nothing is dropped", part="faults/clients")
async def test_sigterm_under_load_drops_nothing(home: Path) -> None:
    """Not ready at once; every request that was sent is answered, and tells its client to go elsewhere; then it ends.

    What was acknowledged is there when the home is opened again: one memory for each 201.
    """
    with serve(home, "[server]\nnotice_s = 5\n") as (process, url):
        running = [asyncio.Event() for _ in range(LOADERS)]
        loaders = [asyncio.create_task(load(url, event)) for event in running]
        await asyncio.gather(*(event.wait() for event in running))
        async with httpx.AsyncClient(base_url=url) as client:
            assert (await client.get("/readyz")).status_code == 200
            process.send_signal(signal.SIGTERM)
            ready = await client.get("/readyz")
            while ready.status_code == 200:
                ready = await client.get("/readyz")
        assert (ready.status_code, ready.headers["retry-after"]) == (503, "1")
        statuses: Counter[int] = sum(await asyncio.gather(*loaders), Counter())
        assert await asyncio.to_thread(process.wait, 60) == 0
    assert set(statuses) == {200, 201}
    with serve(home) as (_, url):
        kept, cursor = 0, None
        async with AsyncClient(url, api_key=TOKEN) as client:
            while True:
                page = await client.memories(user_id="nadia", limit=100, cursor=cursor)
                kept += len(page["memories"])
                if (cursor := page["next_cursor"]) is None:
                    break
    assert kept == statuses[201]
