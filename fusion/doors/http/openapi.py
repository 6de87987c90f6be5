"""The OpenAPI document of the routes, and the page that shows it.

FastAPI writes the document; this adds the problem details of errors, the key, and an example of each request and reply
(`examples.json`; a test validates each). The first request for each builds it in a thread: that takes some 200 ms.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import cache
from html import escape
from importlib.resources import files
from threading import Lock
from typing import Any, TypeVar

from fastapi import Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, Response
from pydantic import TypeAdapter

import fusion as package
from fusion import wire
from fusion.doors.http.routes import router
from fusion.doors.http.routing import problem_reply

DOCS = "/docs"
OPENAPI = "/openapi.json"
JSON = "application/json"
_KEY = "The token of the home, which `fusion token` prints, or an API key, which names a tenant."
_BUILDING = Lock()
T = TypeVar("T")


@cache
def examples() -> dict[str, dict[str, Any]]:
    """By operation: an example ``request`` (or several ``requests``) and an example ``reply``."""
    by_operation: dict[str, dict[str, Any]]
    by_operation = json.loads(files("fusion.doors.http").joinpath("examples.json").read_bytes())
    return by_operation


@cache
def document(*, needs_key: bool = False) -> dict[str, Any]:
    """The whole document; with ``needs_key`` every route except the probes requires a Bearer key."""
    openapi = get_openapi(
        title="memory-fusion",
        version=package.__version__,
        summary="Ask all of an agent's memories at once.",
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        routes=router.routes,
    )
    for item in openapi["paths"].values():
        for operation in item.values():
            _complete(operation)
    schemas = openapi["components"]["schemas"]
    problem = TypeAdapter(wire.Problem).json_schema(ref_template="#/components/schemas/{model}", mode="serialization")
    schemas |= {**problem.pop("$defs"), "Problem": problem}
    openapi["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer", "description": _KEY}}
    openapi["security"] = [{"key": []}] if needs_key else []
    return openapi


def _complete(operation: dict[str, Any]) -> None:
    """Add examples to one operation. The first line of its docstring becomes its summary."""
    operation["summary"], _, more = operation.pop("description").partition("\n\n")
    if more:
        operation["description"] = more
    example = examples()[operation["operationId"].removesuffix("_v1")]
    if sent := operation.get("requestBody"):
        sent["content"][JSON] |= _example(example, "request")
        operation["responses"]["415"] = problem_reply(415)
    for status, reply in operation["responses"].items():
        if JSON in reply["content"] and status != "503":
            reply["content"][JSON] |= _example(example, "reply")
    operation["responses"] = dict(sorted(operation["responses"].items()))


def _example(example: dict[str, Any], which: str) -> dict[str, Any]:
    if several := example.get(f"{which}s"):
        return {"examples": {name: {"value": value} for name, value in several.items()}}
    return {"example": example[which]}


def document_route(*, needs_key: bool) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint of `/openapi.json`."""

    async def endpoint(request: Request) -> Response:
        return Response(await asyncio.to_thread(_once, lambda: document_json(needs_key=needs_key)), media_type=JSON)

    return endpoint


async def docs_page(request: Request) -> Response:
    """`/docs`: the document as one page without scripts, styles and fonts."""
    return HTMLResponse(await asyncio.to_thread(_once, page))


def _once(build: Callable[[], T]) -> T:
    """What a cached function returns, built by one thread while others wait for it."""
    with _BUILDING:
        return build()


@cache
def document_json(*, needs_key: bool) -> bytes:
    """The document as it is sent."""
    return json.dumps(document(needs_key=needs_key), ensure_ascii=False, separators=(",", ":")).encode()


@cache
def page() -> str:
    """The HTML of `/docs`."""
    openapi = document()
    routes = [
        f"<li><a href='#{one['operationId']}'><code>{method.upper()} {path}</code></a> {escape(one['summary'])}"
        for path, item in openapi["paths"].items()
        for method, one in item.items()
    ]
    operations = [
        _operation(f"{method.upper()} {path}", one)
        for path, item in openapi["paths"].items()
        for method, one in item.items()
    ]
    schemas = [
        f"<details id='{name}'><summary><code>{name}</code> {escape(schema.get('description', ''))}</summary>"
        f"{_json(schema)}</details>"
        for name, schema in sorted(openapi["components"]["schemas"].items())
    ]
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='color-scheme' content='light dark'>"
        "<meta name='viewport' content='width=device-width'><title>memory-fusion</title>"
        f"<h1>memory-fusion {package.__version__}</h1><p>{escape(openapi['info']['summary'])}"
        f"<p>{escape(_KEY)} Send it as <code>Authorization: Bearer …</code>. "
        "For programs: <a href='openapi.json'>openapi.json</a>."
        f"<h2>Routes</h2><ul>{''.join(routes)}</ul>{''.join(operations)}<h2>Types</h2>{''.join(schemas)}</html>"
    )


def _operation(title: str, one: dict[str, Any]) -> str:
    """One route: its parameters, its request and its replies, each with an example."""
    rows = [
        f"<tr><td><code>{p['name']}</code><td>{p['in']}{', required' if p.get('required') else ''}"
        f"<td>{escape(p.get('description') or '')}<td><code>{escape(json.dumps(p['schema']))}</code>"
        for p in one.get("parameters", ())
    ]
    table = f"<table><tr><th>parameter<th>in<th>what<th>schema{''.join(rows)}</table>" if rows else ""
    request = _content("Request", one.get("requestBody", {}))
    replies = "".join(_content(f"{status} {reply['description']}", reply) for status, reply in one["responses"].items())
    return (
        f"<h3 id='{one['operationId']}'><code>{title}</code></h3><p>{escape(one['summary'])}."
        f"<p>{escape(one.get('description', ''))}{table}{request}{replies}"
    )


def _content(title: str, part: dict[str, Any]) -> str:
    return "".join(
        f"<details><summary>{escape(title)} <code>{kind}</code></summary>{_json(content)}</details>"
        for kind, content in part.get("content", {}).items()
    )


def _json(value: object) -> str:
    """JSON as HTML; each reference is a link to its type."""
    text = escape(json.dumps(value, ensure_ascii=False, indent=2), quote=False)
    parts = text.split('"#/components/schemas/')
    return f"<pre>{parts[0]}{''.join(_link(part) for part in parts[1:])}</pre>"


def _link(part: str) -> str:
    name, _, after = part.partition('"')
    return f"<a href='#{name}'>{name}</a>{after}"
