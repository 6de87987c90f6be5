"""Comparing and feedback through the doors: routes, both clients' calls, and the command line on a real home."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

from fusion.client import AsyncClient
from fusion.doors.cli import app
from fusion.doors.http.app import create_app
from fusion.doors.http.openapi import examples
from fusion.errors import BadInput, NobodyAnswered, NotFound
from fusion.gateway.gateway import Gateway
from fusion.recipe import mark
from fusion.settings import KeySettings, ServerSettings, Settings
from fusion.trust import allow
from tests.doors.contract import Checked
from tests.doors.fakes import FakeFusion, app_over
from tests.patience import load

TWO = """
backends_only = true
[embedder]
adapter = ""
[backends.one]
adapter = "adapters.inmemory:InMemory"
[backends.two]
adapter = "adapters.inmemory:InMemory"
"""
KEYS = {"ada-key-0123456789": "ada", "bo-key-0123456789": "bo"}


def over(fusion: FakeFusion) -> AsyncClient:
    return AsyncClient.over(Checked(app_over(fusion)))


async def test_the_body_reaches_the_engine() -> None:
    """Question, scope and numbers; the arms as they were written, a being all when it is not."""
    fake = FakeFusion()
    async with over(fake) as client:
        found = await client.compare("q", "hook", "-mem0", user_id="ada", budget_chars=900, timeout_ms=50)
        assert (found["a"]["arm"], found["b"]["arm"]) == ("hook", "-mem0")
        (asked,) = fake.requests
        assert (asked.query, asked.scope.user_id, asked.budget_chars, asked.timeout_ms) == ("q", "ada", 900, 50)
    async with httpx.AsyncClient(transport=Checked(app_over(fake)), base_url="http://localhost") as http:
        reply = await http.post("/v1/compare", json={"query": "q", "b": "hook"})
        assert reply.json()["a"]["arm"] == "all"
        for body, says in (
            ({"query": "q"}, "b: is missing"),
            ({"query": "q", "b": "hook", "recipe": "hook"}, "recipe: there is no such field"),
            ({"query": " ", "b": "hook"}, "query: is empty"),
            ({"query": "q", "b": ""}, "b: is empty"),
        ):
            reply = await http.post("/v1/compare", json=body)
            assert (reply.status_code, says in reply.json()["detail"]) == (422, True)


async def test_when_nobody_answers_it_is_503_with_coverage() -> None:
    """As for a plain question."""
    fake = FakeFusion(error=NobodyAnswered("arm b (@one): no backend answered", {"coverage": {"ok": 0}}, 3.0))
    async with over(fake) as client:
        with pytest.raises(NobodyAnswered, match="arm b") as caught:
            await client.compare("q", "all", "@one")
    assert (caught.value.details["coverage"], caught.value.retry_after_s) == ({"ok": 0}, 3.0)


@pytest.fixture
async def tenants(tmp_path: Path) -> AsyncIterator[dict[str, AsyncClient]]:
    """A home with two tenants' keys, and a client of each."""
    from hashlib import sha256

    keys = [KeySettings(name=t, sha256=sha256(k.encode()).hexdigest(), tenant=t) for k, t in KEYS.items()]
    tables = {name: {"adapter": "adapters.inmemory:InMemory"} for name in ("one", "two")}
    settings: Settings = load(home=tmp_path / "home", backends_only=True, embedder={"adapter": ""}, backends=tables)
    settings = settings.model_copy(update={"server": ServerSettings(keys=tuple(keys))})
    async with Gateway.open(settings) as fusion:
        there = Checked(create_app(fusion, settings))
        clients = {tenant: AsyncClient.over(there, api_key=key) for key, tenant in KEYS.items()}
        yield clients
        for client in clients.values():
            await client.close()


