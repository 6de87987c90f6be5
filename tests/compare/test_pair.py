"""Two arms over one gather: asked once, each as it would have been alone, and what differs is the arms' doing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.inmemory import InMemory
from fusion.compare.arms import Arm
from fusion.compare.pair import compare
from fusion.contract import Features, Hit, Passage, Place, Query, Scope, Verdict
from fusion.errors import BackendUnreachable, BadInput, NobodyAnswered, NotFound
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.lib.bm25 import Frequencies
from fusion.recall.engine import FuseRequest, fuse
from fusion.recall.gather import Answer, GuardedBackend
from fusion.recall.io import JournalReads, Live
from fusion.recipe import (
    DedupSettings,
    ExpandSettings,
    FuseSettings,
    GatherSettings,
    PackSettings,
    Recipe,
    RerankSettings,
)
from fusion.settings import Settings
from tests.fakes import FakeEmbedder
from tests.patience import load

OPEN = Features(filters=frozenset({"user_id", "agent_id", "run_id", "session_id"}), tenants=True)
PLAIN = Recipe(rerank=RerankSettings(signals={"fusion": 1, "bm25": 2}, judge="never"), expand=ExpandSettings(span=0))
WORDS = ("database", "postgres", "sqlite", "booking", "migration", "tuesday", "pizza", "clogs", "backup", "locked")


@dataclass
class Known0:
    """No journal: whatever is found is foreign."""

    async def records(self, event_ids: Sequence[str]) -> Mapping[str, object]:
        return {}

    async def neighbours(self, event_ids: Sequence[str], span: int) -> Mapping[str, Sequence[object]]:
        return {}

    async def frequencies(self, scope: Scope, terms: Sequence[str]) -> Frequencies:
        return Frequencies()


@dataclass
class Listed:
    """A backend that answers with a list, counts how often it was asked, and knows the neighbours of its hits."""

    hits: Sequence[Hit]
    asked: list[Query] = field(default_factory=list)
    features: Features = OPEN

    async def search(self, query: Query) -> Sequence[Hit]:
        self.asked.append(query)
        return self.hits[: query.limit]

    async def neighbours(self, hits: Sequence[Hit], span: int) -> Sequence[Sequence[Hit]]:
        places = {hit.place.start: hit for hit in self.hits if hit.place}
        return [
            [
                places[n]
                for n in range(h.place.start - span, h.place.start + span + 1)
                if n in places and n != h.place.start
            ]
            if h.place
            else []
            for h in hits
        ]

    async def close(self) -> None:
        """Nothing is open."""


@dataclass
class Down(Listed):
    """A backend whose server is gone."""

    async def search(self, query: Query) -> Sequence[Hit]:
        raise BackendUnreachable("refused")


@dataclass
class Fickle:
    """A judge that never gives one passage the same score twice."""

    name: str = "fickle"
    calls: list[list[str]] = field(default_factory=list)
    scores: count[int] = field(default_factory=lambda: count(3))

    async def judge(self, query: str, passages: Sequence[Passage], deadline_s: float) -> Verdict:
        self.calls.append([p.text for p in passages])
        return Verdict("ok", {p.id: next(self.scores) % 8 + 2.5 for p in passages})

    async def close(self) -> None:
        """Nothing is open."""


def live(judge: Fickle | None = None, *, model: bool = True, **backends: Listed) -> Live:
    known = Known0()
    guarded = {name: GuardedBackend(name, backend) for name, backend in backends.items()}  # type: ignore[arg-type]
    journal = JournalReads(known.records, known.neighbours, known.frequencies, lambda backend, hits: hits)  # type: ignore[arg-type]
    return Live(guarded, journal, FakeEmbedder() if model else None, judge)


def turns(*texts: str) -> list[Hit]:
    return [Hit(f"n{n}", text, place=Place("talk", n, n)) for n, text in enumerate(texts)]


def arm(recipe: Recipe, *backends: str) -> Arm:
    return Arm("arm", recipe, backends)


async def compared(io: Live, a: Arm, b: Arm, question: str = "which database, postgres?") -> dict[str, Any]:
    return (await compare(FuseRequest(question), a, b, io)).comparison


def unfenced(block: str) -> str:
    return re.sub(r'nonce="\w*"', "", block)


some_hits = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join), max_size=8)
some_recipes = st.builds(
    Recipe,
    gather=st.builds(GatherSettings, st.just(60_000), st.integers(1, 8), st.integers(0, 20)),
    dedup=st.builds(DedupSettings, st.sampled_from([0.4, 0.6, 1.0]), st.booleans(), st.integers(1, 12)),
    fuse=st.builds(FuseSettings, st.sampled_from([1, 60])),
    expand=st.builds(ExpandSettings, st.integers(0, 3), st.integers(1, 20)),
    rerank=st.builds(
        RerankSettings,
        signals=st.just({"fusion": 1.0, "bm25": 2.0, "maxsim": 3.0}),
        graph_boost=st.sampled_from([0.0, 0.3]),
        judge=st.just("never"),
        floor=st.sampled_from([0.0, 0.3]),
    ),
    pack=st.builds(PackSettings, st.sampled_from([300, 6000]), st.integers(1, 4), st.booleans()),
)


@pytest.mark.feature("with one gather, each arm answers as it would alone, and every backend is asked once")
@settings(max_examples=60, deadline=None)
@given(some_hits, some_hits, some_recipes, some_recipes)
async def test_each_arm_answers_as_it_would_have_alone(one: list[str], two: list[str], a: Recipe, b: Recipe) -> None:
    """Any two recipes, each over its own backends: the same block as a gather of its own gives. Each is asked once."""
    stores = {"one": Listed(turns(*one)), "two": Listed(turns(*reversed(two)))}
    io = live(**stores)
    found = await compared(io, arm(a, "one", "two"), arm(b, "two"))
    assert [len(store.asked) for store in stores.values()] == [1, 1]
    for side, recipe, names in ((found["a"], a, ("one", "two")), (found["b"], b, ("two",))):
        alone = (await fuse(FuseRequest("which database, postgres?", backends=names), recipe, io)).fused
        assert unfenced(side["block"]) == unfenced(alone.block)
        assert [row["name"] for row in side["backends"]] == list(names)


@pytest.mark.feature("… an arm against itself shows no difference", of="with one gather, each arm answers")
@settings(max_examples=30, deadline=None)
@given(some_hits, some_recipes)
async def test_an_arm_against_itself_shows_no_difference(texts: list[str], recipe: Recipe) -> None:
    """a and b the same: one block, nothing found by one alone, and equal reasons; only the receipts are two."""
    io = live(one=Listed(turns(*texts)), two=Listed(turns(*texts[::-1])))
    found = await compared(io, arm(recipe, "one", "two"), arm(recipe, "one", "two"))
    assert found["a"]["block"] == found["b"]["block"]
    assert (found["only_a"], found["only_b"]) == ((), ())
    assert len(found["both"]) == sum(len(memory.members) for memory in found["a"]["memories"])
    assert all(why["a"] == why["b"] for why in found["why"])
    assert found["a"]["receipt_id"] != found["b"]["receipt_id"]


@pytest.mark.feature(
    "… a judge is asked once for the candidates of both arms",
    of="with one gather, each arm answers",
)
async def test_compare_asks_the_judge_once_for_both_arms() -> None:
    """Asked once for what both would show it, though each call of it would score otherwise; two heads, one verdict."""
    judge = Fickle()
    io = live(judge, one=Listed(turns("database", "postgres", "database postgres", "pizza")))
    always = replace(PLAIN, rerank=replace(PLAIN.rerank, judge="always", head=2))
    same = await compared(io, arm(always, "one"), arm(always, "one"))
    assert len(judge.calls) == 1
    assert same["a"]["block"] == same["b"]["block"]
    deeper = replace(always, rerank=replace(always.rerank, head=3))
    other = await compared(io, arm(always, "one"), arm(deeper, "one"))
    assert [len(call) for call in judge.calls] == [2, 3]  # the head of three has the head of two in it
    scored = {why["ref"]: (why["a"]["judge"], why["b"]["judge"]) for why in other["why"]}
    assert sum(a == b and a is not None for a, b in scored.values()) == 2
    assert other["a"]["rerank"]["status"] == other["b"]["rerank"]["status"] == "ok"


async def test_an_arm_that_wants_no_judge_is_not_judged() -> None:
    """The other arm's verdict does not touch it."""
    judge = Fickle()
    io = live(judge, one=Listed(turns("database", "postgres")))
    always = replace(PLAIN, rerank=replace(PLAIN.rerank, judge="always"))
    found = await compared(io, arm(PLAIN, "one"), arm(always, "one"))
    assert (found["a"]["rerank"]["status"], found["b"]["rerank"]["status"]) == ("off", "ok")
    assert {why["a"]["judge"] for why in found["why"]} == {None}


