"""What the gateway is measured against: four backends that only answer, and a handler that only gathers.

    python -m benchmarks.overhead_servers backends            four ports, each with the gateway's own search reply
    python -m benchmarks.overhead_servers bare URL URL …      FastAPI: fetch and parse all, reply with their number

Each prints one line of JSON when it is ready.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import aiohttp
import orjson
import uvicorn
from aiohttp import web
from fastapi import FastAPI, Request

from benchmarks.synthetic_text import sentence

BACKENDS = 4
HITS = 15
"""candidates a backend: 60 in all"""
CHARACTERS = 500
SHARED = 2
"""of a backend's hits, those that its neighbour has too"""
VARIANTS = 100
"""different replies of each backend, given in turn: a store of 5,200 texts, of which each question finds other ones"""


def replies(backend: int) -> list[bytes]:
    """A backend's bodies, serialised beforehand."""
    return [orjson.dumps({"hits": [_hit(backend, variant, n) for n in range(HITS)]}) for variant in range(VARIANTS)]


def _hit(backend: int, variant: int, n: int) -> dict[str, object]:
    owner = (backend + 1) % BACKENDS if n >= HITS - SHARED else backend
    number = n - (HITS - SHARED) if owner != backend else n
    draw = Random(f"{owner}/{variant}/{number}")
    return {
        "native_id": f"{owner}-{variant}-{number}",
        "text": sentence(draw, CHARACTERS),
        "score": 1.0 - n / HITS,
        "kind": "note",
        "at": f"2026-0{1 + number % 9}-1{number % 10}T08:00:00+00:00",
        "document": f"notes/{owner}-{number % 5}.md",
        "start": number * 10,
        "end": number * 10 + 9,
        "unit": "line",
    }


async def backends() -> None:
    """Serves until stopped. ``POST /delay {"backend": 0, "seconds": 0.05}`` on any port makes one of them slow."""
    delays = [0.0] * BACKENDS

    def application(backend: int) -> web.Application:
        bodies = itertools.cycle(replies(backend))

        async def search(request: web.Request) -> web.Response:
            await request.read()
            if delays[backend]:
                await asyncio.sleep(delays[backend])
            return web.Response(body=next(bodies), content_type="application/json")

        async def delay(request: web.Request) -> web.Response:
            wanted = await request.json()
            delays[wanted["backend"]] = wanted["seconds"]
            return web.Response()

        made = web.Application()
        made.router.add_post("/v1/search", search)
        made.router.add_post("/delay", delay)
        return made

    urls = []
    for backend in range(BACKENDS):
        runner = web.AppRunner(application(backend), access_log=None)
        await runner.setup()
        door = listen()
        await web.SockSite(runner, door).start()
        urls.append(f"http://127.0.0.1:{door.getsockname()[1]}")
    _ready({"urls": urls})
    await asyncio.Event().wait()


def bare(urls: Sequence[str]) -> None:
    """The least that anybody would write: no deadline, no ranking, nothing kept."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with aiohttp.ClientSession() as session:
            app.state.session = session
            _ready({"url": f"http://127.0.0.1:{door.getsockname()[1]}"})
            yield

    app = FastAPI(lifespan=lifespan)

    async def ask(session: aiohttp.ClientSession, url: str, query: str) -> list[dict[str, Any]]:
        async with session.post(f"{url}/v1/search", json={"query": query, "limit": 100}) as response:
            hits: list[dict[str, Any]] = orjson.loads(await response.read())["hits"]
            return hits

    @app.post("/fuse")
    async def fuse(request: Request) -> dict[str, int]:
        body = await request.json()
        answers = await asyncio.gather(*(ask(app.state.session, url, body["query"]) for url in urls))
        return {"hits": sum(map(len, answers))}

    door = listen()
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
    asyncio.run(server.serve(sockets=[door]))


def listen() -> socket.socket:
    """A free port of loopback. The protocol is named: asyncio sets TCP_NODELAY only then, and it is 40 ms a reply."""
    door = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    door.bind(("127.0.0.1", 0))
    door.listen(128)
    door.setblocking(False)
    return door


def _ready(said: dict[str, object]) -> None:
    print(json.dumps(said), flush=True)


def leave_with_parent() -> None:
    """Ends this process when the one that started it is gone, however it went: its end of our stdin closes then."""

    def wait() -> None:
        sys.stdin.buffer.read()
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    leave_with_parent()
    if sys.argv[1] == "backends":
        asyncio.run(backends())
    else:
        bare(sys.argv[2:])
