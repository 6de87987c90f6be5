"""Finds memory servers on this computer's usual ports, recognised by their replies and not by the port alone."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx

HOST = "127.0.0.1"
TIMEOUT_S = 1.5
"""seconds for all requests to one server"""
MAX_REPLY_BYTES = 262_144
"""maximum bytes of a reply; the longest that is read is an OpenAPI document"""

PORTS: Mapping[str, Sequence[int]] = {
    "bolt": (7687,),
    "neo4j": (7474,),
    "qdrant": (6333,),
    "cognee": (8000, 8011),
    "qmd": (8181,),
    "mem0": (8888,),
}
"""the default ports; Memgraph and Neo4j use Bolt"""


@dataclass(frozen=True, slots=True)
class Server:
    """A recognised server. ``version`` is empty where its replies have none."""

    kind: str
    url: str
    version: str = ""


async def servers(
    ports: Mapping[str, Sequence[int]] = PORTS, *, host: str = HOST, timeout_s: float = TIMEOUT_S
) -> tuple[Server, ...]:
    """Finds every known server, each once. All ports are tried at the same time."""

    async def recognise(http: httpx.AsyncClient, kind: str, port: int) -> Server | None:
        with suppress(OSError, TimeoutError, ValueError, httpx.HTTPError, asyncio.IncompleteReadError):
            async with asyncio.timeout(timeout_s):
                if kind == "bolt":
                    return await _bolt(host, port)
                return await _RECOGNISE[kind](http, f"http://{host}:{port}")
        return None

    # Without certificates, which take a tenth of a second to load: loopback needs no TLS.
    async with httpx.AsyncClient(trust_env=False, verify=False) as http:  # noqa: S501
        answers = await asyncio.gather(*(recognise(http, kind, port) for kind in ports for port in ports[kind]))
    found: dict[str, Server] = {}
    for server in filter(None, answers):
        # Neo4j answers on two ports; the adapter uses that of Bolt, which comes first.
        key = server.kind if server.kind == "neo4j" else server.url
        found.setdefault(key, server)
    return tuple(found.values())


# Over HTTP -------------------------------------------------------------------------------------------------------


async def _get(http: httpx.AsyncClient, url: str) -> tuple[int, bytes]:
    """Status and the beginning of the body; redirects are not followed."""
    async with http.stream("GET", url) as response:
        return response.status_code, await _head(response)


async def _head(response: httpx.Response) -> bytes:
    body = b""
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) >= MAX_REPLY_BYTES:
            break
    return body[:MAX_REPLY_BYTES]


async def _json(http: httpx.AsyncClient, url: str) -> dict[str, Any]:
    """Gets a small JSON object. Raises ValueError for anything else."""
    status, body = await _get(http, url)
    found = json.loads(body)
    if status != 200 or not isinstance(found, dict):
        raise ValueError(f"{url} answers {status}")
    return found


async def _describes(http: httpx.AsyncClient, base: str, title: str, path: str) -> bool:
    """Whether a server's OpenAPI document, in FastAPI's form, has ``title`` in its title, or has ``path``."""
    status, body = await _get(http, f"{base}/openapi.json")
    found = re.search(rb'"info"\s*:\s*\{[^{}]*?"title"\s*:\s*"([^"]{1,200})"', body)
    titled = found is not None and title in found[1].decode("utf-8", "replace").lower()
    return status == 200 and (titled or f'"{path}"'.encode() in body)


def _text(value: object) -> str:
    """A server's text for a table: at most 40 printable characters, or empty."""
    return value[:40] if isinstance(value, str) and value.isprintable() else ""


async def _neo4j(http: httpx.AsyncClient, base: str) -> Server | None:
    reply = await _json(http, f"{base}/")
    version = reply.get("neo4j_version")
    return Server("neo4j", base, _text(version)) if isinstance(version, str) else None


async def _qdrant(http: httpx.AsyncClient, base: str) -> Server | None:
    reply = await _json(http, f"{base}/")
    if not str(reply.get("title", "")).startswith("qdrant"):
        return None
    return Server("qdrant", base, _text(reply.get("version")))