@pytest.mark.feature("feedback: votes on one's own receipt, with a 404 or 422 that names the mistake")
async def test_feedback_on_an_answer_and_its_labels(tenants: dict[str, AsyncClient]) -> None:
    """Votes on a real receipt come back as labels with their signals; the answer to an arm has a receipt, too."""
    ada, bo = tenants["ada"], tenants["bo"]
    texts = ("We moved to Postgres", "Postgres runs on port 5433")
    kept = await ada.remember([{"text": text, "user_id": "u1"} for text in texts])
    await ada.settle()
    one, two = (memory["ref"] for memory in kept["memories"])
    compared = await ada.compare("postgres?", "all", "seed003", user_id="u1")
    receipt = compared["b"]["receipt_id"]
    stands = await ada.feedback(receipt, useful=[one], useless=[two], user_id="u1")
    assert stands == {"receipt_id": receipt, "useful": [one], "useless": [two]}
    page = await ada.labels()
    assert [(label["ref"], label["useful"], label["recipe"]["name"]) for label in page["labels"]] == [
        (one, True, "seed003"),
        (two, False, "seed003"),
    ]
    assert page["labels"][0]["signals"]["fusion"] > 0
    assert page["labels"][0]["scope"] == {"user_id": "u1"}
    assert page["next_cursor"] is None
    merged = await ada.feedback(receipt, useful=[two], merge=True, user_id="u1")
    assert sorted(merged["useful"]) == sorted([one, two])
    assert await ada.feedback(receipt, useful=[one], useless=[two], user_id="u1") == stands
    page = await ada.labels()
    first = await ada.labels(limit=1)
    assert first["next_cursor"] is not None
    assert (await ada.labels(cursor=first["next_cursor"]))["labels"] == page["labels"][1:]

    assert (await bo.labels())["labels"] == []
    with pytest.raises(NotFound, match="there is no receipt"):
        await bo.feedback(receipt, useful=[one])
    with pytest.raises(NotFound):
        await ada.feedback("r0", useful=[one])
    with pytest.raises(BadInput, match=r"useful\[0\]: 'm9z' is not in receipt"):
        await ada.feedback(receipt, useful=["m9z"])
    with pytest.raises(BadInput, match=r"useless\[1\] is in useful"):
        await ada.feedback(receipt, useful=[one], useless=[two, one])
    with pytest.raises(BadInput, match="cursor: it is invalid"):
        await ada.labels(cursor="nonsense")
    assert await ada.labels() == page

    await ada.forget(one)
    assert [label["ref"] for label in (await ada.labels())["labels"]] == [two]
    assert await ada.feedback(receipt) == {"receipt_id": receipt, "useful": [], "useless": []}
    assert (await ada.labels())["labels"] == []


@pytest.mark.feature(
    "… on another user's answer it is a 404, as is that answer's receipt", of="feedback: votes on one's own"
)
async def test_an_answer_belongs_to_who_was_asked_for(tenants: dict[str, AsyncClient]) -> None:
    """Who names a user votes on that user's answers and reads their receipts: not on another's, nor on nobody's."""
    ada = tenants["ada"]
    kept = await ada.remember([{"text": "We moved to Postgres", "user_id": "u1"}])
    await ada.settle()
    ref = kept["memories"][0]["ref"]
    asked = {user: (await ada.fuse("postgres?", user_id=user))["receipt_id"] for user in ("u1", None)}
    await ada.feedback(asked["u1"], useful=[ref], user_id="u1")
    page = await ada.labels()
    for user, receipt in (("u2", asked["u1"]), ("u1", asked[None])):
        with pytest.raises(NotFound, match="no receipt"):
            await ada.feedback(receipt, useless=[ref], user_id=user)
        with pytest.raises(NotFound, match="no receipt"):
            await ada.receipt(receipt, user_id=user)
    assert await ada.labels() == page
    assert (await ada.receipt(asked["u1"], user_id="u1"))["user_id"] == "u1"
    assert (await ada.receipt(asked["u1"]))["candidates"][0]["ref"] == ref
    await ada.feedback(asked[None], useful=[ref])


