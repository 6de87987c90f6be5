"""The gateway's Python client, for programs, hooks and the command line.

    with Client.of_home() as memory:                 # finds the home's server, or starts it
        print(memory.fuse("what did we decide about the database?")["block"])

    async with AsyncClient("http://127.0.0.1:8765", api_key=…) as memory:
        await memory.remember([{"text": "Julien prefers Neo4j", "user_id": "julien"}])

What can be asked is written once, below, as functions that build a `Call`; the two clients differ only in how they
send one. Errors are those of `fusion.errors`, as the server raised them; ServerUnreachable when there is none.

Commands start with this import, so `Client` speaks HTTP by the standard library, one connection a question, and
`AsyncClient` imports httpx when it is used. Hooks do without this module: see `fusion.local_server`.
"""

from __future__ import annotations

import errno
import os
import shlex
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass, field, replace
from functools import wraps
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import orjson

from fusion import problem, wire
from fusion.errors import HomeGone, HomeLocked, HomeNotAllowed, ServerUnreachable, StoreFull
from fusion.home import Located, ServerRecord, explain_lock, holds_lock, locate_home, missing_home, owner, read_record
from fusion.local_server import (
    CONNECT_S,
    MAX_PROOF,
    NOT_OURS,
    Head,
    Proven,
    Unproven,
    Unsent,
    challenge,
    check_proof,
    connect,
    connect_to,
    running_server,
)
from fusion.store.writable import unwritable
from fusion.trust import make_home, require
from fusion.trust.token import READER_HEADER, read_token

if TYPE_CHECKING:
    from datetime import datetime

    import httpx

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_URL = "http://127.0.0.1:8765"
REPORTED = "fusion: "
"""how a command of ours begins the line that says what is wrong"""
LOG = "server.log"
TIMEOUT_S = 30.0
"""for a whole request, until its last byte"""
FORGET_S = 120.0
"""for a hundred memories, each deleted in every backend and asked for again"""
VERB_S = 3600.0
"""for a verb, which may go through a whole store"""
START_TIMEOUT_S = 30.0
STARTING_S = 150.0
"""for a server that another process has begun to start: a large home has stores that take up to two minutes to open"""
IDLE_EXIT_S = 600
"""a server that a client started leaves when nobody asked for this long"""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request, not yet sent. ``timeout_s`` replaces the client's where the caller knows better."""

    method: str
    path: str
    body: object = None
    parameters: Mapping[str, str] | None = None
    headers: Mapping[str, str] | None = None
    timeout_s: float | None = None

    def target(self, base: str) -> str:
        """The URL, below ``base``."""
        return base.rstrip("/") + self.path + (f"?{urlencode(self.parameters)}" if self.parameters else "")

    def content(self) -> bytes | None:
        return None if self.body is None else orjson.dumps(self.body, option=orjson.OPT_UTC_Z)

    def all_headers(self, more: Mapping[str, str]) -> dict[str, str]:
        given = {} if self.body is None else {"content-type": "application/json"}
        return {**given, **more, **(self.headers or {})}


def read(url: str, status: int, body: bytes) -> Any:
    """A reply's JSON. Raises what the server raised, and ServerUnreachable for what is no reply of ours."""
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        content = None
    if 200 <= status < 300 and isinstance(content, dict):
        return content
    if isinstance(content, dict):
        raise problem.error_of(content, status)
    raise ServerUnreachable(f"{url} answers {status}, but not as a memory-fusion server does.")


# What can be asked -----------------------------------------------------------------------------------------------


def fuse(
    query: str,
    *,
    user_id: str | None = None,
    agent_id: str | None = None,
    run_id: str | None = None,
    session_id: str | None = None,
    project: str | None = None,
    audience: str | None = None,
    as_of: datetime | str | None = None,
    known_at: datetime | str | None = None,
    budget_chars: int | None = None,
    max_results: int | None = None,
    backends: Sequence[str] | None = None,
    recipe: str | None = None,
    timeout_ms: int | None = None,
    explain: bool | None = None,
) -> Call[wire.Fused]:
    """One block from all memories. What is None is left to the server's recipe."""
    return Call("POST", "/v1/fuse", _given(locals()))


