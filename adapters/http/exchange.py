"""Fetches JSON from a memory system over HTTP, bounded in time and bytes; every failure is a `BackendError`.

One `Http` a backend: one session, kept connections. It guards against servers that crash, hang or lie:

1. A connection takes ``connect_s`` at most, name resolution included; the whole exchange its deadline, not each read.
2. A reply is read up to 4 MiB, counted after decompression, which is done piece by piece.
3. Redirects are not followed (the address comes from the configuration, nowhere else), proxies of the environment
   are not used, cookies are not kept.
4. Errors name the server without user, path and query, and never quote a header: credentials stay out of logs.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson

from fusion.errors import (
    BackendError,
    BackendTimeout,
    BackendUnreachable,
    HttpStatus,
    InvalidAnswer,
    RateLimited,
    SettingsError,
    Unauthorized,
)
from fusion.lib.trace import carried

if TYPE_CHECKING:
    from aiohttp import BaseConnector, ClientResponse, ClientSession

REPLY_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a server. A failure status that ``accept`` names is an answer, too."""

    method: str
    path: str
    data: bytes | None = None
    content_type: str = "application/json"
    accept: Container[int] = ()
    headers: Mapping[str, str] = field(default_factory=dict)


class Http:
    """``headers`` is called for each request, so that a renewed credential is used without a restart.

    ``connector`` replaces TCP in tests. Raises SettingsError for an invalid address.
    """

    def __init__(
        self,
        url: str,
        headers: Callable[[], Mapping[str, str]] = dict,
        *,
        connect_s: float,
        reply_bytes: int = REPLY_BYTES,
        connector: Callable[[], BaseConnector] | None = None,
    ) -> None:
        self.server = checked(url)
        self._base = url.rstrip("/")
        self._headers, self._connect_s, self._reply_bytes, self._connector = headers, connect_s, reply_bytes, connector
        self._session: ClientSession | None = None
        self._closed = False

    async def post(self, path: str, body: object, deadline_s: float) -> Any:
        """The parsed JSON of the reply to a JSON body. Raises the `BackendError` that fits."""
        return (await self.exchange(Request("POST", path, orjson.dumps(body)), deadline_s))[1]

    async def get(self, path: str, deadline_s: float) -> Any:
        """The parsed JSON of the reply. Raises the `BackendError` that fits."""
        return (await self.exchange(Request("GET", path), deadline_s))[1]

    async def put(self, path: str, body: object, deadline_s: float) -> Any:
        """See ``post``."""
        return (await self.exchange(Request("PUT", path, orjson.dumps(body)), deadline_s))[1]

    async def delete(self, path: str, deadline_s: float) -> Any:
        """See ``get``."""
        return (await self.exchange(Request("DELETE", path), deadline_s))[1]

    async def exchange(self, request: Request, deadline_s: float) -> tuple[int, Any]:
        """The status of a reply and its parsed JSON. Raises the `BackendError` that fits."""
        status, body = await self.fetch(request, deadline_s)
        return status, self.parsed(body)

    async def fetch(self, request: Request, deadline_s: float) -> tuple[int, bytes]:
        """Like ``exchange``, but returns the reply's bytes."""
        import aiohttp

        session = self._opened()
        limits = aiohttp.ClientTimeout(total=deadline_s, connect=self._connect_s)
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", **carried()}
        headers |= {**self._headers(), **request.headers}
        if request.data is not None:
            headers["Content-Type"] = request.content_type
        # aiohttp's errors quote the whole address and some headers, so they are not chained as a cause.
        try:
            async with session.request(
                request.method,
                self._base + request.path,
                data=request.data,
                headers=headers,
                timeout=limits,
                allow_redirects=False,
            ) as response:
                if not 200 <= response.status < 300 and response.status not in request.accept:
                    raise self._refused(response)
                return response.status, await self._read(response)
        except BackendError:
            raise
        except aiohttp.ConnectionTimeoutError:
            raise BackendUnreachable(f"{self.server}: no connection within {self._connect_s * 1000:.0f} ms") from None
        except TimeoutError:
            raise BackendTimeout(f"{self.server}: no whole reply within {deadline_s * 1000:.0f} ms") from None
        except aiohttp.ClientPayloadError:
            raise InvalidAnswer(f"{self.server}: the reply was cut short") from None
        except (aiohttp.ClientResponseError, aiohttp.InvalidURL):
            raise InvalidAnswer(f"{self.server}: the reply is not HTTP") from None
        except (aiohttp.ClientConnectionError, OSError) as error:
            raise BackendUnreachable(f"{self.server}: {_reason(error)}") from None

    def parsed(self, body: bytes) -> Any:
        """The JSON of a reply's bytes. Raises InvalidAnswer."""
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError:
            pass  # second chance below
        try:
            # Input that orjson rejects is still read item by item: bytes that are not UTF-8 become U+FFFD,
            # lone surrogates and NaN get through to the gather, which fixes and counts them.
            return json.loads(body.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            raise InvalidAnswer(f"{self.server}: the reply is not JSON") from None

    async def close(self) -> None:
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _opened(self) -> ClientSession:
        """The session, made at the first request: it belongs to the running loop, and aiohttp is imported late."""
        import aiohttp

        if self._closed:
            raise BackendUnreachable(f"{self.server}: the connection was closed")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                # No limit here: the gather's bulkhead bounds a backend, and waiting for a
                # connection of the pool must not count for the network's time-out.
                connector=self._connector() if self._connector else aiohttp.TCPConnector(limit=0, limit_per_host=0),
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
        return self._session

    def _refused(self, response: ClientResponse) -> BackendError:
        status, named = response.status, f"{self.server} answered {response.status}"
        if status in (401, 403):
            return Unauthorized(f"{named}: it does not accept the credential")
        if status == 429:
            return RateLimited(f"{named}: it asks to wait", _retry_after_s(response))
        if 300 <= status < 400:
            return HttpStatus(f"{named}: redirects are not followed, configure the final address", status)
        return HttpStatus(named, status, _retry_after_s(response))

    async def _read(self, response: ClientResponse) -> bytes:
        """The decompressed body. Raises InvalidAnswer at the first byte over the limit; the rest is never read."""
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        length = response.content_length
        if length is not None and length > self._reply_bytes:
            raise self._too_long()
        if encoding in ("", "identity"):
            if length is not None:
                return await response.read()
            inflate = None
        elif encoding in ("gzip", "x-gzip", "deflate"):
            inflate = zlib.decompressobj(wbits=47)  # 32 + 15: gzip or zlib, whichever the header says
        else:
            raise InvalidAnswer(f"{self.server}: the reply is compressed in a way that was not asked for")
        body = bytearray()
        received = 0
        async for piece in response.content.iter_any():
            received += len(piece)
            if inflate is None:
                body += piece
            else:
                # One byte more than allowed distinguishes a bomb from a reply that just fits.
                try:
                    body += inflate.decompress(piece, self._reply_bytes + 1 - len(body))
                except zlib.error:
                    raise InvalidAnswer(f"{self.server}: the compressed reply is damaged") from None
            if max(received, len(body)) > self._reply_bytes:
                raise self._too_long()
        if inflate is not None and not inflate.eof:
            raise InvalidAnswer(f"{self.server}: the reply was cut short")
        return bytes(body)

    def _too_long(self) -> InvalidAnswer:
        return InvalidAnswer(f"{self.server}: the reply is longer than {self._reply_bytes:,} bytes")


@dataclass(frozen=True, slots=True)
class Credential:
    """The source of a key: an environment ``variable`` or a ``file``; neither if no key is needed."""

    variable: str = ""
    file: str = ""
    option: str = "api_key"
    """its name in the settings: api_key_env, api_key_file"""

    def __post_init__(self) -> None:
        if self.variable and self.file:
            raise SettingsError(f"{self.option}_env or {self.option}_file, not both")

    def value(self) -> str:
        """The current key, so that a renewed one is used without a restart; "" if none is configured.

        Raises Unauthorized if it cannot be read, which is not the server's fault.
        """
        if self.file:
            try:
                return Path(self.file).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise Unauthorized(f"{self.option}_file cannot be read: {type(error).__name__}") from None
        if self.variable and not os.environ.get(self.variable, "").strip():
            raise Unauthorized(f"the environment has no {self.variable}; set it where the gateway runs")
        return os.environ[self.variable].strip() if self.variable else ""


def checked(url: str) -> str:
    """``scheme://host:port`` of an address, as errors name it. Raises SettingsError for any other address."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise SettingsError("url is not an address; write it as http://host:port") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError("url must start with http:// or https:// and name a host")
    if parts.username or parts.password or parts.query or parts.fragment:
        # An address is shown and logged; a credential in it would be too.
        raise SettingsError("url must not carry a user, a password or a query; name the key by api_key_env")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}" + (f":{port}" if port else "")


def with_fix(
    error: BackendError,
    start: str = "start it, or correct url",
    key: str = "give it the key of the server, by api_key_env or api_key_file",
) -> str:
    """A failed exchange as a description's note, with the fix unless the error has one; ``start`` is the fix for a
    server that is not reached, ``key`` for one that refuses the credential."""
    if "Fix:" in str(error):
        return str(error)
    match error:
        case Unauthorized():
            fix = key
        case RateLimited() | BackendTimeout():
            fix = "wait, or let it be asked less"
        case BackendUnreachable():
            fix = start
        case HttpStatus(status=404):
            fix = "correct url; what answers there has no such route"
        case _:
            fix = "look at its log; what answers at url may be something else, or another version of it"
    return f"{error}. Fix: {fix}"


def _reason(error: Exception) -> str:
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "no such host"
    if isinstance(error, aiohttp.ClientSSLError):
        return "no trusted TLS connection"
    if isinstance(error, aiohttp.ClientConnectorError):
        return "connection refused" if isinstance(error.os_error, ConnectionRefusedError) else "no connection"
    return "the connection was lost"


def _retry_after_s(response: ClientResponse) -> float | None:
    """Seconds of a Retry-After, which is a number or a date (RFC 9110, 10.2.3); ``None`` without a sensible one."""
    value = response.headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())
