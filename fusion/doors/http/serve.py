"""`fusion serve`: one process opens a home and serves it until a signal stops it or it has been idle too long."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import math
import os
import resource
import secrets
import shutil
import signal
import socket
import stat
from collections.abc import Callable, Generator, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.config import LOGGING_CONFIG

from fusion.client import LOG
from fusion.doors.http.app import create_app
from fusion.doors.http.middleware import MEM0, OPENCLAW_MEM, QMD, Gate
from fusion.doors.http.protocol import LimitedProtocol
from fusion.doors.server_log import JsonLines, TextLines
from fusion.errors import FusionError, HomeGone, HomeLocked, SettingsError
from fusion.gateway.interpreter import quick_turns, settled_heap
from fusion.home import ServerRecord, explain_lock, owner, read_record, remove_record, write_record
from fusion.lib.caller import RENAME, is_reserved, reserved_note
from fusion.settings import LOOPBACK, Settings
from fusion.trust.token import home_token

if TYPE_CHECKING:
    from fusion.gateway.gateway import Gateway

OWN_FILES = 256
"""file descriptors of the stores and of connections to backends, in addition to those of clients"""

HOME_CHECK_S = 1.0
"""seconds between two checks that the home of an idle server still exists"""
GONE_STATUS = 3
"""exit status of a server whose home is gone"""
OPEN = (
    "Requests need no token: every user and every program of this computer can read, change and forget all memories of "
    "this home (--no-token, server.open_to_local_users)"
)
OPEN_CORTEX = (
    "Port %d needs no token: every user and every program of this computer can add histories, and read the memories of "
    "this home by /hybrid-search and /recall (memory_cortex.open_to_local_users)"
)

M_ARENA_MAX = -8
"""glibc's number of the option that limits malloc's arenas (malloc.h)"""

log = logging.getLogger("fusion.serve")


def serve(settings: Settings, *, on_ready: Callable[[str], None] = lambda url: None) -> None:
    """Serve a home until SIGTERM, SIGINT or the end of its idle time; ``on_ready`` gets the URL when it answers.

    Raises SettingsError when the address is taken or must not be bound, HomeLocked when the home has another owner.
    """
    _bound_arenas()
    os.umask(0o077)  # only the owner may read the files that a backend writes
    log_to_stderr(settings)
    refuse_open_door(settings)
    if settings.server.open_to_local_users:
        log.warning(OPEN)
    if settings.memory_cortex.open_to_local_users:
        log.warning(OPEN_CORTEX, settings.memory_cortex.port)
    for key in settings.keys:
        if is_reserved(key.name):
            log.warning("%s: %s", reserved_note(key.name, key.sha256), RENAME)
    config = uvicorn.Config("", loop="auto")
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(_serve(settings, on_ready))


def _bound_arenas() -> None:
    """Make glibc share two heaps among all threads: one for each thread took 230 MB more with four backends."""
    with contextlib.suppress(OSError, AttributeError):  # not with another C library
        ctypes.CDLL("libc.so.6").mallopt(M_ARENA_MAX, 2)


def log_to_stderr(settings: Settings) -> None:
    """Log our packages at the configured level, and warnings of all others, to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if settings.server.log_format == "json" else TextLines())
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    for name in ("fusion", "adapters"):
        logging.getLogger(name).setLevel(settings.log_level.upper())


def refuse_open_door(settings: Settings) -> None:
    """Raise SettingsError if other machines could reach the server without a key."""
    host = settings.server.host
    if settings.server.open_to_local_users and host not in LOOPBACK:
        raise SettingsError(
            f"{host} is reachable from other machines, so the server does not serve there without a token: leave out "
            "--no-token and server.open_to_local_users, or serve on 127.0.0.1."
        )
    if settings.server.open_to_local_users and settings.keys:
        raise SettingsError("--no-token lets everyone in without a key: remove it, or the API keys.")
    if host not in LOOPBACK and not settings.keys:
        raise SettingsError(
            f"{host} is reachable from other machines, so the server wants an API key first: set FUSION_API_KEY or add "
            "[[server.keys]] to the configuration, or serve on 127.0.0.1."
        )


def listen(host: str, port: int, fix: str = "Choose another with --port (0 takes a free one)") -> socket.socket:
    """A listening socket; port 0 chooses a free one. Raises SettingsError, with the ``fix``, where it cannot be had."""
    try:
        # The protocol is named (IPPROTO_TCP), because asyncio sets TCP_NODELAY only then: 40 ms a reply otherwise.
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise SettingsError(f"server.host = {host!r} is no address of this computer: {error.strerror}.") from None
    door = socket.socket(family, kind, protocol)
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind(address)
        door.listen(2048)
    except OSError as error:
        door.close()
        raise SettingsError(f"Cannot listen on {host} port {port}: {error.strerror}. {fix}.") from None
    door.setblocking(False)
    return door