def compare(
    query: str,
    a: str,
    b: str,
    *,
    as_of: datetime | str | None = None,
    known_at: datetime | str | None = None,
    budget_chars: int | None = None,
    max_results: int | None = None,
    timeout_ms: int | None = None,
    **scope: str | None,
) -> Call[wire.Compared]:
    """Two answers out of one gather. An arm is a recipe, @backends or both: seed003, default@markdown+cortex, -mem0."""
    asked = {"query": query, "a": a, "b": b, "as_of": as_of, "known_at": known_at, "timeout_ms": timeout_ms}
    return Call(
        "POST", "/v1/compare", _given({**asked, "budget_chars": budget_chars, "max_results": max_results, **scope})
    )


def feedback(
    receipt_id: str, *, useful: Sequence[str] = (), useless: Sequence[str] = (), **scope: str | None
) -> Call[wire.Feedback]:
    """Which memories of an answer were of use, by ref; replaces what was said of it before."""
    voted = {"receipt_id": receipt_id, "useful": [*useful], "useless": [*useless]}
    return Call("POST", "/v1/feedback", _given({**voted, **scope}))


def labels(*, limit: int = 100, cursor: str | None = None) -> Call[wire.Labels]:
    """A page of what was voted on, oldest first, each with the signals it was ranked by."""
    return Call("GET", "/v1/feedback", parameters=_given({"limit": str(limit), "cursor": cursor}))


def search(backend: str, query: str, *, limit: int = 10, **scope: str | None) -> Call[wire.Found]:
    """The raw hits of one backend."""
    return Call("POST", "/v1/search", _given({"backend": backend, "query": query, "limit": limit, **scope}))


def remember(
    memories: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    idempotency_key: str | None = None,
    batch: str | None = None,
    reader: str | None = None,
) -> Call[wire.Remembered]:
    """Keep one memory or up to 100. Acknowledged is kept, whatever happens to the server next.

    They reach the backends in the background, usually within 100 ms: a question asked right after this may not find
    them yet. `settle` waits until they are delivered.

    ``batch`` names a run that `undo` can take back. ``reader`` is the key in ``home/reader.key``: without it, a source
    of a kind that only readers of files and sessions name is kept as a claim.
    """
    body = dict(memories) if isinstance(memories, Mapping) else [dict(item) for item in memories]
    headers = _given({"idempotency-key": idempotency_key, "ingest-batch": batch, READER_HEADER: reader})
    return Call("POST", "/v1/memories", body, headers=headers or None)


def undo(
    batch: str | None = None, *, limit: int = 1000, dry_run: bool = False, **scope: str | None
) -> Call[wire.Undone]:
    """Takes back what an ingest added, by default the last one; the same call again goes on where ``left`` is not 0."""
    asked = {"batch": batch, "limit": limit, "dry_run": dry_run, **scope}
    return Call("POST", "/v1/undo", _given(asked), timeout_s=FORGET_S)


def batches(*, limit: int = 20, **scope: str | None) -> Call[wire.Batches]:
    """The ingests that can be undone, the latest first."""
    return Call("GET", "/v1/batches", parameters=_given({"limit": str(limit), **scope}))


def memory(ref: str, **scope: str | None) -> Call[wire.Remembrance]:
    """One memory by its ref."""
    return Call("GET", f"/v1/memories/{quote(ref, safe='')}", parameters=_given(scope))


def memories(
    *,
    limit: int = 20,
    cursor: str | None = None,
    document: str | None = None,
    source: str | None = None,
    **scope: str | None,
) -> Call[wire.Memories]:
    """A page of what is remembered, newest first; ``next_cursor`` of one page is ``cursor`` of the next."""
    asked = {"limit": str(limit), "cursor": cursor, "document": document, "source": source, **scope}
    return Call("GET", "/v1/memories", parameters=_given(asked))


def document(path: str, *, start: int = 1, lines: int | None = None, **scope: str | None) -> Call[wire.Document]:
    """A page of a document that a hit named, from line or turn ``start``."""
    return Call(
        "GET",
        "/v1/documents",
        parameters=_given({"path": path, "from": str(start), "lines": None if lines is None else str(lines), **scope}),
    )


def forget(ref: str, **scope: str | None) -> Call[wire.Forgotten]:
    """Forgets one memory everywhere; the reply says what each backend did."""
    return Call("DELETE", f"/v1/memories/{quote(ref, safe='')}", parameters=_given(scope))


