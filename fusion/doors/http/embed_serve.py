"""Runs the server of `fusion embed-serve` until a signal stops it."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager

import uvicorn
from starlette.types import ASGIApp

from fusion.doors.http.embed import EncodingServer, create_app, default_threads, hosts_of
from fusion.doors.http.protocol import LimitedProtocol
from fusion.doors.http.serve import listen, url_of
from fusion.errors import SettingsError
from fusion.gateway.import_class import resolve
from fusion.local_models.registry import LocalModel
from fusion.trust.reach import is_loopback

OPENS = "adapters.embedders.local:encoder_of"
"""what opens the model"""
NOTICE_S = 1.0
"""seconds between `/readyz` saying that it stops and the end of new connections, so that a balancer sees it"""
CONNECTIONS = 1_000


def serve(model: LocalModel, host: str, port: int, threads: int, key: str, on_ready: Callable[[str], None]) -> None:
    """Serve ``model`` until SIGTERM or SIGINT; ``on_ready`` gets the URL.

    Raises SettingsError for an address that other machines reach without a key, and ModelMissing.
    """
    loopback = host == "localhost" or is_loopback(host)
    if not (key or loopback):
        raise SettingsError(
            f"{host} is reachable from other machines: set FUSION_EMBED_KEY to a key, or serve on 127.0.0.1"
        )
    with closing(listen(host, port)) as door:
        server = EncodingServer(model, resolve(OPENS, "model")(model), threads or default_threads())
        with closing(server):
            app = create_app(server, hosts_of(host, loopback), key)
            asyncio.run(_run(_Server(app, server), door, on_ready))


class _Server(uvicorn.Server):
    """uvicorn that says that it stops, and then finishes what it has begun."""

    def __init__(self, app: ASGIApp, encoding: EncodingServer) -> None:
        self._encoding = encoding
        super().__init__(
            uvicorn.Config(
                app,
                http=LimitedProtocol,
                ws="none",
                lifespan="off",
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=CONNECTIONS,
            )
        )

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    def stop(self) -> None:
        """Report not ready, then close the door; a second call does so at once."""
        if self._encoding.draining:
            self.should_exit = True
            return
        self._encoding.draining = True
        asyncio.get_running_loop().call_later(NOTICE_S, self._close_door)

    def _close_door(self) -> None:
        self.should_exit = True


async def _run(server: _Server, door: socket.socket, on_ready: Callable[[str], None]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    on_ready(url_of(door))
    await server.serve(sockets=[door])
