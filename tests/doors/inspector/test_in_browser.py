"""The inspector in a real Chromium, over the sample's memories in the four embedded systems: `make test-browser`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from fusion.client import Client, ensure_server
from fusion.doors.http.serve import listen
from fusion.trust import allow
from tests.browser import chromium, needs_chromium
from tests.doors.fakes import SMALL, server_stopped
from tests.doors.inspector.sample import ASKED, VIEWS, sample_home
from tests.doors.inspector.screenshots import FOLDER, pictures

pytestmark = [pytest.mark.browser, needs_chromium, pytest.mark.timeout(600)]
PATIENT_MS = 30_000
expect.set_options(timeout=PATIENT_MS)


@dataclass(frozen=True, slots=True)
class Inspector:
    """A signed-in page of the inspector, and the client of its home."""

    page: Page
    url: str
    memory: Client
    problems: list[str]
    """errors and warnings of the browser's console, and requests that were refused"""

    def show(self, view: str, **parameters: str) -> Page:
        self.page.goto(f"{self.url}/inspector/#/{view}" + (f"?{urlencode(parameters)}" if parameters else ""))
        expect(self.page.locator("main h1")).to_be_visible()
        return self.page


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = sample_home(tmp_path_factory.mktemp("sample"))
    with server_stopped(home):
        yield home


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as one:
        yield one


@pytest.fixture
def inspector(browser: Browser, home: Path) -> Iterator[Inspector]:
    with opened(browser, home) as inspector:
        yield inspector


