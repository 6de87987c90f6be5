"""The ASGI middleware that checks and limits every request before a route.

The order puts the cheapest refusal first, and no byte of a refused body is parsed:
Host (421) and Origin (403) against DNS rebinding and cross-site posts → CORS for pages of an allowed origin: their
preflight is answered here, and they may read every later reply, also a refusal → token or API key (401), which names
the tenant → media type (415) → announced size (413) → the body, limited in bytes (413) and time (408) → a place among
the requests in flight (503; `fusion.gateway.admission` then gives each question a slot). Every reply has a request id,
its timing and the security headers; while the server drains also ``Connection: close``, so that no client sends its
next request on a connection that is about to close.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import math
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fusion import problem
from fusion.contract import Role
from fusion.doors.compat.errors import Words, in_words
from fusion.doors.compat.mem0.errors import refused as refused_by_mem0
from fusion.doors.compat.openclaw_mem.errors import refused as refused_by_openclaw_mem
from fusion.doors.compat.qmd.errors import refused as refused_by_qmd
from fusion.doors.http.request_counts import RequestCounts, door_of, route_of
from fusion.doors.inspector.files import is_page
from fusion.doors.inspector.sessions import Sessions
from fusion.errors import FusionError, Overloaded, TooLarge, TooManyRequests
from fusion.journal.state import BY_HAND
from fusion.lib import trace
from fusion.lib.caller import ANYONE, CALLER, KEY_ID_DIGITS, Caller, shown_name
from fusion.lib.fair_queue import FairQueue
from fusion.lib.request_id import REQUEST_ID
from fusion.lib.request_rate import RequestRates
from fusion.settings import LOOPBACK, Settings
from fusion.trust.token import is_nonce, proof

OPENCLAW_MEM = "/openclaw-mem"
"""the prefix of the routes of openclaw-mem's gateway, whose errors have its shape"""
MEM0 = "/mem0"
"""the prefix of mem0's routes"""
QMD = "/qmd"
"""the prefix of QMD's routes"""
WORDS: Mapping[str, Words] = {OPENCLAW_MEM: refused_by_openclaw_mem, MEM0: refused_by_mem0, QMD: refused_by_qmd}
"""the errors of other systems, by the prefix of their routes"""
PUBLIC = frozenset({"/healthz", "/readyz", "/openapi.json", "/docs", f"{OPENCLAW_MEM}/health", f"{QMD}/health"})
"""routes without a token: they reveal nothing about memories"""
INSPECTOR_SESSIONS = frozenset({"/v1/inspector/sessions", "/v1/inspector/renewals"})
"""routes that let a browser in, which has no key yet"""
COMPAT = "/compat/"
"""the prefix of drop-in routes of backends"""
KEYED_AS_MEM0 = (COMPAT, f"{MEM0}/")
"""the prefixes of routes whose clients may send a key as mem0's do"""
WAITING = frozenset({"/v1/settle"})
"""routes that only wait for work in the background: they hold no place, and up to ``max_in_flight`` of them may wait"""
STREAMED = frozenset({"/v1/import"})
"""routes that read a large body piece by piece, as lines of JSON; each piece has the time limit of a whole body"""
HISTORIES = frozenset({"/ingest"})
"""routes whose body is the whole history of a session, which is stored as it comes"""
OPEN = frozenset({"/ingest", "/hybrid-search", "/recall"})
"""routes of Memory Cortex, whose clients send no token: they may be open on a port of their own"""
STREAMS_BODY = "fusion.streams_body"
"""the member of a request's scope by which the protocol knows an admitted request with such a body"""
LINES = b"application/x-ndjson"
"""the media type that these take besides JSON"""
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
MAX_DISCARDED_BYTES = 10_000_000
"""bytes of a refused body that are read and discarded, so that its sender sees the refusal; a larger one is cut off"""