async def test_nothing_is_taken_back_by_a_field_that_is_missing() -> None:
    """Neither list, or a misspelt one, is a 422; an empty list takes back. A text for a list is told as a JSON user
    would say it."""
    client = httpx.AsyncClient(transport=Checked(app_over(FakeFusion())), base_url="http://localhost")
    async with client as http:
        for body, says in (
            ({}, "useful or useless is missing; an empty list takes feedback back"),
            ({"usefull": ["m1"]}, "usefull: there is no such field"),
            ({"useful": "mt"}, "useful: must be a list"),
        ):
            reply = await http.post("/v1/feedback", json={"receipt_id": "r1", **body})
            assert (reply.status_code, says in reply.json()["detail"]) == (422, True), reply.json()
        assert (await http.post("/v1/feedback", json={"receipt_id": "r1", "useless": []})).status_code == 200


@pytest.mark.feature("an impossible arm of a comparison is a 422 that names it")
@pytest.mark.parametrize(
    ("a", "b", "says"),
    [
        ("all", "-mem1", "arm b: there is no backend 'mem1'; there are"),
        (
            "best",
            "all",
            "arm a: there is no recipe 'best'; there are deep, default, hook, local-plus, seed000",
        ),
        ("", "all", "a: is empty"),
        ("all", "default", "both arms are default over one, two: name another one, such as deep or -one"),
    ],
)
async def test_an_arm_that_cannot_be_is_a_422_that_names_it(
    tenants: dict[str, AsyncClient], a: str, b: str, says: str
) -> None:
    """The problem says which arm, and what there is instead."""
    with pytest.raises(BadInput, match=says):
        await tenants["ada"].compare("postgres?", a, b)


# The command line, over a home that each command opens itself ------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home of the real Markdown memory and the triples, with two things remembered."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    config = '[embedder]\nadapter = ""\n[backends.mem0]\nenabled = false\n[backends.cortex]\nenabled = false\n'
    (home / "fusion.toml").write_text(config)
    said = [{"text": text} for text in ("We moved the bookings to Postgres.", "Berit keeps clogs for guests.")]
    (tmp_path / "said.jsonl").write_text("\n".join(map(json.dumps, said)))
    assert fusion("ingest", tmp_path / "said.jsonl", "--home", home).exit_code == 0
    return home


def fusion(*arguments: object) -> Result:
    return CliRunner(env={"COLUMNS": "160"}).invoke(app, [*(str(a) for a in arguments), "--direct"])


