"""The whole read path over real in-memory backends: what a caller gets, and that a recording gives it again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from adapters.inmemory import InMemory
from fusion.contract import Event, Extracted, Features, Hit, Opening, Passage, Place, Query, Scope, Verdict
from fusion.errors import BackendUnreachable, BadInput, NobodyAnswered, ReplayGap, StoreBusy, TooLarge
from fusion.lib.bm25 import Frequencies
from fusion.lib.budget import estimate_tokens
from fusion.lib.ids import external_ref
from fusion.lib.words import spoken
from fusion.recall.decision import Decision
from fusion.recall.engine import QUERY_LIMIT, FuseRequest, RecallIO, fuse
from fusion.recall.gather import GuardedBackend
from fusion.recall.io import JournalReads, Live
from fusion.recall.recording import Recorder, Replay
from fusion.recipe import ExpandSettings, GatherSettings, PackSettings, Recipe, RerankSettings
from tests.fakes import FakeEmbedder
from tests.recall.helpers import NOW, StoredRecord

RECIPE = Recipe(
    rerank=RerankSettings(signals={"maxsim": 3, "window3": 3, "fusion": 1, "bm25": 2}, judge="always"),
)
TALK = (
    ("Ada", "Which database shall the booking service use?"),
    ("Bo", "SQLite was fine for the prototype."),
    ("Ada", "The load tests say otherwise, so Postgres."),
    ("Bo", "Agreed. I will write the migration."),
    ("Ada", "Shall we have pizza?"),
)


class Down:
    """A backend whose server is gone."""

    features = Features(filters=frozenset({"user_id", "agent_id", "run_id", "session_id"}), tenants=True)

    @classmethod
    async def open(cls, opening: Opening) -> Down:
        return cls()

    async def search(self, query: Query) -> Sequence[Hit]:
        raise BackendUnreachable("refused")

    async def close(self) -> None:
        """Nothing is open."""


class Copies(InMemory):
    """Makes new hits for the neighbours that it is asked for."""

    async def neighbours(self, hits: Sequence[Hit], span: int) -> Sequence[Sequence[Hit]]:
        return [[replace(one) for one in near] for near in await super().neighbours(hits, span)]


@dataclass
class Tens:
    """A judge that likes what has a word, and remembers what it was shown."""

    word: str
    name: str = "tens"
    shown: list[Passage] = field(default_factory=list)

    async def judge(self, query: str, passages: Sequence[Passage], deadline_s: float) -> Verdict:
        self.shown = list(passages)
        return Verdict("ok", {p.id: 10.0 if self.word in p.text else 3.0 for p in passages})

    async def close(self) -> None:
        """Nothing is open."""


@dataclass
class MemoryJournal:
    """A journal in memory: the events in their order."""

    kept: dict[str, StoredRecord] = field(default_factory=dict)

    async def records(self, event_ids: Sequence[str]) -> Mapping[str, StoredRecord]:
        return {i: self.kept[i] for i in event_ids if i in self.kept}

    async def neighbours(self, event_ids: Sequence[str], span: int) -> Mapping[str, Sequence[StoredRecord]]:
        order = list(self.kept)
        found = {}
        for i in event_ids:
            if i in self.kept:
                at = order.index(i)
                found[i] = [self.kept[j] for j in (*order[max(0, at - span) : at], *order[at + 1 : at + 1 + span])]
        return found

    async def frequencies(self, scope: Scope, terms: Sequence[str]) -> Frequencies:
        return Frequencies()


def event(position: int, speaker: str, text: str, **more: object) -> Event:
    place = Place("talk", position, position)
    return Event(f"e{position}", text, NOW, kind="turn", speaker=speaker, place=place, **more)  # type: ignore[arg-type]


@dataclass
class FakeGateway:
    live: Live
    memory_journal: MemoryJournal

    def without_judge(self) -> Live:
        return replace(self.live, judge=None)


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[FakeGateway]:
    """Two stores that know the whole talk, and one that is down."""
    memory_journal = MemoryJournal()
    stores = {n: await InMemory.open(Opening(n, tmp_path / n)) for n in ("one", "two")}
    for position, (speaker, text) in enumerate(TALK):
        said = event(position, speaker, text)
        memory_journal.kept[said.event_id] = StoredRecord(f"m{position}", said)
        for store in stores.values():
            await store.remember([Extracted(said)])
    guarded = {name: GuardedBackend(name, store) for name, store in stores.items()}
    guarded["down"] = GuardedBackend("down", Down())
    journal = JournalReads(
        memory_journal.records, memory_journal.neighbours, memory_journal.frequencies, lambda backend, hits: hits
    )
    embedder = FakeEmbedder()
    await embedder.embed([spoken(text, speaker) for speaker, text in TALK])
    yield FakeGateway(Live(guarded, journal, embedder, Tens("Postgres")), memory_journal)
    for store in stores.values():
        await store.close()


ASK = FuseRequest("which database for the booking service")


@pytest.mark.row("A115", "A153", "several stores yield one block, even with one of them down")
async def test_fuse_answers_from_two_stores_and_a_dead_one(gateway: FakeGateway) -> None:
    """Each turn is in once, cited, in order; the dead store costs its own answer and is named."""
    fused = (await fuse(ASK, RECIPE, gateway.live)).fused
    lines = [line for line in fused.block.splitlines() if line.startswith("[m")]
    assert lines[0] == "[m0] Ada: Which database shall the booking service use?"
    assert len(lines) == len({line.split("]")[0] for line in lines})
    assert fused.coverage == {"total": 3, "ok": 2, "failed": 1, "skipped": 0, "ratio": 0.6667}
    assert fused.degraded
    assert {b["name"]: b["status"] for b in fused.backends} == {"one": "ok", "two": "ok", "down": "unreachable"}
    assert fused.memories[0].members[0].backends == ("one", "two")


async def test_fuse_adds_neighbours_of_a_hit(gateway: FakeGateway) -> None:
    """The answer shares no word with the question; it is packed because it is two turns after it."""
    block = (await fuse(FuseRequest("booking service use"), RECIPE, gateway.without_judge())).fused.block
    assert "[m2] Ada: The load tests say otherwise, so Postgres." in block


@pytest.mark.feature(
    "… the best memory for each comes first, unless none answers it",
    of="sub-questions are ranked separately",
)
async def test_fuse_ranks_each_sub_question(gateway: FakeGateway) -> None:
    """Asked as one, the booking service's five words outweigh pizza's one; asked as two, the best for each leads."""
    twice = FuseRequest("Which database shall the booking service use, and who wants pizza?")
    numbers = RerankSettings(signals={"bm25": 1}, judge="never")

    async def best(sub_questions: int) -> list[tuple[str, float]]:
        recipe = replace(RECIPE, rerank=replace(numbers, sub_questions=sub_questions), expand=ExpandSettings(span=0))
        rows = (await fuse(twice, recipe, gateway.without_judge())).receipt.body["candidates"]
        return [(row["ref"], row["local"]) for row in rows[:2]]

    (asked_first, most), (pizza, less) = await best(1)
    assert (asked_first, pizza, less < most) == ("m0", "m4", True)
    (_, first), (_, second) = await best(4)
    assert first == pytest.approx(second)


@pytest.mark.feature("… and the answer says how many there were", of="sub-questions are ranked separately")
async def test_fuse_reports_the_number_of_sub_questions(gateway: FakeGateway) -> None:
    """Next to what the judge did; a single question needs no count."""
    recipe = replace(RECIPE, rerank=RerankSettings(signals={"bm25": 1}, judge="never", sub_questions=4))
    one = await fuse(ASK, recipe, gateway.live)
    two = await fuse(FuseRequest("Which database is it, and who wants pizza?"), recipe, gateway.live)
    uncalibrated = {"uncalibrated": "there is no calibration for fake@1, so the raw scores decide"}
    assert one.fused.rerank == {"status": "off", **uncalibrated}
    assert two.fused.rerank == {"status": "off", "sub_questions": 2, **uncalibrated}
    assert two.receipt.body["rerank"] == two.fused.rerank


class Asked(InMemory):
    """Keeps how many hits it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.limits: list[int] = []

    async def search(self, query: Query) -> Sequence[Hit]:
        self.limits.append(query.limit)
        return await super().search(query)