def forget_many(
    *,
    refs: Sequence[str] | None = None,
    query: str | None = None,
    source: str | None = None,
    document: str | None = None,
    after: datetime | str | None = None,
    before: datetime | str | None = None,
    time: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
    dry_run: bool = False,
    **scope: str | None,
) -> Call[wire.Forgetting]:
    """Forgets refs, or what meets all that is said, at most ``limit`` at once; with ``dry_run`` shows what that is.

    The same call again goes on where ``more`` is true.
    """
    given: dict[str, Any] = {
        "refs": None if refs is None else list(refs),
        "query": query,
        "source": source,
        "document": document,
    }
    given |= {"after": after, "before": before, "time": time, "limit": limit, "cursor": cursor, "dry_run": dry_run}
    return Call("POST", "/v1/forget", _given({**given, **scope}), timeout_s=FORGET_S)


def forgotten(*, limit: int = 20, cursor: str | None = None, **scope: str | None) -> Call[wire.ForgottenPage]:
    """What was forgotten when, and what became of it where; newest first."""
    return Call("GET", "/v1/forgotten", parameters=_given({"limit": str(limit), "cursor": cursor, **scope}))


def sources(
    *, prefix: str | None = None, after: str | None = None, limit: int = 100, **scope: str | None
) -> Call[wire.Sources]:
    """Where memories came from, by name, from the one after ``after``."""
    asked = {"prefix": prefix, "after": after, "limit": str(limit), **scope}
    return Call("GET", "/v1/sources", parameters=_given(asked))


def retire(files: Sequence[Mapping[str, Any]], *, dry_run: bool = False, **scope: str | None) -> Call[wire.Retired]:
    """Says what files have now, read as a whole, as {source, keep: revisions}; what else came from them is retired."""
    return Call("POST", "/v1/retire", _given({"files": [dict(f) for f in files], "dry_run": dry_run, **scope}))


def memory_search(query: str, *, max_results: int = 6, min_score: float = 0.0, **more: Any) -> Call[wire.ToolFound]:
    """Single memories in the shape of an agent's tool; ``more`` is scope, citations, backends, as_of, timeout_ms."""
    asked = {"query": query, "maxResults": max_results, "minScore": min_score, **more}
    return Call("POST", "/v1/tools/memory_search", _given(asked))


def memory_get(path: str, *, start: int = 1, lines: int | None = None, **scope: str | None) -> Call[wire.ToolRead]:
    """A page of what a result names; an empty text for everything else."""
    return Call("POST", "/v1/tools/memory_get", _given({"path": path, "from": start, "lines": lines, **scope}))


def memory_append(text: str, **scope: str | None) -> Call[wire.Appended]:
    """Lines for today's log, redacted."""
    return Call("POST", "/v1/tools/memory_append", _given({"text": text, **scope}))


def flush_plan(context_window: int, **session: Any) -> Call[wire.FlushPlan]:
    """Whether a session is to save now what it knows, and how; ``session`` is as `bodies.FlushBody` has it."""
    return Call("POST", "/v1/flush/plan", _given({"context_window": context_window, **session}))


def do(
    backend: str, verb: str, arguments: Mapping[str, Any] | None = None, **scope: str | None
) -> Call[dict[str, Any]]:
    """Tells a backend to do one of its verbs; the reply is what came of it. `AsyncClient.stream` also tells on the way.

    A verb takes as long as its store is large, so nothing but its end is waited for: up to an hour.
    """
    path = f"/v1/backends/{quote(backend, safe='')}/{quote(verb, safe='')}"
    return Call("POST", path, {**(arguments or {}), **_given(scope)}, timeout_s=VERB_S)


def backends() -> Call[wire.Backends]:
    """Every backend, how it is, and what it holds."""
    return Call("GET", "/v1/backends")


def status() -> Call[wire.Status]:
    """The home at a glance: backends, breakers, backlog, sizes, what is worked on."""
    return Call("GET", "/v1/status")


def receipt(receipt_id: str, *, user_id: str | None = None) -> Call[dict[str, Any]]:
    """Why each candidate of one answer was in the block, or out of it; not found where another user was asked for."""
    return Call("GET", f"/v1/receipts/{quote(receipt_id, safe='')}", parameters=_given({"user_id": user_id}))


def ready() -> Call[dict[str, Any]]:
    """Whether the server can answer. Raises Overloaded while it starts or stops."""
    return Call("GET", "/readyz")


