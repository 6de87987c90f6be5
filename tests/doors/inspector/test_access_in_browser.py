"""Who gets into the inspector and who does not, and two people at once: in a real Chromium."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Request, Route, expect

from fusion.client import Client
from fusion.doors.http.serve import listen
from fusion.trust import allow
from tests.browser import launched, needs_chromium
from tests.doors.fakes import SMALL
from tests.doors.inspector.pages import Inspector, opened, served, signed_in, stored
from tests.doors.inspector.sample import VIEWS

pytestmark = [pytest.mark.browser, needs_chromium, pytest.mark.timeout(600)]
USERS = ("ada", "zoe")
KEYS = {"acme": "the key of acme", "globex": "the key of globex"}
WITH_KEYS = SMALL + "".join(
    f'[[server.keys]]\nname = "{name}"\ntenant = "{name}"\nsha256 = "{sha256(key.encode()).hexdigest()}"\n'
    for name, key in KEYS.items()
)


def small_home(folder: Path, settings: str = SMALL) -> Path:
    home = folder / "home"
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(settings, encoding="utf-8")
    allow(home)
    return home


def free_port() -> int:
    with closing(listen("127.0.0.1", 0)) as door:
        return int(door.getsockname()[1])


@contextmanager
def site(files: Mapping[str, str], port: int = 0) -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    """Another site at this port, and the path and the Authorization of each request to it."""
    asked: list[tuple[str, str | None]] = []

    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers["authorization"]))
            self.rfile.read(int(self.headers.get("content-length", 0)))
            body = files.get(self.path.partition("?")[0], "{}").encode()
            self.send_response(200)
            self.send_header("content-type", "text/html" if self.path in files else "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", port), Site) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


_TRY = """async (home) => {
  const read = async (path, options) => {
    try {
      const reply = await fetch(home + path, options);
      return [reply.type, (await reply.text()).length];
    } catch (error) {
      return ["refused", 0];
    }
  };
  const json = { "content-type": "application/json" };
  const body = JSON.stringify({ memories: [{ text: "the foreign page was here" }] });
  const script = document.createElement("script");
  script.src = `${home}/v1/status`;
  const loaded = new Promise((resolve) => {
    script.onload = () => resolve("ran");
    script.onerror = () => resolve("refused");
  });
  document.head.append(script);
  return {
    page: await read("/inspector/", {}),
    memories: await read("/v1/memories", { credentials: "include" }),
    guess: await read("/v1/memories", { headers: { authorization: "Bearer guessed" } }),
    session: await read("/v1/inspector/sessions", { method: "POST", headers: json, body: '{"code": "guessed"}' }),
    posted: await read("/v1/memories", { method: "POST", body }),
    unseen: await read("/v1/memories", { method: "POST", mode: "no-cors", body }),
    script: await loaded,
  };
}"""
"""what a foreign page may try; each answer is [type of the reply, characters that it could read]"""


@pytest.mark.feature("a page of another origin can neither read, post to, frame nor script the inspector and its API")
def test_page_of_another_origin_gets_nothing(browser: Browser, tmp_path: Path) -> None:
    home = small_home(tmp_path)
    with served(home) as url, opened(browser, home) as inspector, site({"/": "<title>foreign</title>"}) as (foreign, _):
        stored(inspector, "The safe is behind the map.")
        page = inspector.page.context.new_page()  # of the same browser profile
        page.goto(foreign)
        for server in (url, url.replace("127.0.0.1", "localhost")):
            tried = page.evaluate(_TRY, server)
            assert tried.pop("script") == "refused"
            assert {name: read for name, (_, read) in tried.items()} == dict.fromkeys(tried, 0)
        page.evaluate("(src) => { const f = document.createElement('iframe'); f.src = src; document.body.append(f); }",
                      f"{url}/inspector/")  # fmt: skip
        expect(page.locator("iframe")).to_be_visible()
        page.wait_for_function("() => document.querySelector('iframe').contentDocument === null")
        assert [frame.url for frame in page.frames[1:]] == ["chrome-error://chromewebdata/"]
        with page.expect_popup() as popup:
            page.evaluate("(src) => { window.opened = window.open(src); }", f"{url}/inspector/")
        expect(popup.value.get_by_text("fusion open")).to_be_visible()  # not signed in: the session is of the other tab
        assert page.evaluate("() => { try { return window.opened.document.title } catch { return 'refused' } }") in (
            "refused", None
        )  # fmt: skip
        assert [one["text"] for one in inspector.memory.memories()["memories"]] == ["The safe is behind the map."]


@pytest.mark.feature("a name that is bound anew to this computer gets neither the inspector nor its API")
def test_rebound_name_gets_nothing(browser: Browser, tmp_path: Path) -> None:
    with (
        served(small_home(tmp_path)) as url,
        launched(browser.browser_type, names="MAP rebound.test 127.0.0.1, ") as fooled,
    ):
        page = fooled.new_page()
        paths = ("/", "/inspector/", "/inspector/app.js", "/v1/memories", "/v1/status", "/metrics")
        replies = [page.goto(url.replace("127.0.0.1", "rebound.test") + path) for path in paths]
        assert [reply and reply.status for reply in replies] == [421] * len(paths)


@pytest.mark.feature("a session that the server does not know shows no memory and says how to open the page again")
def test_stale_token_shows_nothing(browser: Browser, tmp_path: Path) -> None:
    home, port = small_home(tmp_path), free_port()
    with ExitStack() as first, ExitStack() as pages:
        first.enter_context(served(home, port))
        inspector = pages.enter_context(opened(browser, home))
        stored(inspector, "The safe is behind the map.")
        page = inspector.show("memories")
        expect(page.locator("main")).to_contain_text("behind the map")
        page.reload()  # the renewal key is in memory alone
        expect(page.locator("main")).to_contain_text("behind the map")
        first.close()
        expect(page.get_by_text("The server does not answer.")).to_be_visible()
        with served(home, port):
            expect(page.get_by_text("fusion open", exact=True)).to_be_visible()
            expect(page.locator("body")).not_to_contain_text("behind the map")
            inspector.problems.clear()  # the refused connections, and the refused token
            pages.close()


@pytest.mark.feature("a program that takes the port of a stopped server is sent no token by an open page")
def test_another_program_at_the_port_is_sent_no_token(browser: Browser, tmp_path: Path) -> None:
    home, port = small_home(tmp_path), free_port()
    with ExitStack() as first, ExitStack() as pages:
        first.enter_context(served(home, port))
        inspector = pages.enter_context(opened(browser, home))
        page = inspector.show("live")
        first.close()
        expect(page.get_by_text("The server does not answer.")).to_be_visible()
        with site({}, port) as (_, asked):
            expect(page.get_by_text("fusion open", exact=True)).to_be_visible()
            assert {authorization for _, authorization in asked} == {None}
            assert any(path == "/v1/inspector/renewals" for path, _ in asked)
        inspector.problems.clear()  # the refused connections
        pages.close()


BACK: Mapping[str, tuple[Mapping[str, str], Callable[[Page], None]]] = {
    "ask": ({"q": "where is the safe?"}, lambda page: expect(page.locator("main")).to_contain_text("behind the map")),
    "live": ({}, lambda page: expect(page.locator("main")).to_contain_text("where is the key?")),
    "memories": ({}, lambda page: expect(page.locator("main")).to_contain_text("behind the map")),
    "graph": ({}, lambda page: expect(page.locator("main")).to_contain_text("No entities are known yet.")),
    "timeline": ({}, lambda page: expect(page.locator("svg.chart")).to_be_visible()),
    "upkeep": ({}, lambda page: expect(page.get_by_role("row").nth(3)).to_be_visible()),
    "health": ({}, lambda page: expect(page.get_by_role("region", name="memory", exact=True)).to_be_visible()),
}
"""what is asked of each view, and what it shows when the server is back"""


@pytest.mark.feature(
    "… in every view", of="the inspector says when the server is away, and goes on by itself when it is back"
)
def test_every_view_waits_for_the_server(browser: Browser, tmp_path: Path) -> None:
    assert set(BACK) == set(VIEWS)
    home, port = small_home(tmp_path), free_port()
    with ExitStack() as first, ExitStack() as pages:
        first.enter_context(served(home, port))
        tabs = {view: pages.enter_context(opened(browser, home)) for view in BACK}
        stored(tabs["ask"], "The safe is behind the map.")
        shown = {view: tabs[view].show(view, **BACK[view][0]) for view in BACK if view != "ask"}
        shown["ask"] = tabs["ask"].show("ask")
        first.close()
        for page in shown.values():
            page.get_by_role("button", name="Light or dark").click()  # the page itself goes on
        for view in ("live", "health", "upkeep"):
            expect(shown[view].get_by_text("The server does not answer.")).to_be_visible()
        with served(home, port), Client.of_home(home) as memory:
            memory.fuse("where is the key?")
            for view, page in shown.items():
                parameters, is_back = BACK[view]
                expect(page.get_by_text("The server does not answer.")).to_have_count(0)
                if parameters:
                    tabs[view].show(view, **parameters)
                is_back(page)
            for tab in tabs.values():
                tab.problems.clear()  # the refused connections
            pages.close()


def edited(inspector: Inspector, ref: str, text: str) -> Page:
    """The page with a dialog in which a memory has this new text."""
    page = inspector.show(f"memories/{ref}")
    page.get_by_role("button", name="Edit").click()
    page.get_by_role("dialog").get_by_role("textbox").fill(text)
    return page


CONFLICT = "Somebody has changed this memory"


@pytest.mark.feature("of two people who edit one memory the second learns of it, also if both save at once")
@pytest.mark.parametrize("at_once", [False, True])
def test_second_of_two_editors_is_told(browser: Browser, home: Path, at_once: bool) -> None:
    with opened(browser, home) as ada, opened(browser, home) as eva:
        ref = stored(ada, f"The kettle is on the second floor ({at_once}).")
        of_ada = edited(ada, ref, f"The kettle is in the attic ({at_once}).")
        of_eva = edited(eva, ref, f"The kettle is in the cellar ({at_once}).")

        def save(page: Page) -> None:
            page.get_by_role("button", name="Save").click()

        def after_ada(route: Route, request: Request) -> None:
            if request.method == "PATCH":
                save(of_ada)
                expect(of_ada.get_by_role("dialog")).to_have_count(0)
            route.continue_()

        if at_once:  # Eva's page has looked at the memory, and Ada saves before Eva's change arrives
            of_eva.route("**/v1/memories/*", after_ada)
        else:
            save(of_ada)
            expect(of_ada.get_by_role("dialog")).to_have_count(0)
        save(of_eva)
        expect(of_eva.get_by_role("alert")).to_contain_text(CONFLICT)
        expect(of_eva.get_by_role("dialog").get_by_role("textbox")).to_have_value(
            f"The kettle is in the cellar ({at_once})."
        )
        texts = [one["text"] for one in ada.memory.memories(q=f"kettle ({at_once})")["memories"]]
        assert texts == [f"The kettle is in the attic ({at_once})."]
        eva.problems[:] = [said for said in eva.problems if "409" not in said]


@pytest.mark.feature("each tenant and each user sees their own only, in every view of the inspector")
def test_tenants_and_users_see_their_own_only(browser: Browser, tmp_path: Path) -> None:
    with ExitStack() as stack:
        url = stack.enter_context(served(small_home(tmp_path, WITH_KEYS)))
        pages = {tenant: stack.enter_context(page_of(browser, url, tenant)) for tenant in KEYS}
        for tenant, inspector in pages.items():
            for user in USERS:
                used_by(inspector, user, f"{tenant}{user}")
        for tenant, inspector in pages.items():
            others = [name for name in KEYS if name != tenant]
            for view, user in product(VIEWS, USERS):
                page = inspector.show(view, user=user, **({"q": "which safe is blue?"} if view == "ask" else {}))
                expect(page.locator(".waiting")).to_have_count(0)
                if view not in ("graph", "health"):
                    expect(page.locator("main")).to_contain_text(f"{tenant}{user}")
                said = page.locator("main").inner_text()
                assert not [word for word in (*others, *(u for u in USERS if u != user)) if word in said]


@contextmanager
def page_of(browser: Browser, url: str, tenant: str) -> Iterator[Inspector]:
    with Client(url, api_key=KEYS[tenant]) as memory, signed_in(browser, url, memory) as inspector:
        yield inspector


def used_by(inspector: Inspector, user: str, mark: str) -> None:
    """One user remembers, decides, proposes and asks; each text has the mark."""
    memory = inspector.memory
    ref = stored(inspector, f"The safe of {mark} is blue.", user_id=user)
    memory.set_state(ref, importance=0.5, why=f"as {mark} says", user_id=user)
    memory.propose({"text": f"The door of {mark} is red.", "user_id": user})
    memory.fuse(f"which safe has {mark}?", user_id=user)


def test_memory_of_another_user_or_tenant_is_not_shown_by_its_address(browser: Browser, tmp_path: Path) -> None:
    with (
        served(small_home(tmp_path, WITH_KEYS)) as url,
        page_of(browser, url, "acme") as acme,
        page_of(browser, url, "globex") as globex,
    ):
        ref = stored(acme, "The safe of Ada is blue.", user_id="ada")
        expect(acme.show(f"memories/{ref}", user="ada").locator("section.detail")).to_contain_text("safe of Ada")
        for inspector, user in ((acme, "zoe"), (globex, "ada"), (globex, "zoe")):
            page = inspector.show(f"memories/{ref}", user=user)
            expect(page.locator("section.detail").get_by_role("alert")).to_be_visible()
            expect(page.locator("main")).not_to_contain_text("safe of Ada")
            inspector.problems.clear()  # the refusals


@pytest.mark.feature("where several users have memories, the inspector offers them by name")
def test_users_are_offered_where_nobody_is_named(browser: Browser, home: Path) -> None:
    with opened(browser, home) as inspector:
        for user in USERS:
            stored(inspector, f"The bike of {user} is green.", user_id=user)
        page = inspector.show("ask", q="whose bike is green?")
        page.get_by_role("alert").get_by_role("button", name="zoe").click()
        expect(page.get_by_role("region", name="What the agent gets")).to_contain_text("bike of zoe")
        expect(page.get_by_role("region", name="What the agent gets")).not_to_contain_text("bike of ada")
        inspector.show("ask", q="whose bike is green?")
        page.get_by_role("alert").get_by_role("button", name="everybody's").click()
        expect(page.get_by_role("region", name="What the agent gets")).to_contain_text("bike of ada")
        inspector.problems.clear()  # the refused questions