@pytest.mark.feature("with fewer than four backends, each is asked for more, so that as many memories are ranked")
async def test_fewer_backends_are_each_asked_for_more(gateway: FakeGateway) -> None:
    """100 of each of four or more; 4 · 100 / 3 = 133 of three; 200 of two and of one, not 400. Without ``max_depth`` it
    is 100 of one. A backend that is switched off, broken, or waits for others to fail does not count."""
    assert [GatherSettings(1500, 100, 200).depth_for(n) for n in (5, 4, 3, 2, 1, 0)] == [100, 100, 133, 200, 200, 200]
    deep = replace(RECIPE, gather=GatherSettings(1500, 100, 200))
    stores = {name: Asked() for name in ("a", "b", "c")}
    guarded = {name: GuardedBackend(name, store) for name, store in stores.items()}
    off = {
        "off": GuardedBackend("off", Down(), disabled="switched off"),
        "broken": GuardedBackend("broken", Down(), disabled="cannot be opened", broken=True),
        "reserve": GuardedBackend("reserve", Asked(), fallback_for=("a",)),
    }
    io = replace(gateway.live, guarded={**guarded, **off})
    for names in (None, ("a", "b"), ("a", "off"), ("a",)):
        await fuse(replace(ASK, backends=names), deep, io)
    await fuse(replace(ASK, backends=("a",)), RECIPE, io)
    assert {name: store.limits for name, store in stores.items()} == {
        "a": [133, 200, 200, 200, 100],
        "b": [133, 200],
        "c": [133],
    }