def health() -> Call[wire.Health]:
    """That the server runs, and as which process."""
    return Call("GET", "/healthz")


def settle(wait_s: float = 30.0) -> Call[wire.Settled]:
    """Waits until everything remembered is delivered and its vectors are there; ``settled`` says whether in time."""
    return Call("POST", "/v1/settle", {"timeout_s": wait_s}, timeout_s=wait_s + TIMEOUT_S)


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


# How it is sent --------------------------------------------------------------------------------------------------


def _sync(build: Callable[P, Call[T]]) -> Callable[Concatenate[Client, P], T]:
    """A question as a method of `Client`."""

    @wraps(build)
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.send(build(*args, **kwargs))

    return method


def _async(build: Callable[P, Call[T]]) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """A question as a method of `AsyncClient`."""

    @wraps(build)
    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.send(build(*args, **kwargs))

    return method


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server: base URL and headers. With the ``token`` of a home, each connection to it begins with its proof that it
    knows the token, before anything else is sent: another program may have taken the port of a server that left."""

    url: str
    headers: Mapping[str, str]
    token: str | None = field(default=None, repr=False)
    record: ServerRecord | None = None
    """of the home's server"""


def _endpoint_of(record: ServerRecord, token: str | None) -> Endpoint:
    return Endpoint(record.url, _authorization(token), token, record)


def _authorization(key: str | None) -> dict[str, str]:
    return {} if key is None else {"authorization": f"Bearer {key}"}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is. With a ``home`` it is looked for there, and started if ``start``."""

    url: str | None = None
    api_key: str | None = None
    home: Path | None = None
    config: Path | None = None
    start: bool = False
    start_timeout_s: float = START_TIMEOUT_S
    named: bool = True
    """whether the user named the home, as `fusion.trust.require` wants to know"""
    create: bool = True
    """whether a home that does not exist is created"""

    def resolve(self) -> Endpoint:
        """Where to send, and how. Raises ServerUnreachable, HomeLocked when someone else has the home open, and
        HomeNotAllowed before anything of a home is read that the user has not allowed."""
        endpoint, proven = self.connect()
        if proven is not None:
            proven.close()
        return endpoint

    def connect(self) -> tuple[Endpoint, Proven | None]:
        """As `resolve`, with the connection on which the server of a home has just proved itself: use or close it."""
        if self.url is not None or self.home is None:
            key = self.api_key or os.environ.get("FUSION_API_KEY")
            return Endpoint(self.url or DEFAULT_URL, _authorization(key)), None
        if not self.create and not self.home.is_dir():
            raise missing_home(self.home)
        home = require(self.home, named=self.named, config=self.config)
        proven = self._server(home)
        return _endpoint_of(proven.record, proven.token), proven

    def _server(self, home: Path) -> Proven:
        if self.start:
            return _ensure_connection(home, self.config, timeout_s=self.start_timeout_s)
        proven = connect(home, CONNECT_S)
        if proven is None:
            raise ServerUnreachable(f"No server runs for the home {home}. Start it: fusion serve --home {home}")
        return proven

    def wait_for_another(self, timeout_s: float = CONNECT_S) -> bool:
        """Waits until the server of a home that was deleted or replaced has left; whether it did."""
        if self.home is None:
            return False
        deadline = time.monotonic() + timeout_s
        left = read_record(self.home)
        while left is not None and left == read_record(self.home):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def give_up_or_retry(self, error: Exception, *, unsent: bool, last: bool) -> None:
        """Returns where another try makes sense: a home's server had left before it got anything. Raises otherwise."""
        if unsent and self.home is not None and not last:
            return
        late = isinstance(error, TimeoutError)
        what = "did not answer in time" if late else f"does not answer ({str(error) or type(error).__name__})"
        where = f"of {self.home}" if self.home else self.url or DEFAULT_URL
        fix = f"See {self.home / LOG}" if self.home else "Is it running? fusion serve starts it"
        raise ServerUnreachable(f"The server {where} {what}. {fix}") from error