log = logging.getLogger("fusion.requests")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_HOST = re.compile(r"(?P<name>\[[^\[\]@/]+\]|[^:\[\]@/]+)(?::[0-9]{0,5})?")
"""RFC 9110, 7.2: a host and digits. A URL parser would read a user and a host in "127.0.0.1:1@evil"."""
_SECURITY = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)
_CLOSE = ((b"connection", b"close"),)
_CORS_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_CORS_HEADERS = ("Authorization", "Content-Type", "Idempotency-Key", "X-Request-Id")
"""what a page of an allowed origin may send. Cookies are not among it: no key of ours is one"""
_CORS_EXPOSED = ("Retry-After", "Server-Timing", "X-Request-Id")
"""what it may read of a reply, besides the body"""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of the gate: which hosts, origins and keys are allowed, and the limits on requests."""

    hosts: frozenset[str]
    """names that the Host header may have, without the port"""
    origins: frozenset[str] = frozenset()
    """origins of other sites whose pages may call this server, "https://notes.example"; its own origin always may"""
    keys: tuple[tuple[str, str], ...] = ()
    """(SHA-256 in hex, tenant) of the token and of each API key; empty: every request has the tenant `default`"""
    asks_all: frozenset[str] = frozenset()
    """of these keys, those that may ask for the memories of all users of their tenant"""
    roles: Mapping[str, Role] = field(default_factory=dict)
    """the role of each of these keys; one without is an operator"""
    names: Mapping[str, str] = field(default_factory=dict)
    """the name of each of these keys but the home's token, as logs show it"""
    open_port: int = 0
    """the port at which the routes `OPEN` need no key, for the tenant `default`; 0: none"""
    token: str | None = field(default=None, repr=False)
    """the token that `proof_of` proves to know; it opens the server only if it is in ``keys``"""
    max_body_bytes: int = 262_144
    max_import_bytes: int = 1 << 32
    max_history_bytes: int = 16_000_000
    max_in_flight: int = 64
    max_queued: int = 128
    body_timeout_s: float = 10.0
    queued_s: float = 2.5
    """the longest wait for a place. A question may then wait as long as its own timeout for a slot: with the default
    of 1.5 s, 4 s in all before it runs"""

    @classmethod
    def of(cls, settings: Settings, *, local_token: str | None = None) -> Rules:
        """The rules of the settings; ``local_token``, the home's, is one more key of the tenant `default`."""
        server, cortex = settings.server, settings.memory_cortex
        is_open = cortex.enabled and cortex.open_to_local_users and server.host in LOOPBACK and not settings.keys
        keys = [(key.sha256, key.tenant) for key in settings.keys]
        asks_all = {key.sha256 for key in settings.keys if key.all_users}
        if local_token is not None and not server.open_to_local_users:
            keys.append((sha256(local_token.encode()).hexdigest(), "default"))
            asks_all.add(keys[-1][0])
        bound = f"[{server.host}]" if ":" in server.host else server.host
        return cls(
            hosts=LOOPBACK_NAMES | {bound.lower()} | {name.lower() for name in server.allowed_hosts},
            origins=frozenset(server.allowed_origins),
            keys=tuple(keys),
            asks_all=frozenset(asks_all),
            roles={key.sha256: key.role for key in settings.keys},
            names={key.sha256: shown_name(key.name, key.sha256) for key in settings.keys},
            open_port=cortex.port if is_open else 0,
            token=local_token,
            max_body_bytes=server.max_body_bytes,
            max_import_bytes=int(server.max_import_mb * 1_000_000),
            max_history_bytes=int(cortex.max_history_mb * 1_000_000),
            max_in_flight=server.max_in_flight,
            max_queued=server.max_queued,
        )

    def most_bytes(self, path: str) -> int:
        """The most bytes that the body of a request to this path may have."""
        if path in STREAMED:
            return self.max_import_bytes
        return self.max_history_bytes if path in HISTORIES else self.max_body_bytes

    def proof_of(self, challenge: bytes, address: Sequence[object]) -> str | None:
        """The proof for a client of this address that the server knows the token; None without a valid challenge."""
        return proof(self.token, challenge, address) if self.token is not None and is_nonce(challenge) else None