@pytest.mark.row("A162", "A136", "a receipt has a reason for every candidate, and no text")
async def test_the_receipt_gives_every_candidate_a_reason_and_no_text(gateway: FakeGateway) -> None:
    """Refs, ranks, signals and decisions of the find and its two neighbours; not a word of any."""
    outcome = await fuse(ASK, RECIPE, gateway.live)
    rows = outcome.receipt.body["candidates"]
    assert {row["ref"] for row in rows} == {"m0", "m1", "m2"}
    assert all(row["decision"] for row in rows)
    found = next(row for row in rows if row["ref"] == "m0")
    assert [s[0] for s in found["source_hits"]] == ["one", "two"]
    assert set(found["signals"]) == {
        "fusion",
        "bm25",
        "dense",
        "maxsim",
        "window3",
        "window5",
        "speaker",
        "date",
        "length",
    }
    told = repr(outcome.receipt.body)
    assert not any(text in told for _, text in TALK)
    assert "booking" not in told


async def test_fuse_lets_the_judge_reorder_the_head(gateway: FakeGateway) -> None:
    """A judge's 10 comes before its 3; its call and its numbers are in the answer."""
    outcome = await fuse(ASK, RECIPE, gateway.live)
    assert [(row["ref"], row["judge"]) for row in outcome.receipt.body["candidates"]][-1] == ("m0", 3.0)
    assert {k: outcome.fused.rerank[k] for k in ("status", "shown", "scored")} == {
        "status": "ok",
        "shown": 3,
        "scored": 3,
    }


class HurriedIO:
    """Passes everything on, and keeps the deadlines that the judge got."""

    def __init__(self, io: RecallIO) -> None:
        self._io = io
        self.deadlines: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._io, name)

    async def verdict(self, query: str, passages: Sequence[Passage], deadline_s: float) -> Verdict:
        self.deadlines.append(deadline_s)
        return Verdict("timeout", fault="too late")