class _Either:
    """What both clients share: where to, how long, and that a server which just left is looked for again."""

    def __init__(self, url: str | None = None, *, api_key: str | None = None, timeout_s: float = TIMEOUT_S) -> None:
        """``url`` is the server's, http://127.0.0.1:8765 without; ``api_key`` is FUSION_API_KEY's without."""
        self._address = Address(url, api_key)
        self._timeout_s = timeout_s

    @classmethod
    def of_home(
        cls,
        home: Path | Located | None = None,
        *,
        config: Path | None = None,
        start: bool = True,
        start_timeout_s: float = START_TIMEOUT_S,
        api_key: str | None = None,
        timeout_s: float = TIMEOUT_S,
        create: bool = True,
    ) -> Self:
        """A client of the server that owns a home (`find_home` says which), which is started if ``start``.

        A home that does not exist is created; without ``create`` every call raises SettingsError instead.
        """
        client = cls(api_key=api_key, timeout_s=timeout_s)
        located = home if isinstance(home, Located) else locate_home(home)
        client._address = Address(None, api_key, located.path, config, start, start_timeout_s, located.named, create)
        return client


class Client(_Either):
    """Asks and waits; any number of threads may. Close it, or use it in a ``with``."""

    _found: Endpoint | None = None
    """where the server was when it last answered"""

    fuse = _sync(fuse)
    compare = _sync(compare)
    feedback = _sync(feedback)
    labels = _sync(labels)
    search = _sync(search)
    do = _sync(do)
    remember = _sync(remember)
    memory = _sync(memory)
    memories = _sync(memories)
    document = _sync(document)
    forget = _sync(forget)
    backends = _sync(backends)
    status = _sync(status)
    receipt = _sync(receipt)
    ready = _sync(ready)
    health = _sync(health)
    settle = _sync(settle)
    forget_many = _sync(forget_many)
    forgotten = _sync(forgotten)
    undo = _sync(undo)
    batches = _sync(batches)
    sources = _sync(sources)
    retire = _sync(retire)
    flush_plan = _sync(flush_plan)
    memory_search = _sync(memory_search)
    memory_get = _sync(memory_get)
    memory_append = _sync(memory_append)

    def send(self, call: Call[T]) -> T:
        """One request; a second try only where the first cannot have arrived."""
        for last in (False, True):
            there, proven = (self._found, None) if self._found else self._address.connect()
            self._found = there
            try:
                found: T = read(*_exchange(there, call, call.timeout_s or self._timeout_s, proven))
                return found
            except HomeGone:
                self.close()
                if last or not self._address.wait_for_another():
                    raise
            except (Unsent, OSError, HTTPException) as error:
                self.close()
                self._address.give_up_or_retry(error, unsent=isinstance(error, Unsent), last=last)
        raise AssertionError("the last try returns or raises")

    def close(self) -> None:
        """Forgets where the server was; no connection is kept."""
        self._found = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class AsyncClient(_Either):
    """`Client` for programs with an event loop. Finding or starting a server is done in a thread."""

    _http: httpx.AsyncClient | None = None
    _token: str | None = None
    """what each connection has to prove to know; None: nothing"""
    _transport: httpx.AsyncBaseTransport | None = None

    @classmethod
    def over(cls, transport: httpx.AsyncBaseTransport, *, api_key: str | None = None) -> Self:
        """A client of whatever stands behind a transport: an application in this process, a fake in a test."""
        client = cls("http://localhost", api_key=api_key)
        client._transport = transport
        return client

    fuse = _async(fuse)
    compare = _async(compare)
    feedback = _async(feedback)
    labels = _async(labels)
    search = _async(search)
    do = _async(do)
    remember = _async(remember)
    memory = _async(memory)
    memories = _async(memories)
    document = _async(document)
    forget = _async(forget)
    backends = _async(backends)
    status = _async(status)
    receipt = _async(receipt)
    ready = _async(ready)
    health = _async(health)
    settle = _async(settle)
    forget_many = _async(forget_many)
    forgotten = _async(forgotten)
    undo = _async(undo)
    batches = _async(batches)
    sources = _async(sources)
    retire = _async(retire)
    flush_plan = _async(flush_plan)
    memory_search = _async(memory_search)
    memory_get = _async(memory_get)
    memory_append = _async(memory_append)

    async def send(self, call: Call[T]) -> T:
        """One request; a second try only where the first cannot have arrived."""
        import asyncio

        import httpx

        timeout_s = call.timeout_s or self._timeout_s
        for last in (False, True):
            there = await self._connected()
            request = _request(there, call, timeout_s, self._token)
            try:
                async with asyncio.timeout(timeout_s):
                    response = await there.send(request)
                found: T = read(str(request.url), response.status_code, response.content)
                return found
            except HomeGone:
                await self.close()
                if last or not await asyncio.to_thread(self._address.wait_for_another):
                    raise
            except (httpx.TransportError, TimeoutError) as error:
                await self.close()
                cause = TimeoutError(str(error)) if isinstance(error, httpx.TimeoutException) else error
                self._address.give_up_or_retry(cause, unsent=isinstance(error, httpx.ConnectError), last=last)
        raise AssertionError("the last try returns or raises")

    async def stream(self, call: Call[dict[str, Any]]) -> AsyncIterator[Mapping[str, Any]]:
        """A verb's reply as it comes: any number of ``progress`` and ``line``, then the ``result``. Raises as `send`.

        It is asked for once: what a verb has begun is not begun again by itself.
        """
        import httpx

        there = await self._connected()
        asked = replace(call, headers={**(call.headers or {}), "accept": "application/x-ndjson"})
        request = _request(there, asked, call.timeout_s or self._timeout_s, self._token)
        ended = False
        try:
            response = await there.send(request, stream=True)
            async with aclosing(response):
                if not response.is_success:
                    read(str(request.url), response.status_code, await response.aread())
                async for line in response.aiter_lines():
                    part = orjson.loads(line)
                    if "problem" in part:
                        raise problem.error_of(part["problem"], part["problem"]["status"])
                    ended = "result" in part
                    yield part
        except (httpx.TransportError, orjson.JSONDecodeError) as error:
            self._address.give_up_or_retry(error, unsent=False, last=True)
        if not ended:
            raise ServerUnreachable(f"The server stopped before it had done {call.path}; run it again.")

    async def _connected(self) -> httpx.AsyncClient:
        import asyncio

        import httpx

        if self._http is None:
            there = await asyncio.to_thread(self._address.resolve)
            self._token = there.token
            self._http = httpx.AsyncClient(
                base_url=there.url, headers=there.headers, transport=self._transport, trust_env=False
            )
        return self._http

    async def close(self) -> None:
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


