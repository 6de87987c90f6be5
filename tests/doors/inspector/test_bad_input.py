"""The inspector with hostile memories in every view, and with backends that lie: in a real Chromium."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from fusion.client import Client, ensure_server
from fusion.trust import allow
from tests.browser import needs_chromium
from tests.doors.fakes import server_stopped
from tests.doors.inspector import wild
from tests.doors.inspector.pages import UNSEEN, Inspector, Watched, block_of, opened, stored

pytestmark = [pytest.mark.browser, needs_chromium, pytest.mark.timeout(600)]
WIDTH = 1380


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home whose memories, ids, decisions, proposals, facts, questions and backend are hostile."""
    home = home_with(tmp_path_factory.mktemp("wild"), wild.SETTINGS)
    with server_stopped(home):
        ensure_server(home)
        with Client.of_home(home) as memory:
            wild.fill(memory)
        yield home


def home_with(folder: Path, settings: str) -> Path:
    home = folder / "home"
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(settings, encoding="utf-8")
    allow(home)
    return home


@pytest.fixture
def watched(inspector: Inspector) -> Watched:
    return Watched.of(inspector.page, inspector.url)


def looks_safe(page: Page, watched: Watched) -> None:
    """Nothing ran, loaded or went elsewhere; no markup became an element; nothing is hidden, reordered or too wide."""
    expect(page.locator(".waiting")).to_have_count(0)
    assert watched.nothing, watched
    assert page.evaluate(_MADE) == []
    assert UNSEEN.findall(page.evaluate(_READABLE)) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTH


_MADE = """() => [...document.querySelectorAll(
  "#app img:not(.brand img), #app script, #app iframe, #app b, #app link, #app meta, #app object, #app embed, #app base"
)].map((one) => one.outerHTML).concat(
  [...document.querySelectorAll("#app *")].flatMap((one) => [...one.attributes]
    .filter(({ name, value }) => /^on/.test(name) || (["href", "src"].includes(name) && !/^(#|icon.svg)/.test(value)))
    .map((at) => `${at.name}=${at.value}`)))"""
_READABLE = """() => [document.title, document.body.innerText, ...[...document.querySelectorAll("#app *")]
  .flatMap((one) => ["title", "aria-label", "placeholder"].map((name) => one.getAttribute(name) ?? ""))].join("\\n")"""
ADDRESSES = {
    "ask, in the block": ("ask", {"q": f"what is {wild.WORD} {wild.HTML}"}),
    "ask, left out": ("ask", {"q": wild.WORD, "show": "out"}),
    "ask, by backend": ("ask", {"q": wild.WORD, "show": "backends"}),
    "ask, compared": ("ask", {"q": wild.WORD, "b": "seed003"}),
    "ask, bidi": ("ask", {"q": wild.TEXTS["bidi"]}),
    "live": ("live", {}),
    "live, one session": ("live", {"session": wild.NAME}),
    "memories": ("memories", {"q": wild.WORD}),
    "memories, one source": ("memories", {"source": wild.NAME}),
    "graph": ("graph", {}),
    "graph, around one": ("graph", {"entity": wild.NAME, "to": wild.OWNED, "show": "list"}),
    "graph, no such": ("graph", {"entity": wild.HTML[:100], "to": wild.NAME, "show": "list"}),
    "timeline": ("timeline", {}),
    "upkeep": ("upkeep", {}),
    "health": ("health", {}),
}
"""what each view is asked for; all of it answers with hostile words"""
DRAWN = {"graph"}
"""those that draw the words on a canvas"""


@pytest.mark.feature(
    "nothing that a memory says can run, load, navigate or reorder the page of the inspector, in any view"
)
@pytest.mark.parametrize("address", ADDRESSES)
def test_hostile_words_stay_text_in_every_view(inspector: Inspector, watched: Watched, address: str) -> None:
    view, parameters = ADDRESSES[address]
    page = inspector.show(view, **parameters)
    expect(page.locator("main canvas") if address in DRAWN else page.locator("main")).to_be_visible()
    if address not in DRAWN:
        expect(page.locator("main")).to_contain_text(wild.WORD)
    looks_safe(page, watched)


@pytest.mark.feature(
    "… nor in one memory, its history and its neighbours",
    of="nothing that a memory says can run, load, navigate or reorder the page of the inspector, in any view",
)
@pytest.mark.parametrize("hostile", wild.TEXTS)
def test_hostile_memory_is_shown_whole(inspector: Inspector, watched: Watched, hostile: str) -> None:
    ref = f"m{1 + [*wild.TEXTS].index(hostile)}"
    page = inspector.show(f"memories/{ref}")
    detail = page.locator("section.detail")
    expect(detail).to_contain_text(wild.WORD)
    looks_safe(page, watched)
    for tab in ("Where it was used", "History", "Around it", "Copies"):
        detail.get_by_role("tab", name=tab).click()
        looks_safe(page, watched)
    for button in ("Edit", "Forget"):
        detail.get_by_role("button", name=button, exact=True).click()
        expect(page.get_by_role("dialog")).to_be_visible()
        looks_safe(page, watched)
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.feature(
    "… nor in the receipt of an answer",
    of="nothing that a memory says can run, load, navigate or reorder the page of the inspector, in any view",
)
def test_hostile_receipt_stays_text(inspector: Inspector, watched: Watched) -> None:
    page = inspector.show("live")
    for row in page.get_by_role("listitem").all()[:6]:
        row.get_by_role("link").click()
        expect(page.get_by_role("region", name="Receipt")).to_contain_text("characters")
        looks_safe(page, watched)