@pytest.mark.row("A024", "a recipe bounds the time of its judge; too late, the local order stands")
async def test_a_recipe_bounds_the_time_of_its_judge(gateway: FakeGateway) -> None:
    """At most 100 ms of a second; without a bound, nearly all that is left."""
    orders = []
    for timeout_ms in (100, 0):
        io = HurriedIO(gateway.live)
        hurried = replace(RECIPE, rerank=replace(RECIPE.rerank, judge_timeout_ms=timeout_ms))
        outcome = await fuse(ASK, hurried, io)
        orders.append([row["ref"] for row in outcome.receipt.body["candidates"]])
        (deadline_s,) = io.deadlines
        assert (deadline_s <= 0.1) == bool(timeout_ms)
        assert outcome.fused.rerank["status"] == "timeout"
    never = replace(RECIPE, rerank=replace(RECIPE.rerank, judge="never"))
    local = await fuse(ASK, never, gateway.live)
    assert orders == [[row["ref"] for row in local.receipt.body["candidates"]]] * 2


async def test_a_recording_replays_exactly(gateway: FakeGateway) -> None:
    """The same block, receipt and reasons from the recording alone: no backend, journal, model or judge is asked."""
    recorder = Recorder.of(gateway.live)
    live = await fuse(ASK, RECIPE, recorder)
    again = await fuse(ASK, RECIPE, Replay(recorder.recording))
    assert again.fused.block == live.fused.block
    assert again.receipt.body["candidates"] == live.receipt.body["candidates"]
    assert again.fused.receipt_id == live.fused.receipt_id


@pytest.mark.row("A167", "a recording replays exactly, under any recipe and any subset of the backends")
async def test_replay_of_any_recipe_and_subset_equals_a_live_run(gateway: FakeGateway) -> None:
    """One recording serves every arm: fewer backends, fewer neighbours, other weights."""
    recorder = Recorder.of(gateway.live)
    await fuse(ASK, RECIPE, recorder)
    arms = [
        (replace(ASK, backends=("two",)), RECIPE),
        (ASK, replace(RECIPE, expand=ExpandSettings(span=1))),
        (ASK, replace(RECIPE, rerank=RerankSettings(signals={"bm25": 1}, judge="never"))),
        (ASK, replace(RECIPE, pack=PackSettings(budget_chars=250))),
        (ASK, replace(RECIPE, rerank=replace(RECIPE.rerank, sub_questions=4))),
    ]
    for request, recipe in arms:
        live = await fuse(request, recipe, gateway.live)
        again = await fuse(request, recipe, Replay(recorder.recording))
        same = [(row["ref"], row["decision"], row["local"]) for row in again.receipt.body["candidates"]]
        assert same == [(row["ref"], row["decision"], row["local"]) for row in live.receipt.body["candidates"]]


async def test_replay_raises_for_input_that_was_not_recorded(gateway: FakeGateway) -> None:
    """A replay never makes up an answer: not for another backend, not for a wider neighbourhood."""
    recorder = Recorder.of(gateway.live)
    await fuse(replace(ASK, backends=("one",)), RECIPE, recorder)
    with pytest.raises(ReplayGap, match="two"):
        await fuse(replace(ASK, backends=("one", "two")), RECIPE, Replay(recorder.recording))
    with pytest.raises(ReplayGap, match="neighbours"):
        await fuse(
            replace(ASK, backends=("one",)), replace(RECIPE, expand=ExpandSettings(span=3)), Replay(recorder.recording)
        )


async def test_fuse_raises_with_coverage_when_no_backend_answers(gateway: FakeGateway) -> None:
    """503 is for this alone, and says what each backend did."""
    with pytest.raises(NobodyAnswered) as caught:
        await fuse(replace(ASK, backends=("down",)), RECIPE, gateway.live)
    assert caught.value.details["coverage"] == {"total": 1, "ok": 0, "failed": 1, "skipped": 0, "ratio": 0.0}
    assert caught.value.details["backends"][0]["status"] == "unreachable"