class ProblemResponse(Response):
    """An error response with problem details (RFC 9457)."""

    media_type = problem.MEDIA_TYPE

    def __init__(self, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        super().__init__(orjson.dumps(body, default=str), body["status"], headers)

    @classmethod
    def of(cls, error: FusionError, **headers: str) -> ProblemResponse:
        """The response to an error, with ``Retry-After`` in whole seconds if the error says when to retry."""
        wait_s = problem.retry_after_s(error)
        if wait_s is not None:
            headers["retry-after"] = str(max(1, math.ceil(wait_s)))
        return cls(problem.problem_of(error), headers)


class Refused(Exception):
    """The gate refuses a request; ``reply`` is the response."""

    def __init__(self, why: int | FusionError, detail: str = "", **headers: str) -> None:
        """``why`` is an HTTP status with its ``detail``, or an error, which has both."""
        super().__init__(detail)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(why, FusionError):
            self.reply = ProblemResponse.of(why, **named)
        else:
            self.reply = ProblemResponse(problem.http_problem(why, detail), named)


class Gate:
    """The middleware. It sets ``scope["tenant"]``, ``scope["request_id"]``, ``scope["admitted"]``: whether the request
    has the token or a key, and ``scope["may_ask_all"]``: whether that key may ask for the memories of all users, and
    ``scope["role"]`` (`fusion.doors.roles`), ``scope["key_name"]``, the name of the key, and ``scope["key_digest"]``,
    its SHA-256 in hex: that of the key that a session of the inspector stands for; ``scope["in_session"]`` says so.
    Without a key it reaches the public routes only, and on ``open_port`` those of `OPEN`."""

    def __init__(
        self,
        app: ASGIApp,
        rules: Rules,
        *,
        probes: Collection[str] = PUBLIC,
        require: Callable[[], None] = lambda: None,
        signed_out: Path | None = None,
        rates: RequestRates | None = None,
    ) -> None:
        """``probes`` are paths that need no place, so that they are answered under overload.

        ``require`` raises a FusionError when the home is gone; then only probes are answered. ``signed_out`` is the
        file with the inspector's sign-ins that have ended. ``rates`` limit the requests of each tenant.
        """
        self._app = app
        self._named: ASGIApp = with_cors(self._admit, rules.origins) if rules.origins else self._admit
        """what a request comes to whose Host and Origin are allowed"""
        self._require = require
        self._rates = rates
        self.rules = rules
        self.sessions = Sessions(rules.token, is_key=self._is_key, signed_out=signed_out)
        """the sessions of the inspector, each of which stands for a key"""
        self._probes = probes
        self._taken = 0
        """places that are taken"""
        self._queue_of_places = FairQueue()
        self._queued_of: Counter[str] = Counter()
        self._in_flight_of: Counter[str] = Counter()
        """requests that a route is working on, by tenant"""
        self._waiting_of: Counter[str] = Counter()
        """requests that wait without a place, by tenant"""
        self._last_active = time.monotonic()
        self.draining = False
        """whether the server is about to stop: `/readyz` reports it, and requests are still served"""
        self._wait_limits: set[asyncio.Timeout] = set()
        self.counts = RequestCounts()

    @property
    def in_flight(self) -> int:
        return self._in_flight_of.total()

    @property
    def queued(self) -> int:
        return self._queued_of.total()

    @property
    def waiting(self) -> int:
        return self._waiting_of.total()

    def drain(self) -> None:
        """Report not ready, close each connection after its next reply, and end the requests that only wait."""
        self.draining = True
        for limit in self._wait_limits:
            if not limit.expired():
                limit.reschedule(0)

    @asynccontextmanager
    async def wait_limit(self, timeout_s: float) -> AsyncIterator[None]:
        """A time limit that ends early when the server drains. Raises TimeoutError."""
        async with asyncio.timeout(0 if self.draining else timeout_s) as limit:
            self._wait_limits.add(limit)
            try:
                yield
            finally:
                self._wait_limits.discard(limit)

    def load(self, tenant: str) -> dict[str, int]:
        """The other requests in flight and queued, for `/v1/status`: of this tenant, or of all for `default`."""
        if tenant == "default":
            return {"in_flight": self.in_flight - 1, "queued": self.queued}
        return {"in_flight": self._in_flight_of[tenant] - 1, "queued": self._queued_of[tenant]}

    def idle_s(self) -> float:
        """Seconds since the last request; probes do not count."""
        return 0.0 if self.in_flight or self.queued or self.waiting else time.monotonic() - self._last_active

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        head = dict(scope["headers"])
        for prefix, words in WORDS.items():
            if scope["path"].startswith(f"{prefix}/"):
                send = in_words(send, words)
        request_id = head.get(b"x-request-id", b"")
        if not _REQUEST_ID.fullmatch(request_id):
            request_id = uuid4().hex.encode()
        scope["request_id"] = request_id.decode()
        token, caller = REQUEST_ID.set(scope["request_id"]), CALLER.set(None)
        status = 0
        """of the reply, once it has started"""
        trace_id = ""

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                took = b"total;dur=%.2f" % ((time.perf_counter() - started) * 1000)
                headers = message.get("headers", ())
                own = {name for name, _ in headers}
                timings = [value for name, value in headers if name == b"server-timing"]
                message["headers"] = [
                    *(header for header in headers if header[0] != b"server-timing"),
                    (b"x-request-id", request_id),
                    (b"server-timing", b", ".join([*timings, took])),
                    *(header for header in _SECURITY if header[0] not in own),
                    *(_CLOSE if self.draining else ()),
                ]
            await send(message)

        try:
            self._check_names(scope, head)
            with trace.span(scope["method"], "server", parent=head.get(b"traceparent", b"").decode("latin-1")) as span:
                trace_id = trace.trace_id()
                await self._named(scope, receive, send_with_headers)
                name_span(span, scope, status)
        except Refused as refused:
            await refused.reply(scope, receive, send_with_headers)
        except asyncio.CancelledError:
            if status or not self.draining:
                raise
            # The drain time is over. A reset would give no reason; this reply says to ask the next server.
            late = Overloaded("The server stopped before this was done. Ask again: another one will answer.")
            await ProblemResponse.of(late)(scope, receive, send_with_headers)
        finally:
            took_s = time.perf_counter() - started
            self.counts.note(scope, status, took_s)
            log_request(scope, status, took_s, trace_id)
            REQUEST_ID.reset(token)
            CALLER.reset(caller)

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the key and the body, and pass the request on when it has a place."""
        try:
            receive = await self._checked(scope, receive)
            async with self._place_for(scope):
                await self._app(scope, receive, send)
        except Refused as refused:
            await refused.reply(scope, receive, send)

    async def _checked(self, scope: Scope, receive: Receive) -> Receive:
        """What gives the body of a request whose key is known. Raises Refused."""
        head = dict(scope["headers"])
        sent = sha256(_key(head, as_mem0=scope["path"].startswith(KEYED_AS_MEM0))).hexdigest()
        digest = scope["key_digest"] = self.sessions.key_of(sent)
        scope["in_session"] = digest != sent
        tenant = self._tenant(digest)
        if tenant is None and not is_public(scope["path"]) and not self._is_open(scope, head):
            raise _unauthorized()
        scope["tenant"], scope["admitted"] = tenant or "default", tenant is not None
        scope["may_ask_all"] = not self.rules.keys or digest in self.rules.asks_all
        scope["role"] = self._role(digest, admitted=scope["admitted"])
        scope["key_name"] = self._key_name(digest, admitted=scope["admitted"])
        door = "inspector" if digest != sent else door_of(scope["path"])
        key_id = digest[:KEY_ID_DIGITS] if self.rules.keys and tenant is not None else ""
        CALLER.set(Caller(scope["key_name"], key_id, scope["role"], door, scope["request_id"]))
        if scope["path"] not in self._probes and not is_page(scope["path"]):
            self._require_home()
            if tenant is not None:
                self._limit_rate(tenant)
        streamed = scope["path"] in STREAMED
        most = self.rules.most_bytes(scope["path"])
        self._check_body(scope["method"], head, most, streamed=streamed)
        if streamed:
            scope[STREAMS_BODY] = True
            return self._limited(receive)
        return await self._read(receive, most) if scope["method"] in ("POST", "PUT", "PATCH") else receive

    def _limit_rate(self, tenant: str) -> None:
        if self._rates is not None and (wait_s := self._rates.take(tenant)):
            raise Refused(TooManyRequests("The requests of this minute are used up. Try again later.", wait_s))

    def _require_home(self) -> None:
        try:
            self._require()
        except FusionError as error:
            raise Refused(error) from None

    def _check_names(self, scope: Scope, head: Mapping[bytes, bytes]) -> None:
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        host = hosts[0].decode("latin-1").lower() if len(hosts) == 1 else ""
        if without_port(host) not in self.rules.hosts:
            raise Refused(
                421, "This server does not answer to that Host; server.allowed_hosts names those that it does."
            )
        origin = head.get(b"origin")
        if origin is not None:
            name = origin.decode("latin-1").lower()
            if name not in self.rules.origins and name not in (f"http://{host}", f"https://{host}"):
                raise Refused(
                    403, "Pages of that Origin may not call this server; server.allowed_origins names those that may."
                )

    def _tenant(self, digest: str) -> str | None:
        """The tenant of the key with this SHA-256; None for a missing or unknown key."""
        if not self.rules.keys:
            return "default"
        found = None
        for known, tenant in self.rules.keys:  # every key is compared: the time reveals nothing
            if hmac.compare_digest(digest, known):
                found = tenant
        return found

    def _is_key(self, digest: str) -> bool:
        """Whether the server knows the key with this SHA-256."""
        return self._tenant(digest) is not None

    def _role(self, digest: str, *, admitted: bool) -> Role:
        """The role of a request; without a key, where none is needed, it may store and decide nothing."""
        return self.rules.roles.get(digest, "operator") if admitted else "writer"

    def _key_name(self, digest: str, *, admitted: bool) -> str:
        """The name of a request's key, for the log of decisions."""
        return self.rules.names.get(digest, BY_HAND) if admitted else ANYONE

    def _is_open(self, scope: Scope, head: Mapping[bytes, bytes]) -> bool:
        """Whether a request needs no key. One with a wrong key does: its client can send the right one.

        Other checks hold: a page of another site cannot send JSON (`_check_body`), nor use another
        name (`_check_names`).
        """
        port = (scope.get("server") or ("", 0))[1]
        is_wanted = scope["method"] == "POST" and scope["path"] in OPEN and b"authorization" not in head
        return is_wanted and port != 0 and port == self.rules.open_port

    def _check_body(self, method: str, head: Mapping[bytes, bytes], most: int, *, streamed: bool) -> None:
        if method in ("POST", "PATCH"):
            kind = head.get(b"content-type", b"").partition(b";")[0].strip().lower()
            if kind != b"application/json" and not (streamed and kind == LINES):
                raise Refused(415, "Send JSON, with Content-Type: application/json.")
            if head.get(b"content-encoding", b"identity").lower() != b"identity":
                raise Refused(415, "Send the body as it is, without Content-Encoding.")
        announced = head.get(b"content-length", b"0")
        if not announced.isdigit() or int(announced) > most:
            huge = not announced.isdigit() or int(announced) > MAX_DISCARDED_BYTES
            raise self._too_large(hang_up=huge, most=most)

    def _limited(self, receive: Receive) -> Receive:
        """Limit a body that its route reads piece by piece. Raises TooLarge, and HTTPException 408."""
        size, ended = 0, False

        async def next_piece() -> Message:
            nonlocal size, ended
            if ended:
                return await receive()
            try:
                async with asyncio.timeout(self.rules.body_timeout_s):
                    message = await receive()
            except TimeoutError:
                wait = self.rules.body_timeout_s
                raise HTTPException(408, f"Nothing more of the body came for {wait:g} s.") from None
            size += len(message.get("body", b""))
            ended = not message.get("more_body")
            if size > self.rules.max_import_bytes:
                raise self._too_large_error(self.rules.max_import_bytes)
            return message

        return next_piece

    async def _read(self, receive: Receive, most: int) -> Receive:
        """Read the whole body; the result replays it and then passes on later messages, such as a disconnect."""
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.rules.body_timeout_s):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refused(499, "The client has gone.")
                    chunks.append(message.get("body", b""))
                    size += len(chunks[-1])
                    if size > most:
                        raise self._too_large(hang_up=True, most=most)  # sent in chunks: the rest has no known size
                    if not message.get("more_body"):
                        break
        except TimeoutError:
            wait = self.rules.body_timeout_s
            raise Refused(408, f"The body did not come within {wait:g} s.", connection="close") from None
        body: Message | None = {"type": "http.request", "body": b"".join(chunks), "more_body": False}

        async def replay() -> Message:
            nonlocal body
            if body is not None:
                message, body = body, None
                return message
            return await receive()

        return replay

    def _too_large(self, *, hang_up: bool, most: int) -> Refused:
        error = self._too_large_error(most)
        return Refused(error, **({"connection": "close"} if hang_up else {}))

    @staticmethod
    def _too_large_error(most: int) -> TooLarge:
        return TooLarge(f"The body may have {most} bytes at most. Send less, or in several requests.")

    @asynccontextmanager
    async def _place_for(self, scope: Scope) -> AsyncIterator[None]:
        """A place among the requests in flight; probes need none, and requests that only wait are counted apart."""
        if scope["path"] in self._probes or is_page(scope["path"]):
            yield
            return
        waits = scope["path"] in WAITING
        if waits and self.waiting >= self.rules.max_in_flight:
            raise Refused(Overloaded("Too many are waiting already. Try again in a second."))
        if not waits:
            await self._queue(scope["tenant"])
        working = self._waiting_of if waits else self._in_flight_of
        working[scope["tenant"]] += 1
        try:
            yield
        finally:
            working[scope["tenant"]] -= 1
            self._last_active = time.monotonic()
            if not waits:
                self._give_back(scope["tenant"])

    async def _queue(self, tenant: str) -> None:
        """Take a place, or wait in the queue for one. Raises Refused.

        When the queue is full, the newest request of the tenant that has the most in it is refused.
        """
        full = Overloaded("Too many requests at once. Try again in a second.")
        is_full = self._taken >= self.rules.max_in_flight and len(self._queue_of_places) >= self.rules.max_queued
        if is_full and not self._queue_of_places.make_room(tenant, full):
            raise Refused(full)
        place = self._queue_of_places.join(tenant)
        self._give_places()
        self._queued_of[tenant] += 1
        try:
            async with asyncio.timeout(self.rules.queued_s):
                await place
        except BaseException as error:
            if self._queue_of_places.leave(tenant, place):  # it became free at the moment of the timeout
                self._give_back(tenant)
            if isinstance(error, TimeoutError):
                error = Overloaded(f"No place was free within {self.rules.queued_s:g} s. Try again in a second.")
            if isinstance(error, Overloaded):
                raise Refused(error) from None
            raise
        finally:
            self._queued_of[tenant] -= 1

    def _give_places(self) -> None:
        while self._taken < self.rules.max_in_flight and self._queue_of_places.admit():
            self._taken += 1

    def _give_back(self, tenant: str) -> None:
        self._taken -= 1
        self._queue_of_places.release(tenant)
        self._give_places()