@pytest.mark.feature(
    "… nor by an address that somebody else has made",
    of="nothing that a memory says can run, load, navigate or reorder the page of the inspector, in any view",
)
@pytest.mark.parametrize(
    "made",
    [
        "<img src=x onerror=alert(1)>",
        "memories/<img src=x onerror=alert(1)>",
        "ask?user=<img src=x onerror=alert(1)>&recipe=<b>x</b>&backends=<b>y</b>&q=zqx",
        "live/%3Cscript%3Ealert(1)%3C/script%3E?session=<b>x</b>",
        "__proto__",
        "constructor?__proto__=1",
        "javascript:alert(1)",
        "memories/%E0%A4%A",
    ],
)
def test_made_address_does_no_harm(browser: Browser, home: Path, made: str) -> None:
    with opened(browser, home) as inspector:
        page = inspector.page
        watched = Watched.of(page, inspector.url)
        page.goto(f"{inspector.url}/inspector/#/{made}")
        page.reload()
        expect(page.locator("main")).not_to_be_empty()
        looks_safe(page, watched)
        inspector.problems[:] = [said for said in inspector.problems if not said.startswith("Failed to load resource")]


PASTED = f"{wild.WORD} it's \\ \u001b[201~\n; echo ran \u202egnirts\u0007"


@pytest.mark.feature("a command that the inspector copies has nothing that a terminal would obey when it is pasted")
def test_copied_command_is_safe_to_paste(inspector: Inspector) -> None:
    page = inspector.show("ask", q=PASTED)
    for button, word in (("Copy command", 2), ("Copy curl", -1)):
        page.get_by_role("button", name=button).first.click()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert not UNSEEN.search(copied)
        assert "\n" not in copied
        argued = subprocess.check_output(["bash", "-c", f"printf '%s\\0' {copied}"], env={"LC_ALL": "C.UTF-8"})
        said = argued.decode().split("\0")[:-1][word]
        assert (json.loads(said)["query"] if said.startswith("{") else said) == PASTED


@pytest.mark.feature(
    "… with moved sliders",
    of="a command that the inspector copies has nothing that a terminal would obey when it is pasted",
)
def test_copied_call_of_sliders_is_safe_to_paste(inspector: Inspector, tmp_path: Path) -> None:
    """Names of weights are from the address, which anybody may have written: the recipe's are in the call alone."""
    name = "it's\"$(echo ran >&2)`id` \\\u202e\n"
    page = inspector.show("ask", q=PASTED, knobs=f"{name}:2,max_results:3")
    page.get_by_role("button", name="Copy curl").first.click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert not UNSEEN.search(copied)
    assert "\n" not in copied
    noted = tmp_path / "noted"
    script = (
        f'fusion() {{ echo t; }}; curl() {{ printf \'%s\\0\' "$@" >> {noted}; echo \'"recording":"r1"}}\'; }}; {copied}'
    )
    run = subprocess.run(
        ["bash", "-c", script],
        env={"LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not run.stderr
    asked, replayed = (json.loads(word) for word in noted.read_bytes().decode().split("\0") if word.startswith("{"))
    assert asked["query"] == PASTED
    assert replayed == {"recording": "r1", "max_results": 3}


BROKEN_BYTES = b'{"found": [{"key": "n1", "said": "the ferry to zqx leaves at noon \xff\xfe\xc3\x28\\u001b[31m"}]}'
NO_JSON = b"\x1f\x8b\x00\xff\xfe not json <img src=x onerror=alert(7)>"
REMOTE = """
backends_only = true
[embedder]
adapter = ""
[backends.memory]
adapter = "adapters.inmemory:InMemory"
deadline_ms = 60000
[backends.far]
adapter = "adapters.http:HttpMemory"
url = "{url}"
path = "/find"
body = {{ query = "{{query}}", whose = "{{user_id}}" }}
items = ["found"]
fields = {{ native_id = "key", text = "said" }}
filters = ["user_id"]
deadline_ms = 60000
"""


@contextmanager
def answering(body: bytes) -> Iterator[str]:
    """The address of a server that answers every request with these bytes as JSON."""

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.feature("the inspector shows what a backend's server did wrong, and the answer of the others")
@pytest.mark.parametrize(
    ("body", "said", "found"),
    [
        pytest.param(BROKEN_BYTES, "Corrected or dropped: invisible", True, id="bytes that are no UTF-8"),
        pytest.param(NO_JSON, "the reply is not JSON", False, id="bytes that are no JSON"),
    ],
)
def test_broken_bytes_of_a_backend_cost_its_own_answer_only(
    browser: Browser, tmp_path: Path, body: bytes, said: str, found: bool
) -> None:
    with answering(body) as url:
        home = home_with(tmp_path, REMOTE.format(url=url))
        with server_stopped(home), opened(browser, home) as inspector:
            stored(inspector, "The ferry to zqx has a red funnel.", user_id="ada")
            watched = Watched.of(inspector.page, inspector.url)
            page = inspector.show("ask", q="when does the ferry to zqx leave?", user="ada")
            expect(page.get_by_role("region", name="What the agent gets")).to_be_visible()
            expect(page.locator(".answering")).to_contain_text(said)
            assert "red funnel" in block_of(page)
            assert ("leaves at noon \ufffd" in block_of(page)) is found
            looks_safe(page, watched)