class EncodesWhenSettled(FakeEmbedder):
    """Encodes what was put off only once somebody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting_texts: list[str] = []

    def encode_later(self, texts: Sequence[str]) -> None:
        self.waiting_texts += texts

    async def settle(self) -> None:
        super().encode_later(self.waiting_texts)


@pytest.mark.feature(
    "a question encodes itself and nothing else: what has no vectors yet is ranked by words, and the receipt says so"
)
async def test_a_question_encodes_itself_alone_and_puts_the_rest_off(gateway: FakeGateway) -> None:
    embedder = EncodesWhenSettled()
    live = replace(gateway.without_judge(), embedder=embedder)
    first = await fuse(ASK, RECIPE, live)
    assert {*embedder.encoded} == {ASK.query}
    rows = first.receipt.body["candidates"]
    assert first.fused.rerank["without_vectors"] == len(rows) == len(embedder.waiting_texts)
    assert all(row["signals"]["by_words"] == 1 for row in rows)
    assert "Postgres" in first.fused.block
    await embedder.settle()
    second = await fuse(ASK, RECIPE, live)
    assert "without_vectors" not in second.fused.rerank
    assert all("by_words" not in row["signals"] for row in second.receipt.body["candidates"])


async def test_no_floor_holds_for_what_is_ranked_by_its_words(gateway: FakeGateway) -> None:
    recipe = replace(RECIPE, rerank=replace(RECIPE.rerank, floor=0.99, judge="never"))
    live = replace(gateway.live, embedder=EncodesWhenSettled())
    assert "Postgres" in (await fuse(ASK, recipe, live)).fused.block


@pytest.mark.row("A161", "below the floor nothing is packed")
async def test_below_the_floor_the_block_is_empty_and_says_so(gateway: FakeGateway) -> None:
    """Noise is not an answer."""
    recipe = replace(RECIPE, rerank=replace(RECIPE.rerank, floor=0.99, judge="never"))
    fused = (await fuse(FuseRequest("pizza"), recipe, gateway.live)).fused
    assert (fused.block, fused.memories) == ("", ())
    assert fused.abstained == "nothing cleared the floor"


@pytest.mark.feature("… and a budget too small for the best is reported as the reason", of="below the floor nothing")
async def test_fuse_reports_a_budget_too_small_for_the_best(gateway: FakeGateway) -> None:
    """The fence alone takes more than 60 characters: the answer was good enough, and the floor had no part in it."""
    recipe = replace(RECIPE, rerank=replace(RECIPE.rerank, judge="never"), pack=PackSettings(budget_chars=60))
    fused = (await fuse(ASK, recipe, gateway.live)).fused
    assert (fused.block, fused.memories) == ("", ())
    assert fused.abstained == "nothing fits the budget"


@pytest.mark.feature("a query of stop words asks no backend")
@pytest.mark.feature("an empty query is 422; one of stop words asks no backend", part="faults/clients")
async def test_fuse_asks_no_backend_for_stop_words(gateway: FakeGateway) -> None:
    """It could only scan everything."""
    fused = (await fuse(FuseRequest("the of and"), RECIPE, gateway.live)).fused
    assert (fused.block, fused.abstained) == ("", "the query has only stop words")
    assert fused.backends == ()


@pytest.mark.feature("a long query is searched by its ends")
@pytest.mark.feature(
    "a query of more than 4,000 characters is searched by its ends; above 32,000 it is a 413", part="faults/clients"
)
async def test_a_long_query_is_searched_by_its_ends(gateway: FakeGateway) -> None:
    """A pasted log of 10,000 characters: its first and last 2,000 are asked, and the answer says so."""
    fused = (await fuse(FuseRequest("database " + "x" * 10_000), RECIPE, gateway.live)).fused
    assert fused.query_truncated
    assert fused.block


async def test_bad_queries_say_what_to_change(gateway: FakeGateway) -> None:
    """Empty is a mistake; more than 32,000 characters is too much."""
    with pytest.raises(BadInput, match="empty"):
        await fuse(FuseRequest(" \n"), RECIPE, gateway.live)
    with pytest.raises(TooLarge, match=str(QUERY_LIMIT)):
        await fuse(FuseRequest("x" * (QUERY_LIMIT + 1)), RECIPE, gateway.live)


async def test_without_a_model_words_alone_carry_the_order(gateway: FakeGateway) -> None:
    """Everything works lexically, and the answer says that it is degraded."""
    fused = (await fuse(ASK, RECIPE, replace(gateway.live, embedder=None))).fused
    assert "Which database" in fused.block
    assert fused.degraded


async def test_a_failing_model_costs_its_signals_only(gateway: FakeGateway) -> None:
    """An embedder that raises in the middle of a request leaves the lexical order."""
    fused = (await fuse(ASK, RECIPE, replace(gateway.live, embedder=FakeEmbedder(failing=True)))).fused
    assert "Which database" in fused.block


async def test_what_was_forgotten_is_in_no_answer(gateway: FakeGateway) -> None:
    """A store that still returns it does not bring it back, neither as a hit nor as a neighbour."""
    gateway.memory_journal.kept["e2"] = replace(gateway.memory_journal.kept["e2"], forgotten=True)
    outcome = await fuse(ASK, RECIPE, gateway.live)
    assert "load tests" not in outcome.fused.block
    assert "m2" not in {row["ref"] for row in outcome.receipt.body["candidates"]}


async def test_outcome_has_the_hits_of_the_backends_and_their_neighbours(gateway: FakeGateway) -> None:
    """The question finds e2 in both stores; e1 and e3 are its neighbours. What nobody asks for is not looked up."""
    request = FuseRequest("what do the load tests say?", backends=("one", "two"))
    narrow = replace(RECIPE, expand=ExpandSettings(span=1))
    outcome = await fuse(request, narrow, gateway.without_judge())
    found = outcome.found({"one": ["e1", "e2", "e3"], "two": ["e2"]})
    assert found.keys() == {("one", "e1"), ("one", "e2"), ("one", "e3"), ("two", "e2")}
    assert found["two", "e2"].text == TALK[2][1]
    assert outcome.found({"one": [], "down": ["e2"]}) == {}


async def test_neighbour_of_two_hits_joins_the_better_one(gateway: FakeGateway, tmp_path: Path) -> None:
    """e3 is next to e2, which is found first, and to e4. Its backend makes a new hit each time that it is asked."""
    store = await Copies.open(Opening("copies", tmp_path))
    for position, (speaker, text) in enumerate(TALK):
        await store.remember([Extracted(event(position, speaker, text))])
    journal = replace(gateway.live.journal, records=MemoryJournal().records, neighbours=MemoryJournal().neighbours)
    live = Live({"copies": GuardedBackend("copies", store)}, journal, lexical=True)
    recipe = replace(RECIPE, expand=ExpandSettings(span=1))
    outcome = await fuse(FuseRequest("the load tests say Postgres, or pizza?"), recipe, live)
    refs = {external_ref("copies", f"e{n}"): f"e{n}" for n in range(len(TALK))}
    pool = [(refs[row["ref"]], refs.get(row["neighbour_of"])) for row in outcome.receipt.body["candidates"]]
    assert sorted(pool) == [("e1", "e2"), ("e2", None), ("e3", "e2"), ("e4", None)]


@pytest.mark.row("A129", "only packed memories count as used")
async def test_only_what_was_packed_counts_as_used(gateway: FakeGateway) -> None:
    """By backend and its own ids; bulk retrieval is not use (seed 004)."""
    every = await fuse(FuseRequest("database migration pizza"), RECIPE, gateway.without_judge())
    assert every.used == {"one": ("e4", "e3", "e0"), "two": ("e4", "e3", "e0")}
    few = await fuse(FuseRequest("database migration pizza", budget_chars=190), RECIPE, gateway.without_judge())
    packed = {m.ref for memory in few.fused.memories for m in memory.members}
    assert set(few.used["one"]) == {f"e{ref[1:]}" for ref in packed} == {"e4"}


@pytest.mark.row("A164", "the first results do not depend on the number requested")
async def test_the_first_results_do_not_depend_on_how_many_are_asked(gateway: FakeGateway) -> None:
    """Monotonic in k: the order of one is the head of the order of eight."""
    recipe = replace(RECIPE, pack=replace(RECIPE.pack, excerpts=False))
    eight = (await fuse(ASK, recipe, gateway.live)).fused.memories
    for k in range(1, len(eight)):
        few = (await fuse(replace(ASK, max_results=k), recipe, gateway.live)).fused.memories
        assert [m.ref for m in few] == [m.ref for m in eight[:k]]


@pytest.mark.row("A155", "a request's budget is in characters, tokens or both; the receipt names the limit that binds")
async def test_a_budget_of_the_request_replaces_the_recipes(gateway: FakeGateway) -> None:
    """Tokens alone are not held to the recipe's characters, nor characters alone to its tokens; both hold together."""
    recipe = replace(RECIPE, pack=PackSettings(budget_chars=10, budget_tokens=10, max_results=3, excerpts=False))

    async def budget(**given: Any) -> Mapping[str, Any]:
        outcome = await fuse(replace(ASK, **given), recipe, gateway.without_judge())
        found: Mapping[str, Any] = outcome.receipt.body["budget"]
        assert found["used_tokens"] == estimate_tokens(outcome.fused.block)
        return found

    assert await budget() == {
        "chars": 10,
        "tokens": 10,
        "max_results": 3,
        "max_items": None,
        "format": "fence",
        "used_tokens": 0,
        "bound_by": ["budget_chars"],
    }
    tokens = await budget(budget_tokens=60)
    assert (tokens["chars"], tokens["tokens"], tokens["bound_by"]) == (200_000, 60, ["budget_tokens"])
    chars = await budget(budget_chars=190)
    assert (chars["chars"], chars["tokens"], chars["bound_by"]) == (190, None, ["budget_chars"])
    both = await budget(budget_chars=6000, budget_tokens=60)
    assert (both["chars"], both["tokens"], both["bound_by"]) == (6000, 60, ["budget_tokens"])
    items = await budget(budget_chars=6000, max_items=1, format="cortex")
    assert (items["max_items"], items["format"], items["bound_by"]) == (1, "cortex", ["max_items"])
    results = await budget(budget_chars=6000, max_results=1)
    assert (results["max_results"], results["bound_by"]) == (1, ["max_results"])


