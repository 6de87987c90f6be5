"""The asynchronous client, over httpx, which it imports on first use."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

import orjson

from fusion import problem
from fusion.client import calls
from fusion.client.address import BaseClient
from fusion.client.auto_recall import RECALL_S, question, skipped
from fusion.client.calls import Call, parse_reply
from fusion.errors import HomeGone, ServerUnreachable
from fusion.local_server import CONNECT_S, MAX_PROOF, NOT_OURS, Head, Unproven, challenge, check_proof

if TYPE_CHECKING:
    import asyncio

    import httpx

T = TypeVar("T")


class AsyncClient(BaseClient):
    """The client for programs with an event loop. It finds or starts the server in a thread."""

    _http: httpx.AsyncClient | None = None
    _token: str | None = None
    """the token that the server proves to know on each connection; None: no proof"""
    _transport: httpx.AsyncBaseTransport | None = None

    @classmethod
    def over(cls, transport: httpx.AsyncBaseTransport, *, api_key: str | None = None) -> Self:
        """A client over an httpx transport: of an application in this process, or of a fake in a test."""
        client = cls("http://localhost", api_key=api_key)
        client._transport = transport
        return client

    async def send(self, call: Call[T]) -> T:
        """Send one request; send it again only if the first cannot have arrived."""
        import asyncio

        import httpx

        timeout_s = call.timeout_s or self._timeout_s
        for last in (False, True):
            http = await self._connected()
            request = _request(http, call, timeout_s, self._token)
            try:
                async with asyncio.timeout(timeout_s):
                    response = await http.send(request)
                reply: T = parse_reply(str(request.url), response.status_code, response.content)
                return reply
            except HomeGone:
                await self.close()
                if last or not await asyncio.to_thread(self._address.wait_for_another):
                    raise
            except (httpx.TransportError, TimeoutError) as error:
                await self.close()
                cause = TimeoutError(str(error)) if isinstance(error, httpx.TimeoutException) else error
                self._address.give_up_or_retry(cause, unsent=isinstance(error, httpx.ConnectError), last=last)
        raise AssertionError("the last try returns or raises")

    async def auto_recall(self, prompt: str, *, timeout_s: float = RECALL_S, **fields: Any) -> str:
        """The block of memories for a prompt, "" if there is none in time: it never raises and never waits longer.

        ``fields`` are those of `fuse`.
        """
        import asyncio

        async def ask() -> str:
            return str((await self.fuse(**question(prompt, timeout_s, fields)))["block"])

        asking = asyncio.create_task(ask())
        try:
            done, _ = await asyncio.wait({asking}, timeout=timeout_s)
        finally:
            asking.cancel()
        if not done:
            asking.add_done_callback(_read)
            return skipped("it took too long")
        error = asking.exception()
        return asking.result() if error is None else skipped(error)

    async def stream(self, call: Call[Any]) -> AsyncIterator[Mapping[str, Any]]:
        """Yield the reply of a verb or a job in parts: any number of ``progress`` and ``line``, then ``result``.

        It is sent once, because what has begun must not begin again by itself. Raises as `send`.
        """
        import httpx

        http = await self._connected()
        streaming = replace(call, headers={**(call.headers or {}), "accept": "application/x-ndjson"})
        request = _request(http, streaming, call.timeout_s or self._timeout_s, self._token)
        ended = False
        try:
            response = await http.send(request, stream=True)
            async with aclosing(response):
                if not response.is_success:
                    parse_reply(str(request.url), response.status_code, await response.aread())
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

    async def export(self, *, tenant: str | None = None, user_id: str | None = None) -> AsyncIterator[bytes]:
        """Yield the pieces of an export (`fusion.client.calls.export`). Raises as `send`."""
        import httpx

        http = await self._connected()
        call = calls.export(tenant=tenant, user_id=user_id)
        request = _request(http, call, call.timeout_s or self._timeout_s, self._token)
        try:
            response = await http.send(request, stream=True)
            async with aclosing(response):
                if not response.is_success:
                    parse_reply(str(request.url), response.status_code, await response.aread())
                async for piece in response.aiter_bytes():
                    yield piece
        except httpx.TransportError as error:
            self._address.give_up_or_retry(error, unsent=False, last=True)

    async def _connected(self) -> httpx.AsyncClient:
        import asyncio

        import httpx

        if self._http is None:
            endpoint = await asyncio.to_thread(self._address.resolve)
            self._token = endpoint.token
            self._http = httpx.AsyncClient(
                base_url=endpoint.url, headers=endpoint.headers, transport=self._transport, trust_env=False
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


def _read(asking: asyncio.Future[Any]) -> None:
    """Take note of what became of a question that nobody waits for."""
    if not asking.cancelled():
        asking.exception()


def _request(http: httpx.AsyncClient, call: Call[Any], timeout_s: float, token: str | None) -> httpx.Request:
    import httpx

    return http.build_request(
        call.method,
        call.target(""),
        content=call.content() if call.pieces is None else _pieces(call.pieces()),
        headers=call.all_headers({}),
        timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_S)),
        extensions={} if token is None else {"trace": _prove_on_connect(token, http.base_url.netloc)},
    )


async def _pieces(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    """The pieces of a body, which are read in threads."""
    import asyncio

    ended = b""
    iterator = iter(pieces)
    while piece := await asyncio.to_thread(next, iterator, ended):
        yield piece


def _prove_on_connect(token: str, host: bytes) -> Callable[[str, dict[str, Any]], Coroutine[Any, Any, None]]:
    """A trace function for httpx that closes each new connection on which the server does not prove the token."""
    import httpx

    async def trace(event: str, info: dict[str, Any]) -> None:
        if event != "connection.connect_tcp.complete":
            return
        stream = info["return_value"]
        nonce = os.urandom(16).hex()
        try:
            await stream.write(challenge(host, nonce), timeout=CONNECT_S)
            received = b""
            while b"\r\n\r\n" not in received and len(received) < MAX_PROOF:
                received += await _receive(stream, 4096)
            first, _, body = received.partition(b"\r\n\r\n")
            head = Head.parse(first)
            while len(body) < head.length <= MAX_PROOF:
                body += await _receive(stream, head.length - len(body))
            if len(body) != head.length:
                raise Unproven(NOT_OURS)
            check_proof(token, nonce, stream.get_extra_info("server_addr"), head)
        except (Unproven, ValueError) as error:
            await stream.aclose()
            raise httpx.ConnectError(str(error) or NOT_OURS) from None

    return trace


async def _receive(stream: Any, most: int) -> bytes:
    """Some bytes of a server's proof. Raises Unproven at the end of the stream."""
    chunk: bytes = await stream.read(most, CONNECT_S)
    if not chunk:
        raise Unproven(NOT_OURS)
    return chunk