@pytest.mark.feature("memories that only one arm has are listed with the other's reason")
async def test_compare_gives_reasons_for_memories_of_one_arm() -> None:
    """Left out by the packing, beyond the depth, or with a backend that was not asked: the other row says which."""
    one, two = Listed(turns("database", "postgres database", "postgres")), Listed([Hit("z", "postgres backup")])
    small = replace(PLAIN, gather=GatherSettings(60_000, 2), pack=PackSettings(max_results=1, excerpts=False))
    found = await compared(
        live(one=one, two=two), arm(replace(PLAIN, pack=PackSettings(excerpts=False)), "one", "two"), arm(small, "one")
    )
    texts = {m.ref: m.text for memory in found["a"]["memories"] for m in memory.members}
    why = {texts[row["ref"]]: row["b"]["reason"] for row in found["why"]}
    assert why == {
        "database": "packed",
        "postgres database": "the block has all its excerpts",
        "postgres": "not among its candidates",
        "postgres backup": "its backends were not asked",
    }
    assert len(found["only_a"]) == 3
    assert found["only_b"] == ()


@pytest.mark.feature(
    "… the same memory from two stores is the same in both arms",
    of="memories that only one arm has",
)
async def test_one_memory_in_two_stores_is_the_same_in_both_arms() -> None:
    """Foreign stores cite it by refs of their own; still neither arm has it alone."""
    io = live(one=Listed([Hit("p", "We moved to Postgres")]), two=Listed([Hit("q", "we moved to postgres!")]))
    found = await compared(io, arm(PLAIN, "one"), arm(PLAIN, "two"))
    assert (found["only_a"], found["only_b"], len(found["both"])) == ((), (), 1)
    (why,) = found["why"]
    assert why["a"]["ref"] != why["b"]["ref"]
    assert (why["a"]["found_by"], why["b"]["found_by"]) == ({"one": 1}, {"two": 1})


