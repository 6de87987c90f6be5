"""The OpenAPI document is true: what it says is taken is taken, and what is answered is as it says."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from fastapi.routing import APIRoute
from hypothesis import HealthCheck, settings
from pydantic import ValidationError

from fusion.client import AsyncClient, Client, ensure_server, stop_server
from fusion.doors.http.openapi import document, document_json, examples, page
from fusion.doors.http.routes import router
from fusion.home import ServerRecord
from fusion.settings import ServerSettings, Settings
from tests import typescript
from tests.doors.contract import check
from tests.doors.fakes import SMALL, FakeFusion, app_over

HOST = "testserver"  # what schemathesis calls an application in this process
APP = app_over(FakeFusion(), Settings(server=ServerSettings(allowed_hosts=(HOST,))))
NOT_OURS = [
    schemathesis.checks.positive_data_acceptance,  # a blank query fits the schema, and still asks nothing
    schemathesis.checks.unsupported_method,  # a POST without JSON is refused before it is routed: 415, not 405
]
CHECKS: dict[str, Any] = {"negative_data_rejection": {"expected-statuses": [404, 413, 415, 422]}}
# The systematic cases, hundreds for a route with many fields, go to the real server below.
DRAWN = {"coverage": {"enabled": False}}
CONFIG = schemathesis.config.SchemathesisConfig.from_dict({"checks": CHECKS, "phases": DRAWN})
schema = schemathesis.openapi.from_asgi("/openapi.json", APP, config=CONFIG)


@schema.parametrize()
@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_openapi_describes_the_routes_over_fakes(case: schemathesis.Case[Any]) -> None:
    """Requests drawn at random, sane and not: never a 5xx, and every reply has a documented status, type and shape."""
    assert case.call_and_validate(excluded_checks=NOT_OURS).status_code < 500


# Asked to answer within a millisecond, a real server may honestly say that nobody did.
IN_TIME_OR_NOT = {"not_a_server_error": {"expected-statuses": ["2xx", "3xx", "4xx", 503]}}
REAL = schemathesis.config.SchemathesisConfig.from_dict({"checks": CHECKS | IN_TIME_OR_NOT})
real = schemathesis.openapi.from_dict(document(), config=REAL)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRecord]:
    """A server with an engine, a journal and a backend behind it."""
    home = tmp_path_factory.mktemp("openapi") / "home"
    home.mkdir()
    (home / "fusion.toml").write_text(SMALL)
    yield ensure_server(home)
    stop_server(home)


@pytest.mark.feature("schemathesis finds no 5xx in the whole server")
@pytest.mark.feature("NUL, surrogates, NaN, 1e400, deep JSON: 4xx, never 5xx", part="faults/clients")
@real.parametrize()
@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_openapi_describes_a_real_server(case: schemathesis.Case[Any], served: ServerRecord) -> None:
    """Drawn and systematic ones over a real connection, down to the stores: what gets through the door breaks nothing
    behind it."""
    headers = {"authorization": f"Bearer {served.token}"}
    reply = case.call_and_validate(base_url=served.url, headers=headers, excluded_checks=NOT_OURS)
    assert reply.status_code < 500 or reply.status_code == 503


@pytest.mark.feature("TypeScript: the client's types are those of the OpenAPI document of today")
def test_openapi_is_what_the_typescript_client_is_typed_by() -> None:
    """After a change of a route or of a model: python -m tests.typescript."""
    assert typescript.main(["--check"]) == 0


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    return [(m, path, operation) for path, item in document()["paths"].items() for m, operation in item.items()]


@pytest.mark.parametrize(("method", "path", "operation"), operations())
def test_openapi_has_examples_for_every_operation(method: str, path: str, operation: dict[str, Any]) -> None:
    """A reader sees what to send and what comes back."""
    replies = operation["responses"]
    shown = (replies.get("200") or replies["202"])["content"]
    assert (shown.get("application/json") or next(iter(shown.values())))["example"]
    if method == "post":
        content = operation["requestBody"]["content"]["application/json"]
        assert "example" in content or "examples" in content
    assert "application/problem+json" in replies["422"]["content"]


ROUTES = [route for route in router.routes if isinstance(route, APIRoute)]


@pytest.mark.feature(
    "every request and reply is declared once; the OpenAPI document and its examples come from that declaration"
)
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_openapi_examples_fit_requests_and_replies(route: APIRoute) -> None:
    """Each example passes the very models that check requests and declare replies."""
    shown = examples()[route.name.removesuffix("_v1")]
    for request in [shown.get("request"), *shown.get("requests", {}).values()]:
        if route.body_field is not None and request is not None:
            assert route.body_field.validate(request, {}, loc=("body",))[1] == []
    method = next(iter(route.methods or ()))
    path = route.path.replace(":path", "").replace("{", "").replace("}", "")
    check(method, path, 200, json.dumps(shown["reply"]).encode())


@pytest.mark.feature(
    "… each reply of the suite is compared with its declaration",
    of="every request and reply is declared",
)
def test_reply_check_notices_undeclared_fields() -> None:
    """The contract would hold of nothing if it let everything pass."""
    health = {"status": "ok", "version": "1", "pid": 7}
    check("GET", "/healthz", 200, json.dumps(health).encode())
    with pytest.raises(AssertionError, match="extra"):
        check("GET", "/healthz", 200, json.dumps({**health, "extra": 1}).encode())
    with pytest.raises(ValidationError, match="pid"):
        check("GET", "/healthz", 200, b'{"status": "ok", "version": "1"}')


@pytest.mark.feature("`/docs` shows every route on one page that loads nothing from elsewhere")
async def test_docs_page_loads_nothing() -> None:
    """Every route and type is in it; no script, style, picture or font, from here or elsewhere."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(APP), base_url=f"http://{HOST}") as client:
        page = await client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    for method, path, operation in operations():
        assert f"<code>{method.upper()} {path}</code>" in page.text
        assert f"id='{operation['operationId']}'" in page.text
    for name in document()["components"]["schemas"]:
        assert f"id='{name}'" in page.text
    assert not re.search(r"<(script|link|img|iframe|style)|url\(|https?://", page.text.replace("http://127.0.0.1", ""))


