"""The inspector in a real Chromium, over the sample's memories in the four embedded systems: `make test-browser`."""

from __future__ import annotations

import re
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Route, expect

from fusion.doors.http.serve import listen
from fusion.trust import allow
from tests.browser import needs_chromium
from tests.doors.fakes import SMALL, server_stopped
from tests.doors.inspector.pages import (
    Inspector,
    assert_accessible,
    block_of,
    opened,
    serious_findings,
    served,
    stored,
    without_nonce,
)
from tests.doors.inspector.sample import ASKED, VIEWS
from tests.doors.inspector.screenshots import FOLDER, pictures

pytestmark = [pytest.mark.browser, needs_chromium, pytest.mark.timeout(600)]


@pytest.mark.feature("the inspector has seven views; axe finds nothing serious in them")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_view_is_drawn_and_accessible(browser: Browser, home: Path, view: str, scheme: str) -> None:
    with opened(browser, home, color_scheme=scheme) as inspector:
        page = inspector.show(view, **({"q": ASKED} if view == "ask" else {}))
        expect(page.locator(".waiting")).to_have_count(0)
        assert serious_findings(page) == []


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


PHONE = {"width": 390, "height": 844}
ONE_LINE_PX = 30


@pytest.mark.feature(
    "… each row on its own lines, no word broken into letters",
    of="the inspector has seven views; axe finds nothing serious in them",
)
def test_rows_and_tables_are_readable_on_a_phone(browser: Browser, home: Path) -> None:
    with opened(browser, home, viewport=PHONE) as inspector:
        inspector.memory.fuse(ASKED, asker={"session_id": "on-the-phone"})
        for view in ("live", "memories"):
            page = inspector.show(view)
            expect(page.locator(".rows .item").first).to_be_visible()
            heights = page.locator(".rows .under > *").evaluate_all("all => all.map((one) => one.offsetHeight)")
            assert heights
            assert max(heights) <= ONE_LINE_PX
        page = inspector.show("upkeep")
        job = page.get_by_role("cell").get_by_text("consolidation", exact=True)
        expect(job).to_be_visible()
        box = job.bounding_box()
        assert box is not None
        assert box["height"] <= ONE_LINE_PX


@pytest.mark.feature(
    "… what is opened is in sight there, and whose memories are shown can be chosen",
    of="the inspector has seven views; axe finds nothing serious in them",
)
def test_opened_memory_is_in_sight_on_a_phone(browser: Browser, home: Path) -> None:
    with opened(browser, home, viewport=PHONE) as inspector:
        page = inspector.show("memories")
        page.locator(".rows .item a").nth(3).click()
        expect(page.locator(".detail h2")).to_be_in_viewport()
        expect(page.get_by_role("button", name="Edit", exact=True)).to_be_in_viewport()
        page = inspector.show("live")
        inspector.memory.fuse(ASKED)
        page.locator(".rows .item a").first.click()
        expect(page.get_by_role("region", name="Receipt").get_by_role("heading")).to_be_in_viewport()
        for shown in (page.get_by_label("Whose memories"), page.get_by_role("button", name="Sign out")):
            expect(shown).to_be_visible()


@pytest.mark.parametrize("size", [PHONE, {"width": 1280, "height": 720}])
def test_preview_of_many_memories_leaves_its_buttons_in_sight(
    browser: Browser, home: Path, size: dict[str, int]
) -> None:
    with opened(browser, home, viewport=size) as inspector:
        page = inspector.show("memories")
        page.get_by_label("Choose all 100").check()
        page.get_by_role("button", name="Trust, importance …").click()
        page.get_by_role("dialog").get_by_label("Importance").fill("0.9")
        expect(page.get_by_role("dialog")).to_contain_text("100 memories would change")
        expect(page.get_by_role("button", name="Apply")).to_be_in_viewport()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)


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
    page.get_by_role("button", name=re.compile("^Show all .* candidates$")).click()
    left_out = inspector.memory.receipt(inspector.memory.fuse(ASKED)["receipt_id"])["candidates"]
    expect(page.get_by_text("Why out:")).to_have_count(sum(one["decision"] != "packed" for one in left_out))


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
    expect(page).to_have_url(re.compile("knobs=max_results%3A1"))
    page.reload()  # a link has what the sliders say
    page.get_by_text("What if?").click()
    expect(page.get_by_label("Excerpts at most")).to_have_value("1")
    expect(page.get_by_text(re.compile("Packed again in"))).to_be_visible()
    assert without_nonce(block_of(page)) == without_nonce(after)
    page.get_by_role("button", name="Reset").click()
    expect(page.get_by_text(re.compile("Packed again in"))).not_to_be_visible()
    assert without_nonce(block_of(page)) == without_nonce(before)


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