def log_request(scope: Scope, status: int, took_s: float, trace_id: str) -> None:
    """Log a request by its route: refused ones as information, failures as warnings, all others for debugging.

    Its span is over, so the line gets the trace from here.
    """
    level = logging.WARNING if status >= 500 else logging.INFO if status >= 400 else logging.DEBUG
    if log.isEnabledFor(level):
        what = (scope["method"], route_of(scope), status, took_s * 1000, scope.get("tenant"), scope.get("key_name"))
        log.log(level, "%s %s: %d in %.1f ms, tenant %s, key %s", *what, extra={"trace_id": trace_id})


def name_span(span: trace.Span, scope: Scope, status: int) -> None:
    """Name the span of a request after its route, which is known only now."""
    route = route_of(scope)
    span.update_name(f"{scope['method']} {route}")
    span.set_attribute("http.request.method", scope["method"])
    span.set_attribute("http.route", route)
    span.set_attribute("http.response.status_code", status)


def with_cors(app: ASGIApp, origins: Collection[str]) -> ASGIApp:
    """The application, with preflights answered, and replies that may be read, for pages of these origins."""
    return CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=_CORS_METHODS,
        allow_headers=_CORS_HEADERS,
        expose_headers=_CORS_EXPOSED,
        allow_credentials=False,
    )


def _key(head: Mapping[bytes, bytes], *, as_mem0: bool) -> bytes:
    """The token or API key of a request, b"" for none.

    Every route reads ``Authorization: Bearer``; drop-in routes also read ``Authorization: Token`` and ``X-API-Key``,
    which mem0's clients send.
    """
    scheme, _, key = head.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer" or (as_mem0 and scheme.lower() == b"token"):
        return key.strip()
    return head.get(b"x-api-key", b"").strip() if as_mem0 else b""


def is_public(path: str) -> bool:
    """Whether a path needs no key."""
    return path in PUBLIC or path in INSPECTOR_SESSIONS or is_page(path)


def _unauthorized() -> Refused:
    return Refused(
        401,
        "This server needs its token: `fusion token` prints it, send it as Authorization: Bearer <token>. The command "
        "line, hooks, `fusion mcp` and Client.of_home send it by themselves. An API key opens the server as well: our "
        "clients read it from FUSION_API_KEY.",
        www_authenticate='Bearer realm="memory-fusion"',
    )


def without_port(host: str) -> str:
    """ "[::1]:8765" → "[::1]", "localhost:8765" → "localhost"; "" for an invalid Host."""
    found = _HOST.fullmatch(host)
    return found["name"] if found is not None else ""