async def test_fact_brings_its_source_and_gives_way_to_it(gateway: FakeGateway) -> None:
    """A triple that only a graph found is in the pool with the event that it was derived from, which is packed."""
    fact = Hit("f", "service uses zookeeper", derived_from=("e2",), kind="fact")

    class Graph(Down):
        async def search(self, query: Query) -> Sequence[Hit]:
            return [fact]

    live = replace(gateway.without_judge(), guarded={"graph": GuardedBackend("graph", Graph())})
    outcome = await fuse(FuseRequest("zookeeper"), RECIPE, live)
    decisions = {row["ref"]: row["decision"] for row in outcome.receipt.body["candidates"]}
    assert decisions.pop("m2") == "packed"
    assert list(decisions.values()) == [Decision.SAID_BY_SOURCE]


async def test_fuse_cancels_its_searches_when_it_fails(gateway: FakeGateway) -> None:
    """The journal is busy: the error comes when the backends have answered, and nothing runs on."""

    async def busy(scope: Scope, terms: Sequence[str]) -> Frequencies:
        raise StoreBusy("somebody writes")

    before = asyncio.all_tasks()
    with pytest.raises(StoreBusy):
        await fuse(ASK, RECIPE, replace(gateway.live, journal=replace(gateway.live.journal, frequencies=busy)))
    assert asyncio.all_tasks() == before


async def test_fuse_cancels_everything_when_cancelled(gateway: FakeGateway) -> None:
    """Cancelled while the journal counts and a backend hangs: neither is left."""
    reached, never = asyncio.Event(), asyncio.Event()

    async def hanging(scope: Scope, terms: Sequence[str]) -> Frequencies:
        reached.set()
        await never.wait()
        return Frequencies()

    before = asyncio.all_tasks()
    live = replace(gateway.live, journal=replace(gateway.live.journal, frequencies=hanging))
    asking = asyncio.ensure_future(fuse(ASK, RECIPE, live))
    await reached.wait()
    asking.cancel()
    await asyncio.wait([asking])
    await asyncio.sleep(0)  # one turn of the loop, for what was cancelled to end
    assert asking.cancelled()
    assert asyncio.all_tasks() == before