class Slow(Live):
    """A world in which one backend took 900 ms by the clock."""

    async def answers(self, query: Query, names: Sequence[str] | None, deadline_s: float) -> Sequence[Answer]:
        found = await super().answers(query, names, deadline_s)
        return [replace(one, took_ms=900.0) if one.backend == "slow" else one for one in found]


@pytest.mark.feature(
    "… an arm with a short deadline does not get later answers",
    of="with one gather, each arm answers",
)
async def test_an_arm_in_a_hurry_does_not_get_what_came_too_late_for_it() -> None:
    """1,000 ms leave the backends 800: an answer after 900 is a timeout there, and an answer in the patient arm."""
    ready = live(slow=Listed(turns("database")), quick=Listed([Hit("q", "postgres")]))
    io = Slow(**{name: getattr(ready, name) for name in ("guarded", "journal", "embedder")})
    patient, hurried = (replace(PLAIN, gather=GatherSettings(ms, 10)) for ms in (60_000, 1_000))
    found = await compared(io, arm(patient, "slow", "quick"), arm(hurried, "slow", "quick"))
    assert [row["status"] for row in found["a"]["backends"]] == ["ok", "ok"]
    assert [row["status"] for row in found["b"]["backends"]] == ["timeout", "ok"]
    assert (found["a"]["degraded"], found["b"]["degraded"], found["b"]["coverage"]["ratio"]) == (False, True, 0.5)
    assert (len(found["only_a"]), found["a"]["waited_ms"]) == (1, 900.0)