async def _cognee(http: httpx.AsyncClient, base: str) -> Server | None:
    """Recognises Cognee by its OpenAPI document, because many servers have a /health."""
    status, body = await _get(http, f"{base}/health")
    if status not in (200, 503) or not await _describes(http, base, "cognee", "/api/v1/cognify"):
        return None
    with suppress(ValueError, AttributeError):
        return Server("cognee", base, _text(json.loads(body).get("version")))
    return Server("cognee", base)


async def _qmd(http: httpx.AsyncClient, base: str) -> Server | None:
    """Recognises QMD by its error for a query without searches; its /health looks like that of other servers."""
    health = await _json(http, f"{base}/health")
    if health.get("status") != "ok" or not isinstance(health.get("uptime"), int | float):
        return None
    async with http.stream("POST", f"{base}/query", json={}) as response:
        refused = response.status_code == 400 and b"searches" in await _head(response)
    return Server("qmd", base) if refused else None


async def _mem0(http: httpx.AsyncClient, base: str) -> Server | None:
    return Server("mem0", base) if await _describes(http, base, "mem0", "/memories/{memory_id}/history") else None


# Over Bolt -------------------------------------------------------------------------------------------------------

_HANDSHAKE = bytes.fromhex("6060b01700040405000204040000010400000003")
"""Bolt's magic number, then the offered versions: 5.4 to 5.0, 4.4 to 4.2, 4.1, 3"""
_GOODBYE = bytes.fromhex("0002 b002 0000")


async def _bolt(host: str, port: int) -> Server | None:
    """Recognises Memgraph and Neo4j by the name in the reply to HELLO; kind "bolt" without a name."""
    url = f"bolt://{host}:{port}"
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(_HANDSHAKE)
        zero, _, minor, major = await reader.readexactly(4)
        if zero or not 3 <= major <= 5:
            return None
        writer.write(_hello(major, minor))
        size = int.from_bytes(await reader.readexactly(2), "big")
        agent = _server_name(await reader.readexactly(min(size, MAX_REPLY_BYTES)))
        writer.write(_GOODBYE)
    except asyncio.IncompleteReadError:
        return None
    finally:
        writer.close()
    kind = next((name for name in ("memgraph", "neo4j") if name in agent.lower()), "bolt")
    # Memgraph names the version of Neo4j that it is compatible with, not its own.
    version = agent.removeprefix("Neo4j/") if kind == "neo4j" else ""
    return Server(kind, url, _text(version))


def _hello(major: int, minor: int) -> bytes:
    """The message HELLO without credentials. Before version 5.1 it names the scheme "none"."""
    fields: dict[str, bytes] = {"user_agent": _pack("memory-fusion/init")}
    if (major, minor) < (5, 1):
        fields["scheme"] = _pack("none")
    if (major, minor) >= (5, 3):
        fields["bolt_agent"] = b"\xa1" + _pack("product") + _pack("memory-fusion/init")
    body = b"\xb1\x01" + bytes([0xA0 | len(fields)]) + b"".join(_pack(key) + value for key, value in fields.items())
    return len(body).to_bytes(2, "big") + body + b"\0\0"


def _pack(text: str) -> bytes:
    """A short string in PackStream's encoding."""
    data = text.encode()
    return (bytes([0x80 | len(data)]) if len(data) < 16 else bytes([0xD0, len(data)])) + data


def _server_name(message: bytes) -> str:
    """The field ``server`` of a SUCCESS message; empty for a FAILURE, as of a server that requires a password."""
    if not message.startswith(b"\xb1\x70"):
        return ""
    found = re.search(rb"\x86server(?:([\x80-\x8f])|\xd0(.))", message, re.DOTALL)
    if found is None:
        return ""
    size = found[1][0] & 0x0F if found[1] else found[2][0]
    return message[found.end() : found.end() + size].decode("utf-8", "replace")


_RECOGNISE: Mapping[str, Callable[[httpx.AsyncClient, str], Awaitable[Server | None]]] = {
    "neo4j": _neo4j,
    "qdrant": _qdrant,
    "cognee": _cognee,
    "qmd": _qmd,
    "mem0": _mem0,
}
