"""Requests as one tenant, with each reply noted under its request."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import httpx

Json = Any


async def posted(http: httpx.AsyncClient, path: str, body: Json, **headers: str) -> httpx.Response:
    """The reply to a body in JSON."""
    return await http.post(path, content=json.dumps(body), headers={"content-type": "application/json", **headers})


async def settled(http: httpx.AsyncClient) -> None:
    """Wait until the background has done all that it has to do."""
    assert (await posted(http, "/v1/settle", {"timeout_s": 60})).json()["settled"]


@dataclass(frozen=True, slots=True)
class Noted:
    """A tenant's client, and by request what was replied: the status and the body. Each method returns the body."""

    http: httpx.AsyncClient
    found: dict[str, Json] = field(default_factory=dict)

    def note(self, name: str, reply: httpx.Response) -> Json:
        kind = reply.headers.get("content-type", "").partition(";")[0]
        body = reply.json() if kind.endswith("json") and "ndjson" not in kind else reply.text
        self.found[name] = [reply.status_code, body]
        return body

    async def get(self, path: str, /, **asked: str) -> Json:
        return self.note(f"GET {path} {sorted(asked.items())}", await self.http.get(path, params=asked))

    async def post(self, path: str, body: Json, /, **headers: str) -> Json:
        return self.note(f"POST {path} {json.dumps(body)[:200]}", await posted(self.http, path, body, **headers))

    async def patch(self, path: str, body: Json, /) -> Json:
        return self.note(f"PATCH {path} {json.dumps(body)[:200]}", await self.http.patch(path, json=body))

    async def put(self, path: str, body: Json, /) -> Json:
        return self.note(f"PUT {path} {json.dumps(body)[:200]}", await self.http.put(path, json=body))

    async def tool(self, at: str, name: str, **arguments: str) -> Json:
        """Call a tool of the MCP server at a path."""
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        reply = await posted(self.http, at, call, accept="application/json, text/event-stream")
        return self.note(f"POST {at} {{{name}}} {sorted(arguments.items())}", reply)

    async def status(self, method: str, path: str, body: Json = None) -> None:
        """Note the status alone."""
        content = {} if body is None else {"json": body}
        self.found[f"{method} {path}"] = [(await self.http.request(method, path, **content)).status_code]

    async def settle(self) -> None:
        await settled(self.http)