def _request(there: httpx.AsyncClient, call: Call[Any], timeout_s: float, token: str | None) -> httpx.Request:
    import httpx

    return there.build_request(
        call.method,
        call.target(""),
        content=call.content(),
        headers=call.all_headers({}),
        timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_S)),
        extensions={} if token is None else {"trace": _proving(token, there.base_url.netloc)},
    )


def _proving(token: str, host: bytes) -> Callable[[str, dict[str, Any]], Coroutine[Any, Any, None]]:
    """What httpx calls as a connection comes about: it goes on only when the server has proved itself on it."""
    import httpx

    async def traced(event: str, info: dict[str, Any]) -> None:
        if event != "connection.connect_tcp.complete":
            return
        stream = info["return_value"]
        nonce = os.urandom(16).hex()
        try:
            await stream.write(challenge(host, nonce), timeout=CONNECT_S)
            received = b""
            while b"\r\n\r\n" not in received and len(received) < MAX_PROOF:
                received += await _read(stream, 4096)
            first, _, body = received.partition(b"\r\n\r\n")
            head = Head.parse(first)
            while len(body) < head.length <= MAX_PROOF:
                body += await _read(stream, head.length - len(body))
            if len(body) != head.length:
                raise Unproven(NOT_OURS)
            check_proof(token, nonce, stream.get_extra_info("server_addr"), head)
        except (Unproven, ValueError) as error:
            await stream.aclose()
            raise httpx.ConnectError(str(error) or NOT_OURS) from None

    return traced


async def _read(stream: Any, most: int) -> bytes:
    """Some bytes of a server's proof. Raises Unproven at its end."""
    chunk: bytes = await stream.read(most, CONNECT_S)
    if not chunk:
        raise Unproven(NOT_OURS)
    return chunk


def _exchange(there: Endpoint, call: Call[Any], timeout_s: float, proven: Proven | None) -> tuple[str, int, bytes]:
    """URL, status and body of a reply that came whole and in time, over a connection of its own.

    ``proven`` is such a connection to a home's server, where one is open already.
    Raises Unsent, TimeoutError and other OSErrors, and HTTPException for what is not HTTP.
    """
    deadline = time.monotonic() + timeout_s
    url = call.target(there.url)
    parts = urlsplit(url)
    with closing(_connected_to(there, timeout_s, proven)) as connection:
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        headers = call.all_headers({"connection": "close", **there.headers})
        connection.request(call.method, target, call.content(), headers)
        with connection.getresponse() as response:
            return url, response.status, b"".join(_until(deadline, response))


