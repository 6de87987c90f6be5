"""What the inspector's views show, in a real Chromium over the sample's memories."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from fusion.trust import allow
from tests.browser import needs_chromium
from tests.doors.fakes import SMALL, server_stopped
from tests.doors.inspector.pages import (
    UNSEEN,
    Inspector,
    Watched,
    assert_accessible,
    opened,
    stored,
    without_nonce,
)
from tests.doors.inspector.sample import ASKED, VIEWS
from tests.upkeep.test_shepherd import BASELINE

OF_READER = "a reader's key"
pytestmark = [pytest.mark.browser, needs_chromium, pytest.mark.timeout(600)]


@pytest.mark.feature("the inspector shows what was put into a session, turn by turn, with the tokens spent and saved")
def test_session_is_shown_turn_by_turn(inspector: Inspector) -> None:
    questions = (ASKED, "who is responsible for the workshop?")
    for question in questions:
        inspector.memory.fuse(question, asker={"session_id": "by-turns"})
    answers = inspector.memory.receipts(session_id="by-turns")["receipts"]
    page = inspector.show("live")
    page.get_by_label("Session").fill("by-turns")
    page.get_by_label("Session").press("Enter")
    turns = page.get_by_role("region", name="Turn by turn")
    expect(turns.get_by_role("listitem").filter(has_text="Turn 1")).to_contain_text(questions[0])
    last = turns.get_by_role("listitem").filter(has_text="Turn 2")
    expect(last).to_contain_text(questions[1])
    expect(last).to_contain_text(f"{answers[0]['tokens']} tokens spent")
    expect(last).to_contain_text(f"{answers[0]['candidate_tokens'] - answers[0]['tokens']:,} saved")
    last.get_by_text("What was put in").click()
    expect(last).to_contain_text(inspector.memory.memory(answers[0]["refs"][0])["text"][:30])
    assert_accessible(page)
    last.get_by_role("link", name="Receipt").click()
    expect(page.get_by_role("region", name="Receipt")).to_contain_text(questions[1])
    assert "session=by-turns" in page.url


@pytest.mark.feature(
    "… of everybody, in every view", of="the inspector has seven views; axe finds nothing serious in them"
)
@pytest.mark.parametrize("view", VIEWS)
def test_view_shows_everybodys(inspector: Inspector, view: str) -> None:
    page = inspector.show(view, user="*", **({"q": ASKED} if view == "ask" else {}))
    expect(page.locator(".waiting")).to_have_count(0)
    page.wait_for_load_state("networkidle")
    expect(page.get_by_role("alert")).to_have_count(0)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Path]:
    """A small home whose workspace has a MEMORY.md."""
    home, agent = tmp_path / "home", (tmp_path / "agent").resolve()
    home.mkdir(mode=0o700)
    agent.mkdir()
    (agent / "MEMORY.md").write_text(BASELINE)
    reader = f'[[server.keys]]\nname = "eva"\nsha256 = "{sha256(OF_READER.encode()).hexdigest()}"\nrole = "reader"\n'
    (home / "fusion.toml").write_text(f'{SMALL}[workspace]\nwrite = true\nroot_folder = "{agent}"\n{reader}')
    allow(home)
    with server_stopped(home):
        yield home


@pytest.mark.feature(
    "… by clicking, after a preview",
    of="the inspector shows MEMORY.md against its baseline, promotes and restores it, and both can be undone",
)
def test_memory_md_is_promoted_and_restored(browser: Browser, guarded: Path) -> None:
    file = guarded.parent / "agent" / "MEMORY.md"
    with opened(browser, guarded) as inspector:
        page = inspector.show("upkeep")
        panel = page.get_by_role("region", name="MEMORY.md")
        expect(panel).to_contain_text("no baseline yet")
        panel.get_by_role("button", name="Promote").click()
        expect(page.get_by_role("dialog")).to_contain_text("+- Never deploy on a Friday.")
        page.get_by_role("dialog").get_by_role("button", name="Promote").click()
        expect(panel).to_contain_text("as its baseline")

        file.write_text(BASELINE.replace("Never deploy", "Deploy"))
        page.reload()
        expect(panel).to_contain_text("differs from its baseline")
        assert_accessible(page)
        panel.get_by_role("button", name="Restore").click()
        page.get_by_role("dialog").get_by_role("button", name="Restore").click()
        expect(panel).to_contain_text("as its baseline")
        assert file.read_text() == BASELINE
        page.get_by_role("button", name="Undo").click()
        expect(panel).to_contain_text("differs from its baseline")
        assert "- Deploy on a Friday." in file.read_text()

        panel.get_by_role("button", name="Promote").click()
        page.get_by_role("dialog").get_by_role("button", name="Promote").click()
        expect(panel).to_contain_text("as its baseline")
        panel.get_by_role("button", name="Go back").click()
        page.get_by_role("dialog").get_by_role("button", name="Go back").click()
        expect(panel).to_contain_text("differs from its baseline")


@pytest.mark.feature("the inspector of a reader has the buttons off that its key may not use, and says why")
def test_reader_is_shown_no_button_that_is_refused(browser: Browser, guarded: Path) -> None:
    with opened(browser, guarded) as inspector:
        ref = stored(inspector, "The harbour master is called Marta.")
        link = httpx.post(
            f"{inspector.url}/v1/inspector/links", json={}, headers={"authorization": f"Bearer {OF_READER}"}
        ).json()["path"]
        page = inspector.page
        page.goto("about:blank")
        page.goto(inspector.url + link)
        inspector.show(f"memories/{ref}")
        expect(page.get_by_text("Your key is a reader")).to_be_visible()
        for name in ("Edit", "Archive", "Forget"):
            button = page.get_by_role("button", name=re.compile(f"^{name} \\(needs a key with the role"))
            expect(button).to_be_disabled()
        assert_accessible(page)
        for view in VIEWS:
            inspector.show(view, **({"q": "who is the harbour master?"} if view == "ask" else {}))
            expect(page.locator(".waiting")).to_have_count(0)
            page.wait_for_load_state("networkidle")
            expect(page.get_by_role("alert")).to_have_count(0)


@pytest.mark.feature("the inspector shows what backends and recipes were worth, how a home grew, and what models cost")
def test_health_shows_worth_votes_growth_and_models(inspector: Inspector) -> None:
    answer = inspector.memory.fuse(ASKED)
    ref = answer["memories"][0]["members"][0]["ref"]
    inspector.memory.fuse("who is responsible for the workshop?")
    inspector.memory.feedback(answer["receipt_id"], useful=[ref])
    page = inspector.show("health", answers="50")
    expect(page.get_by_role("img", name=re.compile("^Times of markdown"))).to_be_visible()
    expect(page.get_by_text(re.compile("Breaker and backlog")).first).to_be_visible()
    votes = page.get_by_role("region", name="Recipes by your votes")
    expect(votes.get_by_role("row").nth(1)).to_contain_text(answer["recipe"]["name"])
    stored = sum(inspector.memory.status()["memories"][name] for name in ("current", "superseded"))
    expect(page.get_by_role("region", name="Growth")).to_contain_text(f"to {stored} memories in 90 days")
    expect(page.get_by_role("region", name="Models")).to_contain_text("No judge and no model is used.")
    assert_accessible(page)
    page.get_by_label("Over").select_option("1000")
    assert "answers=1000" in page.url
    inspector.memory.feedback(answer["receipt_id"], useful=[])


@pytest.mark.feature(
    "the graph of the inspector has a slider over time: the keyboard moves it, and the address has its day"
)
def test_slider_moves_the_graph_in_time(inspector: Inspector) -> None:
    page = inspector.show("graph")
    size = page.get_by_text(re.compile("[0-9]+ entities, "))
    expect(size).to_be_visible()
    now = size.inner_text()
    slider = page.get_by_role("slider", name=re.compile("As of"))
    expect(slider).to_have_attribute("aria-valuetext", "now")
    assert_accessible(page)
    slider.focus()
    page.keyboard.press("Home")
    expect(slider).to_have_attribute("aria-valuetext", re.compile("^2026-02"))
    expect(size).not_to_have_text(now)
    assert "at=2026-02" in page.url
    page.keyboard.press("PageUp")
    then = str(slider.get_attribute("aria-valuetext"))
    expect(page).to_have_url(re.compile(f"at={then}"))
    page.keyboard.press("End")
    expect(size).to_have_text(now)
    assert "at=" not in page.url


PAINTED = """async ({ hovered, chosen, isMoving, relations }) => {
  const { paint } = await import("/inspector/parts/paint.js");
  class Context {
    texts = [];
    strokes = new Set();
    setTransform() {} clearRect() {} beginPath() {} moveTo() {} lineTo() {} arc() {} fill() {} fillRect() {}
    strokeText() {}
    stroke() { this.strokes.add(this.strokeStyle); }
    measureText(text) { return { width: 6 * text.length }; }
    fillText(text) { this.texts.push(text); }
  }
  const canvas = document.createElement("canvas");
  document.querySelector(".canvas").append(canvas);
  const context = new Context();
  const names = ["Spindle", "Postgres", "Fjordbase"];
  paint(canvas, context, {
    places: Float32Array.from([-300, -100, 0, 0, 300, 100]),
    edges: Int32Array.from(Array(relations / 2).fill([0, 1, 1, 2]).flat()),
    radius: [5, 5, 5], kinds: [[0, 1, 2]], order: [0, 1, 2], rings: [],
    view: { x: 0, y: 0, scale: 1 }, hovered, chosen, isMoving,
    label: (at) => names[at], relation: (n) => (n % 2 ? "hosted by" : "uses"),
  });
  canvas.remove();
  return { texts: context.texts, strokes: context.strokes.size };
}"""


@pytest.mark.feature(
    "the graph of the inspector names the relations of the chosen entity, and of the one under the mouse"
)
def test_relations_of_an_entity_are_named_in_the_picture(inspector: Inspector) -> None:
    page = inspector.show("graph", entity="Postgres")
    expect(page.locator("canvas[data-drawn]")).to_be_visible()

    def painted(*, hovered: int = -1, chosen: int = -1, moving: bool = False, relations: int = 2) -> Any:
        return page.evaluate(
            PAINTED, {"hovered": hovered, "chosen": chosen, "isMoving": moving, "relations": relations}
        )

    names = ["Spindle", "Postgres", "Fjordbase"]
    assert painted() == {"texts": names, "strokes": 1}
    assert painted(chosen=1) == {"texts": [*names, "uses", "hosted by"], "strokes": 2}
    assert painted(chosen=1, hovered=0)["texts"] == [*names, "uses"]
    assert painted(chosen=1, moving=True)["texts"] == names  # it stays fast
    of_many = painted(chosen=1, relations=20_000)["texts"]
    assert of_many == [*names, "uses", "hosted by"]  # one does not cover another


CALLS = (
    (
        "memories",
        {"source": "mail"},
        "fusion memories --source mail --user ada",
        "/v1/memories?source=mail&user_id=ada",
    ),
    (
        "graph",
        {"entity": "Postgres"},
        "fusion mem graph neighbors Postgres --depth 2 --limit 100 --user ada",
        "/v1/graph/overview",
    ),
    ("timeline", {}, "fusion status --growth 90 --user ada", "/v1/activity?days=90&user_id=ada"),
    ("upkeep", {}, "fusion triage --user ada", "/v1/triage?user_id=ada"),
    ("health", {}, "fusion status", "/v1/status"),
    ("live", {"session": "s1"}, "fusion receipt --session s1 --user ada", "/v1/receipts?session_id=s1&user_id=ada"),
)


@pytest.mark.feature("each view of the inspector copies the command and the curl call of what it shows, for its user")
@pytest.mark.parametrize(("view", "parameters", "command", "path"), CALLS, ids=[one[0] for one in CALLS])
def test_view_copies_its_calls(
    inspector: Inspector, view: str, parameters: dict[str, str], command: str, path: str
) -> None:
    page = inspector.show(view, user="ada", **parameters)
    for name, said in (("Copy command", command), ("Copy curl", path)):
        if said:
            page.get_by_role("button", name=name).first.click()
            assert said in page.evaluate("navigator.clipboard.readText()")


FILTERS = (
    {"q": "clogs"},
    {"q": "Berit's"},
    {"q": "-x $HOME `id`"},
    {"kind": "note"},
    {"source": "file:garage/chains.md"},
    {"trust": "unknown", "state": "current"},
    {"importance": "0.1", "order": "importance"},
    {"from": "2026-01-31", "to": "2026-12-31", "order": "oldest"},
    {"backend": "cortex"},
    {"session": "standup"},
    {"origin": "import", "tag": "garage"},
    {"kind": "fact", "trust": "trusted", "state": "all", "backend": "markdown", "q": "Berit"},
)


def run_as_copied(copied: str, home: Path, more: str) -> subprocess.CompletedProcess[str]:
    """A copied command, run by a shell on this home. Playwright's event loop lets no command run in this process."""
    return subprocess.run(
        ["bash", "-c", f'fusion() {{ "$PYTHON" -m fusion "$@" --home "$AT" {more}; }}; {copied}'],
        env={**os.environ, "PYTHON": sys.executable, "AT": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.feature("each filter of the inspector's memories is a flag of the copied command, which lists the same")
def test_copied_command_lists_what_the_page_shows(inspector: Inspector, home: Path) -> None:
    """Each command is run as it was copied, by a shell, and asks for what the page asked for."""
    shown: set[int] = set()
    for filters in FILTERS:
        page = inspector.page
        with page.expect_response(lambda reply: "/v1/memories?" in reply.url) as asked:
            inspector.show("memories", **filters)
        listed = [one["ref"] for one in asked.value.json()["memories"]]
        page.get_by_role("button", name="Copy command").first.click()
        copied = page.evaluate("navigator.clipboard.readText()")
        run = run_as_copied(copied, home, "--limit 100 --json")
        assert run.returncode == 0, (copied, run.stderr)
        assert [one["ref"] for one in json.loads(run.stdout)["memories"]] == listed, copied
        shown.add(len(listed))
    assert len(shown) > 2  # the filters filter


def copied_curl(page: Page) -> str:
    """The first curl call of a page, as somebody would paste it."""
    page.get_by_role("button", name="Copy curl").first.click()
    return str(page.evaluate("navigator.clipboard.readText()"))


@pytest.mark.feature("the inspector copies the call that draws the graph as of a day, and that of a way in it")
def test_copied_call_of_the_graph_at_a_time_draws_the_same(inspector: Inspector, home: Path) -> None:
    pictures = []
    for parameters in ({"at": "2026-02-10"}, {"at": "2026-02-10", "entity": "Postgres", "depth": "1"}, {}):
        with inspector.page.expect_response(lambda reply: "/v1/graph/overview" in reply.url) as drawn:
            page = inspector.show("graph", user="*", **parameters)
        run = run_as_copied(copied_curl(page), home, "")
        pictures.append(json.loads(run.stdout))
        assert pictures[-1] == drawn.value.json(), run.stderr
        if "at" in parameters:
            expect(page.get_by_role("button", name="Copy command")).to_have_count(0)  # it would have no time
    assert pictures[0]["nodes"] != pictures[2]["nodes"]
    edge = pictures[2]["edges"][0]
    page = inspector.show("graph", user="*", entity=edge["source"], to=edge["target"])
    way = page.locator(".notice").filter(has_text=edge["target"])
    way.get_by_role("button", name="Copy command").click()
    run = run_as_copied(page.evaluate("navigator.clipboard.readText()"), home, "--json")
    assert json.loads(run.stdout)["way"]["path"] == way.locator(".said").inner_text()


SLIDERS = (
    ({"Excerpts at most": "1"}, True),
    ({"Excerpts at most": "2", "Characters of the block": "900"}, True),
    ({"bm25": "9"}, False),
    ({"bm25": "0", "Excerpts at most": "2"}, False),
)


@pytest.mark.feature("the inspector copies the call that packs a block by the numbers of the moved sliders")
@pytest.mark.parametrize(("moved", "has_command"), SLIDERS)
def test_copied_call_of_moved_sliders_packs_the_same(
    inspector: Inspector, home: Path, moved: dict[str, str], has_command: bool
) -> None:
    page = inspector.show("ask", q=f'{ASKED} it\'s "recording":"x"', recipe="deep")
    expect(page.get_by_role("region", name="What the agent gets")).to_be_visible()
    page.get_by_text("What if?").click()
    for name, value in moved.items():
        with page.expect_response(lambda reply: reply.url.endswith("/v1/replay")) as replayed:
            page.get_by_role("slider", name=name, exact=True).fill(value)
    packed = replayed.value.json()
    run = run_as_copied(copied_curl(page), home, "")
    same = json.loads(run.stdout)
    assert without_nonce(same["answer"]["block"]) == without_nonce(packed["answer"]["block"]), run.stderr
    reasons = [{one["ref"]: one["decision"] for one in found["candidates"]} for found in (same, packed)]
    assert reasons[0] == reasons[1]
    command = page.get_by_role("button", name="Copy command")
    expect(command).to_have_count(int(has_command))
    if has_command:
        command.click()
        run = run_as_copied(page.evaluate("navigator.clipboard.readText()"), home, "--json")
        assert without_nonce(json.loads(run.stdout)["block"]) == without_nonce(packed["answer"]["block"])


@pytest.mark.feature("the inspector copies the call that compares two recipes")
def test_copied_comparison_compares_the_same(inspector: Inspector, home: Path) -> None:
    page = inspector.show("ask", q=ASKED, b="deep")
    compared = page.locator("section").filter(has=page.get_by_role("heading", name="Compare"))
    expect(compared.get_by_text(re.compile("in both: "))).to_be_visible()
    for name, more in (("Copy command", "--json"), ("Copy curl", "")):
        compared.get_by_role("button", name=name).click()
        run = run_as_copied(page.evaluate("navigator.clipboard.readText()"), home, more)
        found = json.loads(run.stdout)
        expect(compared.get_by_text(f"in both: {len(found['both'])}", exact=True)).to_be_visible()
        blocks = compared.locator("pre")
        for at, side in enumerate("ab"):
            assert without_nonce(blocks.nth(at).inner_text()) == without_nonce(found[side]["block"]).rstrip("\n")


COMMANDS = (
    ("timeline", {"user": "*"}, "days"),
    ("live", {}, "receipts"),
    ("health", {}, "version"),
)


@pytest.mark.parametrize(("view", "parameters", "member"), COMMANDS, ids=[one[0] for one in COMMANDS])
def test_copied_command_of_a_view_runs(
    inspector: Inspector, home: Path, view: str, parameters: dict[str, str], member: str
) -> None:
    page = inspector.show(view, **parameters)
    expect(page.get_by_role("button", name="Copy command").first).to_be_visible()
    printed = []
    for button in page.get_by_role("button", name="Copy command").all():
        button.click()
        copied = page.evaluate("navigator.clipboard.readText()")
        run = run_as_copied(copied, home, "" if "--json" in copied else "--json")
        assert run.returncode == 0, (copied, run.stderr)
        printed.append(json.loads(run.stdout))
    assert member in printed[0]


@pytest.mark.feature("… in the inspector, for operators: by kind, memory and user", of="an access log by tenant")
def test_accesses_are_shown_by_kind_and_memory(inspector: Inspector) -> None:
    ref = stored(inspector, "The spare oars are below the jetty.")
    inspector.memory.memory(ref)
    page = inspector.show("timeline", user="*", of=ref)
    log = page.get_by_role("region", name="Who read, changed and forgot")
    expect(log.get_by_role("row").filter(has_text="read").filter(has_text=ref)).to_have_count(1)
    expect(log.get_by_role("row").filter(has_text="remembered")).to_have_count(1)
    log.get_by_label("What was done").select_option("forget")
    expect(log).to_contain_text("No access is known.")
    assert "did=forget" in page.url
    inspector.memory.forget(ref)
    page.reload()
    expect(log.get_by_role("row").filter(has_text=ref)).to_have_count(1)
    log.get_by_role("button", name="Copy command").click()
    assert page.evaluate("navigator.clipboard.readText()") == f"fusion audit --action forget --ref {ref}"
    assert_accessible(page)


@pytest.mark.feature(
    "the address of the inspector has what is open: the tab of a memory, of a receipt, a job's receipt, days"
)
def test_address_opens_what_was_open(inspector: Inspector) -> None:
    ref = stored(inspector, "The tide table hangs in the kitchen.")
    page = inspector.show(f"memories/{ref}")
    page.get_by_role("tab", name="Copies").click()
    assert "tab=copies" in page.url
    page.reload()
    expect(page.get_by_role("tab", name="Copies")).to_have_attribute("aria-selected", "true")
    answer = inspector.memory.fuse(ASKED)
    page = inspector.show(f"live/{answer['receipt_id']}", show="out")
    expect(
        page.get_by_role("region", name="Receipt").get_by_role("tab", name=re.compile("Left out"))
    ).to_have_attribute("aria-selected", "true")
    inspector.memory.run_job("receipts")
    page = inspector.show("upkeep", job="receipts")
    expect(page.get_by_role("dialog")).to_contain_text("Receipt of the run: receipts")
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile("upkeep$"))
    page = inspector.show("timeline", days="30")
    expect(page.get_by_role("heading", name=re.compile("last 30 days"))).to_be_visible()
    inspector.memory.forget(ref)


@pytest.mark.feature(
    "… and a hostile MEMORY.md stays text there",
    of="the inspector shows MEMORY.md against its baseline, promotes and restores it, and both can be undone",
)
def test_hostile_memory_md_stays_text(browser: Browser, guarded: Path) -> None:
    hostile = (
        f'- zqx <img src=x onerror="alert(1)"> <script>alert(2)</script> \u202eevil\u200b \x1b[31m {"w" * 50_000}\n'
    )
    (guarded.parent / "agent" / "MEMORY.md").write_text(BASELINE + hostile)
    with opened(browser, guarded) as inspector:
        watched = Watched.of(inspector.page, inspector.url)
        page = inspector.show("upkeep")
        panel = page.get_by_role("region", name="MEMORY.md")
        panel.get_by_role("button", name="Promote").click()
        for shown in (panel, page.get_by_role("dialog")):
            expect(shown).to_contain_text("zqx <img src=x")
            assert UNSEEN.findall(shown.inner_text()) == []
            assert shown.locator("img, script").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 1380
        assert watched.nothing, watched