@pytest.mark.feature("an arm without answers is an error that names it; a failed backend degrades")
async def test_a_failed_backend_degrades_and_a_dead_arm_is_an_error() -> None:
    """One of two down: degraded, with its coverage. All that an arm asks down: an error that names the arm."""
    io = live(up=Listed(turns("database")), down=Down([]))
    found = await compared(io, arm(PLAIN, "up", "down"), arm(PLAIN, "up"))
    assert (found["a"]["degraded"], found["a"]["coverage"]["ratio"], found["b"]["degraded"]) == (True, 0.5, False)
    with pytest.raises(NobodyAnswered, match=r"arm b \(arm\): no backend answered"):
        await compared(io, arm(PLAIN, "up"), arm(PLAIN, "down"))


async def test_stop_words_ask_nobody() -> None:
    """Both arms say so; nothing is asked."""
    store = Listed(turns("database"))
    found = await compared(live(one=store), arm(PLAIN, "one"), arm(PLAIN, "one"), "who is it?")
    assert found["a"]["abstained"] == found["b"]["abstained"] == "the query has only stop words"
    assert store.asked == []


class TestAHome:
    """Through `Gateway`, as a door asks it."""

    def home(self, tmp_path: Path) -> Settings:
        tables = {name: {"adapter": "adapters.inmemory:InMemory"} for name in ("one", "two")}
        return load(home=tmp_path, backends_only=True, embedder={"adapter": ""}, backends=tables)

    @pytest.mark.feature("a comparison keeps both receipts and marks no memory as used")
    async def test_both_receipts_are_kept_and_nothing_counts_as_used(self, tmp_path: Path) -> None:
        """Each arm's receipt says why; no backend hears that anything reached a prompt."""
        ada = Scope(user_id="ada", audience="private")
        async with Gateway.open(self.home(tmp_path)) as gateway:
            await gateway.remember([NewMemory("We moved to Postgres", scope=ada)])
            await gateway.settle()
            found = await gateway.compare(FuseRequest("postgres?", ada), "default", "seed003@-two")
            for side, recipe in ((found["a"], "default"), (found["b"], "seed003")):
                assert "We moved to Postgres" in side["block"]
                assert (await gateway.receipt(side["receipt_id"]))["recipe"]["name"] == recipe
                with pytest.raises(NotFound):
                    await gateway.receipt(side["receipt_id"], "another tenant")
        uses = [guarded.backend.uses for guarded in gateway.guarded.values() if isinstance(guarded.backend, InMemory)]
        assert uses == [Counter(), Counter()]

    async def test_scopes_hold(self, tmp_path: Path) -> None:
        """Another user's question finds nothing of it in either arm."""
        async with Gateway.open(self.home(tmp_path)) as gateway:
            await gateway.remember([NewMemory("We moved to Postgres", scope=Scope(user_id="ada"))])
            await gateway.settle()
            found = await gateway.compare(FuseRequest("postgres?", Scope(user_id="bo")), "default", "deep")
            assert (found["a"]["block"], found["b"]["block"], found["why"]) == ("", "", ())

    async def test_a_wrong_arm_is_told_before_anything_is_asked(self, tmp_path: Path) -> None:
        """It names the arm and what there is."""
        async with Gateway.open(self.home(tmp_path)) as gateway:
            with pytest.raises(BadInput, match="arm b: there is no backend 'three'; there are one, two"):
                await gateway.compare(FuseRequest("postgres?"), "all", "-three")