@contextmanager
def opened(browser: Browser, home: Path, **context: Any) -> Iterator[Inspector]:
    """A page that is signed in by a link; no problem may be left in its console at the end."""
    url = ensure_server(home).url
    tab = browser.new_context(**{"viewport": {"width": 1380, "height": 900}, **context})
    tab.set_default_timeout(PATIENT_MS)
    tab.grant_permissions(["clipboard-read", "clipboard-write"])
    page = tab.new_page()
    memory = Client.of_home(home)
    problems: list[str] = []
    page.on("console", lambda said: problems.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(url + memory.inspector_link()["path"])
    expect(page.get_by_role("heading", name="Ask", exact=True)).to_be_visible()
    try:
        yield Inspector(page, url, memory, problems)
        assert problems == []
    finally:
        memory.close()
        tab.close()


def block_of(page: Page) -> str:
    return page.get_by_role("region", name="What the agent gets").locator("pre").inner_text()


def stored(inspector: Inspector, text: str, **fields: Any) -> str:
    """The ref of a new memory, once every backend has it."""
    [kept] = inspector.memory.remember([{"text": text, **fields}])["memories"]
    inspector.memory.settle(60)
    return str(kept["ref"])


@pytest.mark.feature("the inspector has seven views; axe finds nothing serious in them")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_view_is_drawn_and_accessible(browser: Browser, home: Path, view: str, scheme: str) -> None:
    with opened(browser, home, color_scheme=scheme) as inspector:
        page = inspector.show(view, **({"q": ASKED} if view == "ask" else {}))
        expect(page.locator(".waiting")).to_have_count(0)
        found = Axe().run(page).response["violations"]
        serious = [one for one in found if one["impact"] in ("serious", "critical")]
        assert [f"{one['id']}: {one['nodes'][0]['html']}" for one in serious] == []


@pytest.mark.feature(
    "… on a phone nothing is wider than the screen",
    of="the inspector has seven views; axe finds nothing serious in them",
)
@pytest.mark.parametrize("view", VIEWS)
def test_view_fits_a_phone(browser: Browser, home: Path, view: str) -> None:
    with opened(browser, home, viewport={"width": 380, "height": 760}) as inspector:
        page = inspector.show(view, **({"q": ASKED} if view == "ask" else {}))
        expect(page.locator(".waiting")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth") <= 380


@pytest.mark.feature("the inspector shows the block of a question, and each candidate with its reason")
def test_ask_shows_the_block_of_an_agent_and_every_reason(inspector: Inspector) -> None:
    page = inspector.show("ask")
    page.get_by_label("Question").fill(ASKED)
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.get_by_role("region", name="What the agent gets")).to_be_visible()
    nonce = re.compile(r'nonce="\w+"')
    assert nonce.sub("", block_of(page)) == nonce.sub("", inspector.memory.fuse(ASKED)["block"])
    for backend in ("markdown", "cortex", "mem0", "triples"):
        expect(page.locator(".answering").get_by_text(backend)).to_be_visible()
    assert page.get_by_text("Why in:").count() > 0
    page.get_by_role("tab", name=re.compile("Left out")).click()
    assert page.get_by_text("Why out:").count() > 0
    assert "show=out" in page.url


@pytest.mark.feature(
    "… sliders pack the block again from the recording",
    of="the inspector shows the block of a question, and each candidate with its reason",
)
def test_slider_packs_the_block_again(inspector: Inspector) -> None:
    page = inspector.show("ask", q=ASKED)
    expect(page.get_by_role("region", name="What the agent gets")).to_be_visible()
    before = block_of(page)
    page.get_by_text("What if?").click()
    page.get_by_label("Excerpts at most").fill("1")
    expect(page.get_by_text(re.compile("Packed again in"))).to_be_visible()
    after = block_of(page)
    assert 0 < len(after) < len(before)
    page.get_by_role("button", name="Reset").click()
    expect(page.get_by_role("region", name="What the agent gets").locator("pre")).to_have_text(before)


@pytest.mark.feature(
    "… says of what is missing whether it was left out, is only stored, or is nowhere",
    of="the inspector shows the block of a question, and each candidate with its reason",
)
def test_missing_memory_is_explained(inspector: Inspector) -> None:
    ref = stored(inspector, "The unicycle of Berit has a purple saddle.")
    page = inspector.show("ask", q=ASKED)
    answered = page.get_by_role("region", name="Missing something?")
    for words, said in (
        ("Postgres", "It is in the block"),
        ("purple saddle", "left out|no backend returned it"),
        ("a zeppelin of cheese", "No memory that you may see"),
    ):
        answered.get_by_role("textbox").fill(words)
        answered.get_by_role("button").click()
        expect(answered.get_by_text(re.compile(said))).to_be_visible()
    inspector.memory.forget(ref)


def test_vote_is_kept_with_the_answer(inspector: Inspector) -> None:
    page = inspector.show("ask", q=ASKED)
    page.get_by_role("button", name="Useful", exact=True).first.click()
    expect(page.get_by_text("Your vote is kept.")).to_be_visible()
    assert inspector.memory.labels()["labels"]


@pytest.mark.feature(
    "… two recipes side by side", of="the inspector shows the block of a question, and each candidate with its reason"
)
def test_two_recipes_are_compared(inspector: Inspector) -> None:
    page = inspector.show("ask", q=ASKED, b="seed003")
    expect(page.get_by_role("heading", name=re.compile("Arm B: seed003"))).to_be_visible()


@pytest.mark.feature("the inspector shows what agents ask as they ask, each with its receipt")
def test_live_shows_a_question_of_an_agent(inspector: Inspector) -> None:
    page = inspector.show("live")
    asked = "which hubs does the workshop order?"
    inspector.memory.fuse(asked)
    row = page.get_by_role("listitem").filter(has_text=asked)
    expect(row).to_be_visible()
    row.get_by_role("link").click()
    expect(page.get_by_role("region", name="Receipt")).to_contain_text(asked)


@pytest.mark.feature("the inspector lists all memories by filters that its address has, and shows one whole")
def test_memories_are_filtered_and_shown_whole(inspector: Inspector) -> None:
    page = inspector.show("memories")
    page.get_by_label("Words").fill("not like marzipan")
    rows = page.get_by_role("list", name="Memories").get_by_role("listitem")
    expect(rows).to_have_count(1)
    assert "q=not+like+marzipan" in page.url
    rows.get_by_role("link").click()
    detail = page.locator("section.detail")
    expect(detail).to_contain_text("Berit does not like marzipan")
    for tab, said in (("Copies", "cortex"), ("History", "Nothing was decided"), ("Around it", "marzipan")):
        detail.get_by_role("tab", name=tab).click()
        expect(detail).to_contain_text(said)


def test_edit_makes_a_new_version_and_tells_the_second_editor(inspector: Inspector) -> None:
    ref = stored(inspector, "The kettle is on the second floor.")
    page = inspector.show(f"memories/{ref}")
    page.get_by_role("button", name="Edit").click()
    page.get_by_role("dialog").get_by_role("textbox").fill("The kettle is in the cellar.")
    inspector.memory.update(ref, "The kettle is in the attic.")  # somebody else, meanwhile
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("Somebody has changed this memory")
    expect(page.get_by_role("dialog").get_by_role("textbox")).to_have_value("The kettle is in the cellar.")
    assert "attic" in str(inspector.memory.memories()["memories"])


def test_archive_can_be_undone_and_forget_previews(inspector: Inspector) -> None:
    ref = stored(inspector, "The blue ladder is lent to Ivar.")
    page = inspector.show(f"memories/{ref}")
    page.get_by_role("button", name="Archive").click()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Taken back.")).to_be_visible()
    assert "blue ladder" in inspector.memory.fuse("who has the blue ladder?")["block"]
    page.get_by_role("button", name="Forget", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("1 memory would be forgotten")
    page.keyboard.press("Escape")
    assert inspector.memory.memory(ref)["text"] == "The blue ladder is lent to Ivar."
    page.get_by_role("button", name="Forget", exact=True).click()
    expect(dialog).to_contain_text("1 memory would be forgotten")
    dialog.get_by_role("button", name="Forget").click()
    expect(page.get_by_text("Forgotten: 1.")).to_be_visible()
    assert "blue ladder" not in inspector.memory.fuse("who has the blue ladder?")["block"]


def test_bulk_action_previews_and_is_undone_as_one(inspector: Inspector) -> None:
    refs = [stored(inspector, f"The zither number {n} is in the loft.") for n in range(3)]
    page = inspector.show("memories", q="zither")
    boxes = page.get_by_label("Choose for a bulk action")
    expect(boxes).to_have_count(len(refs))
    for n in range(len(refs)):
        boxes.nth(n).check()
    page.get_by_role("button", name="Archive …").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("3 memories would change")
    assert all(not inspector.memory.memory(ref)["state"] for ref in refs)
    dialog.get_by_role("button", name="Archive").click()
    expect(dialog).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Taken back.")).to_be_visible()
    assert all(not inspector.memory.memory(ref)["state"].get("archived") for ref in refs)


HOSTILE = {
    "html": "<img src=x onerror=alert(1)><script>alert(2)</script><a href='javascript:alert(3)'>zqx</a> <b>zqx</b>",
    "ansi": "zqx \u001b[31mred\u001b[0m \u0007 \u009b2J",
    "bidi": "zqx \u202egnirts desrever\u202c \u2066isolate\u2069 \u200binvisible",
    "wide": "zqx " + "W" * 99_000,
    "template": "zqx ${alert(1)} {{constructor.constructor('alert(1)')()}} </textarea></script>",
}


@pytest.mark.feature("nothing that a memory says can run, load or reorder the page of the inspector")
def test_hostile_memories_stay_text(inspector: Inspector) -> None:
    asked: list[str] = []
    dialogs: list[str] = []
    refs = [stored(inspector, text) for text in HOSTILE.values()]
    page = inspector.page
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    inspector.show("memories", q="zqx")
    expect(page.get_by_role("list", name="Memories").get_by_role("listitem")).to_have_count(len(refs))
    assert page.evaluate("document.documentElement.scrollWidth") <= 1380
    for ref in refs:
        inspector.show(f"memories/{ref}")
        expect(page.locator("section.detail")).to_contain_text("zqx")
        assert page.locator("main img, main script, main b").count() == 0
        text = page.locator("section.detail .said").first.inner_text()
        assert not re.search("[\u001b\u0007\u009b\u202a-\u202e\u2066-\u2069\u200b]", text)
    inspector.show("ask", q="zqx string")
    expect(page.get_by_role("region", name="What the agent gets")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 1380
    assert (dialogs, [url for url in asked if not url.startswith(inspector.url)]) == ([], [])
    for ref in refs:
        inspector.memory.forget(ref)


@contextmanager
def served(home: Path, port: int) -> Iterator[None]:
    """A server of the home at this port."""
    command = [sys.executable, "-m", "fusion", "serve", "--home", str(home), "--port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as serving:
        assert serving.stderr is not None
        assert any(line.startswith("memory-fusion serves") for line in serving.stderr)
        try:
            yield
        finally:
            serving.terminate()


@pytest.mark.feature("the inspector says when the server is away, and goes on by itself when it is back")
def test_page_recovers_when_the_server_was_restarted(browser: Browser, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(SMALL)
    allow(home)
    with closing(listen("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    with ExitStack() as first, ExitStack() as pages:
        first.enter_context(served(home, port))
        inspector = pages.enter_context(opened(browser, home))
        page = inspector.show("memories")
        first.close()
        expect(page.get_by_text("The server does not answer.")).to_be_visible()
        with served(home, port):
            expect(page.get_by_text("The server does not answer.")).to_have_count(0)
            expect(page.get_by_role("heading", name="No memory fits.")).to_be_visible()
            inspector.problems.clear()  # the refused connections
            pages.close()


@pytest.mark.feature("a link that was used, and a session that has ended, say how to open the inspector again")
def test_used_link_and_ended_session_say_what_to_do(browser: Browser, home: Path) -> None:
    with opened(browser, home) as inspector, browser.new_context() as other:
        link = inspector.memory.inspector_link()["path"]
        page = other.new_page()
        page.goto(inspector.url + link)
        expect(page.locator("nav a").first).to_be_visible()
        with browser.new_context() as third:
            late = third.new_page()
            late.goto(inspector.url + link)
            expect(late.get_by_text("This link was used already")).to_be_visible()
            late.get_by_label("API key").fill("guessed")
            late.get_by_role("button", name="Sign in").click()
            expect(late.get_by_role("alert")).to_contain_text("does not know this key")
        page.evaluate("sessionStorage.setItem('memory-fusion', 'stale')")
        page.reload()
        expect(page.get_by_text("fusion open")).to_be_visible()


def test_keyboard_reaches_a_memory(inspector: Inspector) -> None:
    page = inspector.show("memories", q="not like marzipan")
    page.get_by_role("list", name="Memories").get_by_role("link").focus()
    page.keyboard.press("Enter")
    expect(page.locator("section.detail")).to_contain_text("marzipan")


def test_view_copies_the_command_that_does_the_same(inspector: Inspector) -> None:
    page = inspector.show("ask", q=ASKED)
    page.get_by_role("button", name="Copy command").first.click()
    assert page.evaluate("navigator.clipboard.readText()") == f"fusion fuse '{ASKED}' -v"


def test_jobs_run_and_conflicts_are_decided(inspector: Inspector) -> None:
    page = inspector.show("upkeep")
    row = page.get_by_role("row").filter(has_text=re.compile("^checks"))
    row.get_by_role("button", name="Try").click()
    expect(page.get_by_role("dialog")).to_contain_text("dry_run")
    page.keyboard.press("Escape")
    conflict = page.locator("article").filter(has_text="conflict").first
    conflict.get_by_role("button").first.click()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Taken back.")).to_be_visible()


def test_graph_shows_what_stands_around_an_entity(inspector: Inspector) -> None:
    page = inspector.show("graph", entity="Postgres", to="Berit", show="list")
    expect(page.get_by_role("table")).to_contain_text("SQLite")
    expect(page.get_by_text("Postgres ← links to ← Roadmap → links to → Berit")).to_be_visible()
    page.get_by_role("tab", name="As a picture").click()
    expect(page.locator("canvas")).to_be_visible()


@pytest.mark.feature("each picture of docs/inspector.md is taken of the sample, and shown there")
def test_pictures_of_the_page_can_be_taken(browser: Browser, home: Path) -> None:
    taken = dict(pictures(browser, home))
    page = (FOLDER.parent / "inspector.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"\(inspector/([\w-]+)\.jpg\)", page))
    assert shown == set(taken) == {file.stem for file in FOLDER.iterdir()}
    assert all(len(picture) > 10_000 for picture in taken.values())