async def _serve(settings: Settings, on_ready: Callable[[str], None]) -> None:
    from fusion.gateway.gateway import Gateway
    from fusion.gateway.otel import tracing

    # Before the port: that is most likely taken by the very server that has the home, and another port is no fix.
    if (holder := owner(settings.home)) is not None:
        record = read_record(settings.home)
        where = f" on {record.url}" if record else ""
        raise HomeLocked(
            explain_lock(settings.home, holder, f"It answers{where}, so nothing needs to be started. To stop it")
        )
    with contextlib.ExitStack() as doors:
        door = doors.enter_context(contextlib.closing(listen(settings.server.host, settings.server.port)))
        drop_ins: dict[socket.socket, str] = {}
        for setting, port, prefix in own_ports(settings):
            own = listen(settings.server.host, port, f"Choose another: {setting}")
            drop_ins[doors.enter_context(contextlib.closing(own))] = prefix
        doors.enter_context(tracing(settings))
        async with Gateway.open(settings) as gateway:
            doors.enter_context(settled_heap())
            doors.enter_context(quick_turns())
            await serve_on(door, gateway, settings, on_ready, drop_ins)
            try:
                gateway.require_home()
            except HomeGone as error:
                abandon(error)


def own_ports(settings: Settings) -> Iterator[tuple[str, int, str]]:
    """The ports besides the server's own, for clients of other systems: the setting, the port, and its path prefix.

    The prefix is "" for Memory Cortex, whose routes are at the root of every port.
    """
    for name, chosen in settings.backends.items():
        if chosen.compat_port:
            yield f"backends.{name}.compat_port", chosen.compat_port, f"/compat/{name}"
    if settings.memory_cortex.enabled and settings.memory_cortex.port:
        yield "memory_cortex.port", settings.memory_cortex.port, ""
    if settings.openclaw_mem.port:
        yield "openclaw_mem.port", settings.openclaw_mem.port, OPENCLAW_MEM
    if settings.mem0.port:
        yield "mem0.port", settings.mem0.port, MEM0
    if settings.qmd.port:
        yield "qmd.port", settings.qmd.port, QMD


def abandon(error: HomeGone) -> NoReturn:
    """End this process without closing its stores: closing would write to the files that are at these paths now.

    The stores are as safe as after ``kill -9``.
    """
    log.error("%s", error)
    logging.shutdown()
    os._exit(GONE_STATUS)


async def _leave_when_gone(server: Server, gateway: Gateway) -> None:
    """Stop the server when its home is gone, also while it is idle."""
    while True:
        try:
            await gateway.look_at_home()
        except HomeGone as error:
            log.error("%s", error)
            server.stop()
            return
        except FusionError as error:
            log.warning("the home could not be looked at: %s", error)
        bound_log(gateway.settings.home / LOG, server.log_bytes)
        await asyncio.sleep(HOME_CHECK_S)


def bound_log(log_file: Path, max_bytes: float, descriptor: int = 2) -> None:
    """Rotate ``log_file`` if this process logs to it and it is full; the full one replaces the last ``.1``."""
    with contextlib.suppress(OSError):
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_size <= max_bytes:
            return
        if not os.path.samestat(about, log_file.lstat()):
            return
        kept = log_file.with_name(f"{log_file.name}.1")
        kept.unlink(missing_ok=True)
        shutil.copyfile(log_file, kept, follow_symlinks=False)
        os.ftruncate(descriptor, 0)  # it is opened for appending, so the next line begins it