@pytest.mark.feature(
    "… from the first screen, also if its words stand far down in its text",
    of="the inspector shows the block of a question, and each candidate with its reason",
)
def test_missing_memory_is_explained_from_the_first_screen(browser: Browser, home: Path) -> None:
    with opened(browser, home, viewport={"width": 1280, "height": 860}) as inspector:
        ref = stored(inspector, f"About SQLite. {'We baked buns and ate them all. ' * 30} A heron stood on the roof.")
        page = inspector.show("ask")
        page.get_by_role("button", name="Why did we leave SQLite?").click()
        expect(page.get_by_role("region", name="What the agent gets")).to_be_visible()
        asked = page.get_by_role("region", name="Missing something?").get_by_role("textbox")
        expect(asked).to_be_in_viewport(ratio=1)
        assert ref in {one["ref"] for one in inspector.memory.fuse(ASKED, explain=True)["explain"]["candidates"]}
        asked.fill("heron on the roof")
        page.get_by_role("button", name="Look for it").click()
        answered = page.get_by_role("region", name="Missing something?")
        expect(answered).to_contain_text("It was found and left out, since")
        answered.get_by_role("link", name=ref).click()
        expect(page.locator("section.detail")).to_contain_text("About SQLite")
        inspector.memory.forget(ref)


