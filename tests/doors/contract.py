"""Compares each reply with the declaration of its route: the same members and types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import httpx
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from starlette.routing import Match

from fusion.doors.http.middleware import Gate
from fusion.doors.http.routes import router


class Checked(httpx.ASGITransport):
    """A transport to a gateway in this process that compares each reply with the declaration of its route."""

    def __init__(self, app: Gate, **options: Any) -> None:
        super().__init__(app, **options)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        if response.headers.get("content-type") == "application/json":
            check(request.method, request.url.path, response.status_code, await response.aread())
        return response


def check(method: str, path: str, status: int, body: bytes) -> None:
    """Raise AssertionError, or pydantic's ValidationError, if a reply differs from its declaration."""
    scope = {"type": "http", "method": method, "path": path, "headers": [], "query_string": b""}
    route = next((r for r in router.routes if isinstance(r, APIRoute) and r.matches(scope)[0] is Match.FULL), None)
    if route is None:
        return  # the document, /mcp, or a route of another system's
    declared = route.responses.get(status, {}).get("model", route.response_model)
    if declared is None:
        return  # lines of JSON
    sent = json.loads(body)
    adapter = adapter_of(declared)
    read = adapter.dump_python(adapter.validate_json(body), mode="json", by_alias=True)
    if found := [*differing(read, sent)]:
        raise AssertionError(f"{method} {path} is not as declared: {'; '.join(found)}")


def differing(declared: Any, sent: Any, at: str = "") -> Iterator[str]:
    """The paths at which a reply differs from its parsed form, which drops undeclared members."""
    if isinstance(declared, dict) and isinstance(sent, dict):
        for name in declared.keys() | sent.keys():
            yield from differing(declared.get(name, "(not declared)"), sent.get(name), f"{at}.{name}")
    elif isinstance(declared, list) and isinstance(sent, list) and len(declared) == len(sent):
        for n, (one, other) in enumerate(zip(declared, sent, strict=True)):
            yield from differing(one, other, f"{at}[{n}]")
    elif declared != sent:
        yield f"{at.removeprefix('.')}: {declared!r} declared, {sent!r} sent"


@cache
def adapter_of(declared: Any) -> TypeAdapter[Any]:
    return TypeAdapter(declared)