def printed(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.mark.feature("`fusion compare` and `/v1/compare` compare two arms over one gather")
def test_a_question_to_two_arms(home: Path) -> None:
    """`--a all --b -mem0` as the manual writes it; for people a table, for programs one line."""
    shown = fusion("compare", "where are the bookings?", "--a", "all", "--b", "-mem0", "--home", home)
    assert "Both have the same memories." in shown.stdout
    assert "degraded: " not in shown.stdout
    told = printed(fusion("compare", "where are the bookings?", "--b", "seed003@triples", "--home", home, "--json"))
    assert (told["a"]["arm"], told["b"]["arm"], told["b"]["coverage"]["total"]) == ("all", "seed003@triples", 1)
    wrong = fusion("compare", "q", "--b", "-mem1", "--home", home)
    assert (wrong.exit_code, "arm b: there is no backend 'mem1'" in wrong.stderr) == (2, True)


def test_many_questions_get_a_verdict(home: Path, tmp_path: Path) -> None:
    """A file of questions with what is expected: the recipe that abstains loses them all."""
    file = tmp_path / "queries.jsonl"
    rows = [
        {"query": "bookings?", "expected": ["bookings to Postgres"]},
        {"query": "who has clogs?", "expected": "clogs"},
    ]
    file.write_text("\n".join(map(json.dumps, rows)) + "\nwhat about guests?\n")
    (home / "recipes").mkdir()
    (home / "recipes" / "mute.toml").write_text("[rerank]\nabstain = 1.0\n[rerank.signals]\nspeaker = 1\n")
    allow(home)
    given = ("compare", "--queries", file, "--a", "default", "--b", "mute", "--home", home)
    told = printed(fusion(*given, "--json"))
    verdict = told["verdict"]
    assert (verdict["n"], verdict["loss"], verdict["better"]) == (2, 2, "a")
    assert (verdict["a"], verdict["b"], verdict["low"], verdict["high"]) == (1.0, 0.0, -1.0, -1.0)
    assert (told["agreement"]["questions"], told["agreement"]["b"]["empty"]) == (3, 3)
    assert "0 won, 0 tied, 2 lost" in fusion(*given).stdout
    file.write_text("bookings?\n")
    assert "does not say which arm is better" in fusion(*given).stdout


@pytest.mark.feature(
    "`fusion compare --list` and `/v1/comparisons`: arms, hashes of recipes and figures of the last 200"
)
def test_comparisons_over_many_questions_are_stored_and_listed(home: Path, tmp_path: Path) -> None:
    """Two runs of one file; a question to two arms alone is none. No question is in the list."""
    assert "No comparison is stored yet" in fusion("compare", "--list", "--home", home).stdout
    file = tmp_path / "queries.jsonl"
    file.write_text('{"query": "bookings?", "expected": ["bookings to Postgres"]}\nwhat about guests?\n')
    given = ("compare", "--queries", file, "--a", "default", "--b", "seed003@triples", "--home", home)
    report = printed(fusion(*given, "--seed", "7", "--json"))
    assert report["stored_why"] is None
    fusion(*given)
    fusion("compare", "bookings?", "--b", "seed003", "--home", home)
    page = printed(fusion("compare", "--list", "--home", home, "--json"))
    newer, older = page["comparisons"]
    assert (older["id"], older["by"], report["stored_why"]) == (report["stored"], "owner", None)
    assert older["verdict"] == report["verdict"]
    assert older["verdict"]["seed"] == 7
    assert (older["a"]["recipe"], older["b"]["recipe"], older["b"]["backends"]) == ("default", "seed003", ["triples"])
    assert older["a"]["hash"] != older["b"]["hash"]
    for name in ("only", "empty", "characters", "took_ms"):
        assert older["a"][name] == report["agreement"]["a"][name]
    assert (older["questions"], older["overlap"]) == (2, report["agreement"]["overlap"])
    assert "bookings" not in json.dumps(page)
    assert "guests" not in json.dumps(page)
    first = fusion("compare", "--list", "--limit", "1", "--home", home).stdout
    assert first.count("default (default") == 1
    cursor = first.rpartition("--cursor ")[2].strip()
    second = printed(fusion("compare", "--list", "--limit", "1", "--cursor", cursor, "--home", home, "--json"))
    assert [one["id"] for one in second["comparisons"]] == [older["id"]]
    assert newer["id"] > older["id"]
    both = fusion("compare", "--list", "--queries", file, "--home", home)
    assert (both.exit_code, "--list" in both.stderr) == (2, True)


async def test_a_comparison_that_is_none_is_refused(tenants: dict[str, AsyncClient]) -> None:
    """What a client says of its figures is checked: counts, shares, and an interval with its ends in order."""
    good = examples()["keep_comparison"]["request"]
    wrong = (
        {"questions": 0},
        {"overlap": 1.1},
        {"degraded": 5},
        {"verdict": {**good["verdict"], "win": 1}},
        {"verdict": {**good["verdict"], "low": 0.5}},
        {"verdict": {**good["verdict"], "n": 9, "tie": 8}},
        {"a": {**good["a"], "arm": "a\nb"}},
        {"a": {**good["a"], "backends": []}},
        {"a": {**good["a"], "text": "x"}},
    )
    for one in wrong:
        with pytest.raises(BadInput):
            await tenants["ada"].keep_comparison(**{**good, **one})
    kept = await tenants["ada"].keep_comparison(**good)
    assert kept["verdict"] == {**good["verdict"], "better": None}
    assert kept["by"] == "ada"
    assert (await tenants["bo"].comparisons())["comparisons"] == []


@pytest.mark.feature(
    "… a tuned recipe lists its questions: the benchmarks and `tune` do not report on them, and "
    "`compare` does not count them",
    of="`tune` changes a number only",
)
def test_what_an_arm_was_tuned_on_does_not_count(home: Path, tmp_path: Path) -> None:
    """Of two questions one chose the recipe's numbers: the verdict is over the other; of both, there is none."""
    file = tmp_path / "queries.jsonl"
    rows = [{"query": "bookings?", "expected": ["Postgres"]}, {"query": "who has clogs?", "expected": ["clogs"]}]
    file.write_text("\n".join(map(json.dumps, rows)))
    (home / "recipes").mkdir()
    mine = home / "recipes" / "mine.toml"
    given = ("compare", "--queries", file, "--a", "default", "--b", "mine", "--home", home)
    for tuned_on, judged in (([mark("Who  has CLOGS?")], 1), ([mark("bookings?"), mark("who has clogs?")], 0)):
        mine.write_text(f"tuned_on = {json.dumps(tuned_on)}\n[rerank.signals]\nbm25 = 1\n")
        allow(home)
        told = printed(fusion(*given, "--json"))
        assert (told["tuned_on"], told["agreement"]["questions"]) == (len(tuned_on), 2)
        assert (told["verdict"] or {"n": 0})["n"] == judged
        assert f"An arm was tuned on {len(tuned_on)} of them" in fusion(*given).stdout
        assert all("found" not in row["b"] for row in told["rows"] if row["tuned_on"])


def test_what_can_not_be_compared_says_why(home: Path, tmp_path: Path) -> None:
    """Neither a question nor a file, both, the same arm twice, a file that is not there, a line that is wrong."""
    alike = fusion("compare", "q", "--home", home)
    assert (alike.exit_code, "both arms are default over" in alike.stderr) == (2, True)
    assert fusion("compare", "--home", home).exit_code == 2
    assert fusion("compare", "q", "--queries", tmp_path / "q", "--home", home).exit_code == 2
    missing = fusion("compare", "--queries", tmp_path / "q", "--b", "hook", "--home", home)
    assert (missing.exit_code, "q: No such file" in missing.stderr) == (2, True)
    (tmp_path / "q").write_text("{")
    wrong = fusion("compare", "--queries", tmp_path / "q", "--b", "hook", "--home", home)
    assert (wrong.exit_code, "q:1: is not JSON" in wrong.stderr) == (2, True)


@pytest.mark.feature("… feedback is exported as labels, all or nothing", of="feedback: votes on one's own")
def test_feedback_and_its_export(home: Path, tmp_path: Path) -> None:
    """What was voted on a receipt is a line of JSON each; an export that fails leaves the file as it was."""
    fused = printed(fusion("fuse", "where are the bookings?", "--home", home, "--json"))
    ref, receipt = fused["memories"][0]["ref"], fused["receipt_id"]
    assert "1 useful, 0 useless" in fusion("feedback", receipt, "--useful", ref, "--home", home).stdout
    file = tmp_path / "labels.jsonl"
    assert printed(fusion("feedback", "--export", file, "--home", home, "--json"))["labels"] == 1
    (label,) = map(json.loads, file.read_text().splitlines())
    assert (label["ref"], label["useful"], label["receipt_id"]) == (ref, True, receipt)
    wrong = fusion("feedback", receipt, "--useful", "m9z", "--home", home)
    assert (wrong.exit_code, "useful[0]: 'm9z'" in wrong.stderr) == (2, True)
    assert fusion("feedback", "r0", "--useful", ref, "--home", home).exit_code == 2
    assert fusion("feedback", "--home", home).exit_code == 2
    assert fusion("feedback", receipt, "--export", file, "--home", home).exit_code == 2
    before = file.read_text()
    for export, why in ((tmp_path / "none" / "x", "x cannot be written: No such file"), (tmp_path, "it is a folder")):
        refused = fusion("feedback", "--export", export, "--home", home)
        assert (refused.exit_code, why in " ".join(refused.stderr.split()), ".part" in refused.stderr) == (
            2,
            True,
            False,
        )
    assert (file.read_text(), [p.name for p in tmp_path.glob("*.part")]) == (before, [])