@pytest.mark.feature(
    "… in a home without memories it says how to remember something",
    of="the inspector shows the block of a question, and each candidate with its reason",
)
def test_empty_home_says_how_to_begin(browser: Browser, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(SMALL)
    allow(home)
    with server_stopped(home), opened(browser, home) as inspector:
        page = inspector.show("ask")
        expect(page.get_by_text("Nothing is remembered yet.")).to_be_visible()
        stored(inspector, "We deploy on Tuesdays.")
        expect(page.get_by_text("Nothing asked yet.")).to_be_visible()


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


def test_facts_of_a_memory_lead_to_the_graph(inspector: Inspector) -> None:
    ref = stored(inspector, "Berit Solheim works for Hjulhuset.")
    facts = inspector.memory.why(ref)["facts"]
    assert facts
    page = inspector.show(f"memories/{ref}", tab="around")
    page.locator("section.detail").get_by_role("link", name=facts[0]["subject"], exact=True).click()
    expect(page).to_have_url(re.compile(r"#/graph\?entity="))


@pytest.mark.parametrize("knobs", ["max_results:<b>,a", "__proto__:1,constructor:2", "max_results:NaN,:3"])
def test_sliders_of_a_wrong_address_are_left_alone(inspector: Inspector, knobs: str) -> None:
    page = inspector.show("ask", q=ASKED, knobs=knobs)
    page.get_by_text("What if?").click()
    page.get_by_label("Excerpts at most").fill("1")
    expect(page.get_by_text(re.compile("Packed again in"))).to_be_visible()  # and nothing that the server refuses


def test_clearing_the_filters_keeps_whose_memories_are_shown(inspector: Inspector) -> None:
    page = inspector.show("memories", user="ana", kind="rule")
    page.get_by_text("More", exact=True).click()
    page.get_by_role("button", name="Clear filters").click()
    expect(page).to_have_url(re.compile(r"#/memories\?user=ana$"))


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


def test_edit_can_be_undone(inspector: Inspector) -> None:
    ref = stored(inspector, "The red kayak is in shed four.")
    page = inspector.show(f"memories/{ref}")
    page.get_by_role("button", name="Edit").click()
    page.get_by_role("dialog").get_by_role("textbox").fill("The red kayak is in shed five.")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.get_by_text("An older version.")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Taken back.")).to_be_visible()
    expect(page.get_by_text("An older version.")).to_have_count(0)
    assert inspector.memory.memory(ref)["current"] is True


def test_archive_can_be_undone_and_forget_previews(inspector: Inspector) -> None:
    ref = stored(inspector, "The blue ladder is lent to Ivar.")
    page = inspector.show(f"memories/{ref}")
    page.get_by_role("button", name="Archive").click()
    expect(page.get_by_role("region", name=ref).get_by_text("archived", exact=True)).to_be_visible()
    assert "blue ladder" not in inspector.memory.fuse("who has the blue ladder?")["block"]
    page.get_by_role("button", name="Revive").click()
    expect(page.get_by_text("Revived.")).to_be_visible()
    assert inspector.memory.memory(ref)["state"].get("ended") is None
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


@pytest.mark.feature(
    "bulk actions of the inspector (archive, revive, trust, importance) preview first, and are undone as one"
)
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
    assert all(not inspector.memory.memory(ref)["state"].get("ended") for ref in refs)
    for ref in refs:
        inspector.memory.forget(ref)


def test_bulk_trust_importance_and_revive_preview_and_are_undone(inspector: Inspector) -> None:
    refs = [stored(inspector, f"The dulcimer number {n} is in the cellar.") for n in range(3)]
    trusts = [inspector.memory.memory(ref)["trust"] for ref in refs]
    page = inspector.show("memories", q="dulcimer")
    page.get_by_label("Choose all 3").check()
    page.get_by_role("button", name="Trust, importance …").click()
    dialog = page.get_by_role("dialog")
    apply = dialog.get_by_role("button", name="Apply")
    expect(apply).to_be_disabled()  # nothing would change yet
    dialog.get_by_label("Trust").select_option("untrusted")
    dialog.get_by_label("Importance").fill("0.9")
    expect(dialog).to_contain_text("3 memories would change")
    expect(dialog).to_contain_text("→ untrusted")
    expect(dialog).to_contain_text("→ 0.9")
    expect(dialog).to_contain_text("The dulcimer number 2")
    assert_accessible(page)
    dialog.get_by_role("button", name="Copy curl").click()
    assert '"dry_run":true' in page.evaluate("navigator.clipboard.readText()")
    assert [inspector.memory.memory(ref)["trust"] for ref in refs] == trusts
    dialog.get_by_label("Importance").fill("7")
    expect(dialog.get_by_role("alert")).to_be_visible()
    expect(apply).to_be_disabled()
    dialog.get_by_label("Importance").fill("0.8")
    dialog.get_by_label("Reason").fill("they are hearsay")
    apply.click()
    expect(dialog).to_have_count(0)
    changed = [inspector.memory.memory(ref) for ref in refs]
    assert [(one["trust"], one["state"]["importance"]) for one in changed] == [("untrusted", 0.8)] * 3
    assert inspector.memory.decisions(ref=refs[0])["decisions"][0]["why"] == "they are hearsay"
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Taken back.")).to_be_visible()
    changed = [inspector.memory.memory(ref) for ref in refs]
    assert [one["trust"] for one in changed] == trusts
    assert not any("importance" in one["state"] for one in changed)

    for ref in refs[:2]:
        inspector.memory.set_state(ref, archived=True)
    page = inspector.show("memories", q="dulcimer", state="all")
    page.get_by_label("Choose all 3").check()
    page.get_by_role("button", name="Revive …").click()
    expect(dialog).to_contain_text("2 memories would change, 1 would not")
    dialog.get_by_role("button", name="Revive").click()
    expect(dialog).to_have_count(0)
    assert not any(inspector.memory.memory(ref)["state"].get("ended") for ref in refs)
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Taken back.")).to_be_visible()
    assert [inspector.memory.memory(ref)["state"].get("ended") for ref in refs] == ["archived", "archived", None]
    inspector.problems[:] = [said for said in inspector.problems if "422" not in said]  # an importance of 7
    for ref in refs:
        inspector.memory.forget(ref)


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


@pytest.mark.feature(
    "… also if it was started again while the page asked nothing",
    of="the inspector says when the server is away, and goes on by itself when it is back",
)
def test_page_goes_on_with_a_server_that_it_never_missed(browser: Browser, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(SMALL)
    allow(home)
    with closing(listen("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    waiting: list[Route] = []

    def wait(request: Route) -> None:
        waiting.append(request)

    with ExitStack() as first, ExitStack() as pages:
        first.enter_context(served(home, port))
        inspector = pages.enter_context(opened(browser, home))
        page = inspector.show("memories")
        page.route("**/v1/**", wait)
        page.get_by_role("link", name="Timeline").click()
        expect(page.get_by_role("heading", name="Timeline")).to_be_visible()
        first.close()
        with served(home, port):
            page.unroute_all()  # what waits goes on
            expect(page.locator("svg.chart")).to_be_visible()
            expect(page.get_by_label("API key")).to_have_count(0)
            inspector.problems.clear()  # the refused tokens
            pages.close()


def test_missing_memory_that_is_archived_or_edited_says_so(inspector: Inspector) -> None:
    archived = stored(inspector, "The violet trombone is kept in the attic.")
    inspector.memory.set_state(archived, archived=True)
    edited = stored(inspector, "The copper tuba is kept in the barn.")
    inspector.memory.update(edited, "The copper horn is kept in the barn.")
    page = inspector.show("ask", q=ASKED)
    panel = page.get_by_role("region", name="Missing something?")
    for words, state in (("violet trombone", "archived"), ("copper tuba", "superseded")):
        panel.get_by_role("textbox").fill(words)
        panel.get_by_role("button").click()
        expect(panel).to_contain_text("its state keeps it out of answers")
        expect(panel).to_contain_text(f"{state} The {words}")
    for ref in (archived, edited):
        inspector.memory.forget(ref)


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
        kept = {"authorization": "Bearer " + page.evaluate("sessionStorage.getItem('memory-fusion')")}
        page.evaluate("localStorage.setItem('memory-fusion-questions', '[]')")
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_text("fusion open")).to_be_visible()
        assert page.evaluate("localStorage.getItem('memory-fusion-questions')") is None  # the next person's are others
        assert httpx.get(f"{inspector.url}/v1/status", headers=kept).status_code == 401
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
    expect(page.locator(".canvas[aria-busy=false] canvas[data-drawn]")).to_be_visible()


@pytest.mark.feature("each picture of docs/inspector.md is taken of the sample, and shown there")
def test_pictures_of_the_page_can_be_taken(browser: Browser, home: Path) -> None:
    taken = dict(pictures(browser, home))
    page = (FOLDER.parent / "inspector.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"\(inspector/([\w-]+)\.jpg\)", page))
    assert shown == set(taken) == {file.stem for file in FOLDER.iterdir()}
    assert all(len(picture) > 10_000 for picture in taken.values())
