"""The TypeScript client in a page of another origin, in a real Chromium, against a home's real server."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from fusion.client import ensure_server
from fusion.trust import allow
from fusion.trust.token import home_token
from tests.browser import chromium, needs_chromium
from tests.doors.fakes import SMALL, server_stopped
from tests.integrations.typescript_client import PACKAGE

pytestmark = [pytest.mark.hosts, needs_chromium, pytest.mark.timeout(600)]
PATIENT = {"timeoutMs": 60_000}
MILL, ASKED = "The mill at the harbour is closed in March.", "When is the mill at the harbour closed?"
PAGE = """<!doctype html><meta charset="utf-8"><title>Notes</title>
<script type="importmap">{"imports": {"memory-fusion-client": "/client/index.js"}}</script>
<script type="module">
  import { Client, FusionError } from "memory-fusion-client";
  window.outcome = async ({ url, options, method, args }) => {
    try {
      return { result: await new Client(url, options)[method](...args) };
    } catch (error) {
      const { name, kind, status, message, retryAfterMs } = error;
      return { error: { name, kind, status, message, retryAfterMs, ours: error instanceof FusionError } };
    }
  };
</script>"""
"""a page that imports the client as it is in a checkout: nothing is built"""


@dataclass(frozen=True, slots=True)
class Notes:
    """A page with the client in it."""

    page: Page
    url: str
    """the server that it asks"""
    key: str

    def outcome(self, method: str, *args: Any) -> dict[str, Any]:
        asked = {"url": self.url, "options": {"apiKey": self.key, **PATIENT}, "method": method, "args": args}
        outcome: dict[str, Any] = self.page.evaluate("(asked) => window.outcome(asked)", asked)
        return outcome

    def call(self, method: str, *args: Any) -> Any:
        """The result of a call that succeeds."""
        outcome = self.outcome(method, *args)
        assert "error" not in outcome, outcome
        return outcome["result"]

    def error(self, method: str, *args: Any) -> dict[str, Any]:
        """The error of a call that fails."""
        error: dict[str, Any] = self.outcome(method, *args)["error"]
        return error


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as one:
        yield one


@pytest.fixture(scope="module")
def site() -> Iterator[HTTPServer]:
    """A web server of somebody else, with the page and the client's files."""
    with HTTPServer() as server:
        server.expect_request("/").respond_with_data(PAGE, content_type="text/html")
        for file in PACKAGE.glob("*.js"):
            kind = mimetypes.types_map[".js"]
            server.expect_request(f"/client/{file.name}").respond_with_data(file.read_text(), content_type=kind)
        yield server


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, site: HTTPServer) -> Iterator[Path]:
    """A home whose server pages of the site may call."""
    home = tmp_path_factory.mktemp("browser") / "home"
    home.mkdir(mode=0o700)
    origin = f"http://localhost:{site.port}"
    (home / "fusion.toml").write_text(f'{SMALL}\n[server]\nport = 0\nallowed_origins = ["{origin}"]\n')
    allow(home)
    with server_stopped(home):
        ensure_server(home)
        yield home


def notes(browser: Browser, address: str, url: str, key: str) -> Notes:
    page = browser.new_page()
    page.goto(address)
    page.wait_for_function("() => 'outcome' in window")
    return Notes(page, url, key)


@pytest.fixture
def allowed(browser: Browser, site: HTTPServer, home: Path) -> Iterator[Notes]:
    """A page of the origin that the home's server allows."""
    one = notes(browser, f"http://localhost:{site.port}/", ensure_server(home).url, home_token(home))
    yield one
    one.page.close()


@pytest.fixture
def foreign(browser: Browser, site: HTTPServer, home: Path) -> Iterator[Notes]:
    """The same page, of another origin, with the right key."""
    one = notes(browser, f"http://127.0.0.1:{site.port}/", ensure_server(home).url, home_token(home))
    yield one
    one.page.close()


@pytest.mark.feature("TypeScript: the client runs in a browser, in a page of another origin that the server allows")
def test_typescript_client_runs_in_a_page_of_an_allowed_origin(allowed: Notes) -> None:
    scope = {"user_id": "ana"}
    ref = allowed.call("remember", {"text": MILL, **scope})["memories"][0]["ref"]
    assert allowed.call("settle", 60_000)["settled"]
    assert MILL in allowed.call("recall", ASKED, {**scope, "timeout_ms": 60_000}, PATIENT)["block"]
    assert allowed.call("setState", ref, {"archived": True, **scope})["decision"]["id"]
    assert allowed.call("forget", ref, scope)["ref"] == ref
    assert allowed.error("get", ref, scope)["kind"] == "NotFound"


def test_page_of_an_allowed_origin_can_read_why_it_is_refused(allowed: Notes) -> None:
    wrong = Notes(allowed.page, allowed.url, "a-wrong-key")
    refused = wrong.error("status")
    assert (refused["ours"], refused["status"]) == (True, 401)
    assert "needs its token" in refused["message"]


@pytest.mark.feature("TypeScript: a page of an origin that is not allowed gets nothing, and `recall` fails open there")
def test_page_of_another_origin_gets_nothing(allowed: Notes, foreign: Notes) -> None:
    allowed.call("remember", {"text": MILL, "user_id": "bo"})
    assert allowed.call("settle", 60_000)["settled"]
    assert foreign.error("fuse", ASKED, {"user_id": "bo"})["kind"] == "ServerUnreachable"
    assert foreign.error("status")["kind"] == "ServerUnreachable"
    recalled = foreign.call("recall", ASKED, {"user_id": "bo"})
    assert recalled["block"] == ""
    assert recalled["reason"]


def test_page_without_an_origin_of_its_own_gets_nothing(browser: Browser, site: HTTPServer, allowed: Notes) -> None:
    """A sandboxed frame has the origin `null`, like every file and every frame of an attacker."""
    asked = "fetch(%r).then((r) => r.text(), () => 'refused').then((t) => { document.title = t })"
    page = browser.new_page()
    page.set_content(f"<iframe sandbox='allow-scripts' srcdoc=\"<script>{asked % f'{allowed.url}/healthz'}</script>\">")
    frame = page.frames[-1]
    frame.wait_for_function("document.title")
    assert frame.title() == "refused"
    page.close()


def test_typescript_client_follows_no_redirect_in_a_browser(allowed: Notes, site: HTTPServer) -> None:
    """The browser shows a page no more of a redirect than that there was one."""
    there: list[Request] = []

    def thief(request: Request) -> Response:
        there.append(request)
        return Response("{}", content_type="application/json")

    site.expect_request("/thief").respond_with_handler(thief)
    site.expect_request("/v1/status").respond_with_response(Response("", 307, {"location": "/thief"}))
    moved = Notes(allowed.page, f"http://localhost:{site.port}", "k")
    assert moved.error("status")["kind"] == "ServerUnreachable"
    assert there == []