def _connected_to(there: Endpoint, timeout_s: float, proven: Proven | None) -> HTTPConnection:
    """An open connection, which does not open another by itself; to a home's server a proven one.

    Raises Unsent, TimeoutError.
    """
    parts = urlsplit(there.url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=min(timeout_s, CONNECT_S))
    if there.record is not None and there.token is not None:
        connection.sock = (proven or Proven.open(there.record, there.token, timeout_s)).detach()
    else:
        try:
            connection.connect()
        except TimeoutError:
            raise
        except OSError as error:
            raise Unsent(str(error)) from error
    connection.auto_open = 0
    connection.sock.settimeout(timeout_s)
    return connection


def _until(deadline: float, response: HTTPResponse) -> Iterator[bytes]:
    """The chunks of a reply, for as long as there is time: a socket bounds each one's wait, not their sum."""
    left = response.length  # None where the length was not announced
    while left != 0 and (chunk := response.read1(1 << 16)):
        if time.monotonic() > deadline:
            raise TimeoutError("the reply trickles")
        left = None if left is None else left - len(chunk)
        yield chunk
    if left:
        raise IncompleteRead(b"", left)


# A home's server -------------------------------------------------------------------------------------------------


def client_of(home: Path, record: ServerRecord, *, timeout_s: float = TIMEOUT_S) -> Client:
    """A client of a home's server that was just found."""
    client = Client.of_home(home, start=False, timeout_s=timeout_s)
    client._found = _endpoint_of(record, read_token(home))
    return client


def ensure_server(
    home: Path,
    config: Path | None = None,
    *,
    timeout_s: float = START_TIMEOUT_S,
    starting_s: float | None = None,
) -> ServerRecord:
    """The server of a home, started if need be. Any number may call this at once: one server comes of it.

    The lock decides: each starts a server where there is none, the losers' servers leave, and all wait for the winner.
    A process that has the home and has not said yet where it answers is still starting. It is waited for
    ``starting_s``: by default `STARTING_S`, unless the caller has less time than a start may take.
    Raises HomeLocked when a process that does not serve has the home open, ServerUnreachable with the last words of a
    server that did not start.
    """
    proven = _ensure_connection(home, config, timeout_s=timeout_s, starting_s=starting_s)
    proven.close()
    return proven.record


def _ensure_connection(home: Path, config: Path | None, *, timeout_s: float, starting_s: float | None = None) -> Proven:
    """As `ensure_server`, with the connection on which the server has just proved itself: use or close it."""
    began = time.monotonic()
    patience_s = starting_s if starting_s is not None else STARTING_S if timeout_s >= START_TIMEOUT_S else timeout_s
    home = require(home, named=True, config=config)
    started: _Start | None = None
    starting, bound_s = False, timeout_s
    while (left_s := began + bound_s - time.monotonic()) > 0:
        found = read_record(home)
        try:
            proven = None if found is None else connect_to(home, found, min(CONNECT_S, left_s))
        except Unproven as error:
            stop = f"fusion stop --home {home}"
            raise ServerUnreachable(f"The server of {home} is not asked: {error}. To start another: {stop}") from None
        if proven is not None:
            return proven
        holder = owner(home)
        if holder is not None and not holder.serves:
            raise HomeLocked(explain_lock(home, holder))
        if holder is not None and (found is None or found.pid != holder.pid):
            starting, bound_s = True, max(timeout_s, patience_s)
        elif starting:  # it has said so, or has left: from now on as if it were asked for the first time
            starting, bound_s = False, time.monotonic() - began + timeout_s
        if holder is None and started is None:
            started = _Start.of(home, config)
        elif holder is None and started is not None and started.child.poll() is not None:
            raise ServerUnreachable(f"The server of {home} did not start:{started.last_words()}")
        time.sleep(0.05)
    holder = owner(home)
    silent = f" Process {holder.pid} has the home: it is still starting, or hangs." if holder and holder.pid else ""
    raise ServerUnreachable(f"The server of {home} was not ready within {bound_s:g} s.{silent} See {home / LOG}")