def test_openapi_requires_a_key_when_keys_are_set() -> None:
    """Every route but the probes wants a Bearer key."""
    assert document(needs_key=True)["security"] == [{"key": []}]
    assert document()["security"] == []
    assert document(needs_key=True)["paths"]["/healthz"]["get"]["security"] == []


@pytest.mark.feature("the documentation of remember says that delivery is in the background, and what waits for it")
def test_remember_documents_delivery_in_the_background() -> None:
    """A question right after `remember` may not find it: the route and the client's method name `settle`."""
    described = document()["paths"]["/v1/memories"]["post"]["description"]
    for text in (described, str(Client.remember.__doc__), str(AsyncClient.remember.__doc__)):
        assert "in the background" in text
        assert "settle" in text
        assert "may not find" in text


@pytest.mark.feature("the first requests for /docs and /openapi.json do not hold up the others")
@pytest.mark.parametrize("path", ["/docs", "/openapi.json"])
async def test_openapi_is_built_outside_the_event_loop(path: str) -> None:
    """Building takes some 200 ms: the loop's thread never calls FastAPI's function for it."""
    for cached in (document, document_json, page):
        cached.cache_clear()
    called: set[str] = set()
    transport = httpx.ASGITransport(app_over(FakeFusion()))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        sys.setprofile(lambda frame, *_: called.add(f"{frame.f_globals.get('__name__')}.{frame.f_code.co_name}"))
        try:
            reply = await client.get(path)
        finally:
            sys.setprofile(None)
    assert reply.status_code == 200
    assert "/v1/memories" in reply.text
    assert "starlette.routing.app" in called, "the profile sees the loop's thread"
    assert not {f"fusion.doors.http.openapi.{name}" for name in ("document", "document_json", "page")} & called
    assert "fastapi.openapi.utils.get_openapi" not in called