async def serve_on(
    door: socket.socket,
    gateway: Gateway,
    settings: Settings,
    on_ready: Callable[[str], None] = lambda url: None,
    drop_ins: Mapping[socket.socket, str] | None = None,
) -> None:
    """Serve an open ``gateway`` on the socket ``door``, and record its address in the home for clients.

    ``drop_ins`` are further sockets, each with the path prefix of the drop-in routes that it serves at its root; "":
    all routes.
    """
    drop_ins = drop_ins or {}
    token = token_of(settings.home)
    gate = create_app(gateway, settings, local_token=token)
    app = PortPrefix(gate, {one.getsockname()[1]: prefix for one, prefix in drop_ins.items() if prefix})
    server = Server(gate, settings, app=app)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    try:
        write_record(settings.home, ServerRecord(os.getpid(), url_of(door), datetime.now(UTC).isoformat(), token))
    except OSError as error:  # a full or read-only disk: clients need the address
        log.warning("clients cannot find this server by its home: %s", error)
    idle = asyncio.ensure_future(_leave_when_idle(server, gate, gateway, settings.server.idle_exit_s))
    watching = asyncio.ensure_future(_leave_when_gone(server, gateway))
    try:
        on_ready(url_of(door))
        await server.serve(sockets=[door, *drop_ins])
    finally:
        idle.cancel()
        watching.cancel()
        remove_record(settings.home)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def token_of(home: Path) -> str:
    """The home's token, or a random one if none can be written: then only API keys open the server.

    Raises SettingsError for a token file that is not to be trusted.
    """
    try:
        return home_token(home)
    except OSError as error:
        log.warning("the home's token cannot be written (%s): only API keys open this server", error.strerror)
        return secrets.token_urlsafe(32)


def url_of(door: socket.socket) -> str:
    """The URL at which clients on this machine reach a socket, also one that listens on every address."""
    host, port = door.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 — compared, not bound
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def _leave_when_idle(server: Server, gate: Gate, gateway: Gateway, idle_exit_s: float) -> None:
    """Stop a server that a client started, after ``idle_exit_s`` without requests, deliveries and jobs under way."""
    while idle_exit_s > 0:
        if gate.idle_s() < idle_exit_s:
            await asyncio.sleep(max(0.05, idle_exit_s - gate.idle_s()))
            continue
        await gateway.settle()
        await gateway.jobs().finished()
        if gate.idle_s() >= idle_exit_s:
            log.info("no request for %g s: stopping", idle_exit_s)
            server.stop()
            return


class PortPrefix:
    """Middleware before the gate: a request on a port of another system's gets the path of its drop-in routes."""

    def __init__(self, app: ASGIApp, prefixes: Mapping[int, str]) -> None:
        """``prefixes`` are the path prefixes of these routes, by port."""
        self._app = app
        self._prefixes = prefixes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        port = (scope.get("server") or ("", 0))[1]
        if scope["type"] == "http" and (prefix := self._prefixes.get(port)):
            scope = {**scope, "path": prefix + scope["path"], "raw_path": prefix.encode() + scope["raw_path"]}
        await self._app(scope, receive, send)


class Server(uvicorn.Server):
    """uvicorn without its signal handlers, which would end the process before the home is closed."""

    def __init__(
        self,
        gate: Gate,
        settings: Settings,
        *,
        protocol: type[LimitedProtocol] | None = None,
        app: ASGIApp | None = None,
    ) -> None:
        """``app`` is served instead of the gate; it wraps the gate."""
        self._gate = gate
        self._stopping = False
        self._home = settings.home
        self.notice_s = settings.server.notice_s
        self.log_bytes = settings.server.log_mb * 1_000_000
        super().__init__(
            uvicorn.Config(
                app or gate,
                http=protocol or LimitedProtocol,
                ws="none",
                lifespan="off",
                log_level=settings.log_level,
                # Its own handlers write another format; without them its records come to ours.
                log_config=None if settings.server.log_format == "json" else LOGGING_CONFIG,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # only the key identifies a client
                limit_concurrency=connections_that_fit(settings.server.max_connections),
                timeout_graceful_shutdown=math.ceil(settings.server.drain_s),
                timeout_keep_alive=30,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    def stop(self) -> None:
        """Report not ready, then finish the requests in flight. A second call does not wait for them."""
        if self._stopping:
            self.force_exit = self.should_exit = True
            return
        self._stopping = True
        self._gate.drain()
        remove_record(self._home)
        asyncio.get_running_loop().call_later(self.notice_s, self.close_door)

    def close_door(self) -> None:
        """Accept no new connections, and end after the requests in flight."""
        self.should_exit = True


def connections_that_fit(wanted: int) -> int:
    """The number of connections that the limit on open files allows; the limit is raised first as far as possible."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted + OWN_FILES:
        highest = wanted + OWN_FILES if hard == resource.RLIM_INFINITY else min(hard, wanted + OWN_FILES)
        with contextlib.suppress(OSError, ValueError):  # the system refuses a higher limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))
            soft = highest
        if soft < wanted + OWN_FILES:
            log.warning("only %d files may be open: serving %d connections at once", soft, max(1, soft - OWN_FILES))
            return max(1, soft - OWN_FILES)
    return wanted