def stop_server(home: Path, *, timeout_s: float = 20.0) -> ServerRecord | None:
    """Stops the server of a home and waits until the home is free; None: there was none.

    Only the process that really holds the home's lock gets the signal: the system says so, or it proves itself.
    Raises ServerUnreachable where one neither answers nor leaves.
    """
    deadline = time.monotonic() + timeout_s
    home = require(home, named=True)
    while (record := _signalled(home)) is None:
        holder = owner(home)
        if holder is None or not holder.serves:
            return None
        if time.monotonic() > deadline:
            fix = f"; end it: kill {holder.pid}; if it stays: kill -9 {holder.pid}" if holder.pid else ""
            raise ServerUnreachable(f"The server of {home} does not answer within {timeout_s:g} s{fix}")
        time.sleep(0.05)  # it may be starting: then it is stopped once it can be
    while (holder := owner(home)) is not None and holder.pid == record.pid:
        if time.monotonic() > deadline:
            raise ServerUnreachable(
                f"Process {record.pid} did not stop within {timeout_s:g} s; end it: kill -9 {record.pid}"
            )
        time.sleep(0.02)
    return record


def _signalled(home: Path) -> ServerRecord | None:
    """The record of the server that was told to stop; None: there is none, or it cannot be told yet."""
    record, holder = read_record(home), owner(home)
    if record is None or holder is None or holder.pid != record.pid or not holder.serves:
        return None
    try:
        process = os.pidfd_open(record.pid) if hasattr(os, "pidfd_open") else None
    except ProcessLookupError:
        return None
    except OSError:  # a sandbox that does not let processes have such descriptors
        process = None
    try:
        if not holds_lock(home, record.pid) and running_server(home) is None:
            return None
        # From here on the descriptor is of the very process: it held the lock while the descriptor was open.
        if process is None:
            os.kill(record.pid, signal.SIGTERM)
        else:
            signal.pidfd_send_signal(process, signal.SIGTERM)
    except ProcessLookupError:
        return None
    finally:
        if process is not None:
            os.close(process)
    return record


@dataclass(frozen=True, slots=True)
class _Start:
    """A server process that was started here, and where its words begin in the log that all of a home's share."""

    child: subprocess.Popen[bytes]
    log: Path
    begin: int

    @classmethod
    def of(cls, home: Path, config: Path | None) -> Self:
        """A process of its own: it outlives this one, leaves when idle, and writes its log into the home."""
        make_home(home)
        if why := unwritable(home):
            raise StoreFull(
                f"The home {home} cannot be written to ({why}), so no server can be started for it. Make room or make "
                f"it writable. Meanwhile fusion fuse --home {shlex.quote(str(home))} and fusion mcp answer from a copy"
            )
        # -P: a fusion.py in the folder where somebody works, their own or a stranger's, must not run as the server.
        command = [sys.executable, "-P", "-m", "fusion", "serve", "--home", str(home), "--port", "0"]
        command += ["--idle-exit", str(IDLE_EXIT_S)] + ([] if config is None else ["--config", str(config.absolute())])
        log = open_log(home, os.O_CREAT)
        try:
            begin = os.fstat(log).st_size
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        finally:
            os.close(log)
        threading.Thread(target=child.wait, daemon=True).start()  # a program that lives on must not keep a zombie
        return cls(child, home / LOG, begin)

    def last_words(self) -> str:
        """The end of what was logged since, where the reason stands: one line where the server itself gave it."""
        try:
            with self.log.open("rb") as log:
                log.seek(self.begin)
                said = log.read().decode("utf-8", "replace")[-1500:].strip()
        except OSError as error:
            return f" (its log {self.log} cannot be read: {error.strerror})"
        last = said.rpartition("\n")[2]
        return f" {last.removeprefix(REPORTED)}" if last.startswith(REPORTED) else f"\n{said or '(it said nothing)'}"


def open_log(home: Path, flags: int = 0) -> int:
    """The log of a home's servers, to append to. Raises HomeNotAllowed where it would lead to another file."""
    try:
        flags |= os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        log = os.open(home / LOG, flags, 0o600)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):
            raise
        raise HomeNotAllowed(f"{home / LOG} is a link or a special file: remove it") from None
    if not stat.S_ISREG(os.fstat(log).st_mode):
        os.close(log)
        raise HomeNotAllowed(f"{home / LOG} is a special file: remove it")
    return log
