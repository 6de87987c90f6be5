"""Memory Cortex's search and recall over the fused memory: the scores, what found each result, and what fails."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import pytest

from fusion.contract import Asker, Scope
from fusion.gateway.gateway import Gateway
from fusion.gateway.memory_cortex import id_of
from fusion.ingest.intake import NewMemory
from fusion.recall.engine import FuseRequest
from fusion.settings import MemoryCortexSettings, Settings
from tests.fakes import FakeEmbedder, FakeModel
from tests.gateway.helpers import small
from tests.patience import load

ANA, OMAR = Scope(user_id="ana", audience="private"), Scope(user_id="omar", audience="private")
RUST, TEA, MILL = "Prefers Rust for systems programming", "Drinks tea with lemon", "The mill is closed in March"
SYNONYMS = {"languages": "rust", "beverage": "tea"}


class Synonymous:
    """Opens an embedder that knows some synonyms."""

    @classmethod
    async def open(cls, folder: Path, options: Mapping[str, Any]) -> FakeEmbedder:
        return FakeEmbedder(synonyms=SYNONYMS)


class Failing:
    """Opens an embedder that cannot embed."""

    @classmethod
    async def open(cls, folder: Path, options: Mapping[str, Any]) -> FakeEmbedder:
        return FakeEmbedder(failing=True)


class Writing(FakeModel):
    """A language model that answers with one true and one made-up sentence."""

    @classmethod
    def open(cls, options: Mapping[str, object]) -> Self:
        true, made_up = {"text": "Prefers Rust.", "refs": ["m1"]}, {"text": "Owns a yellow submarine.", "refs": ["m1"]}
        return cls(json.dumps({"sentences": [true, made_up]}))


def embedded(home: Path, embedder: type[object], **tables: Any) -> Settings:
    named = {"adapter": f"tests.gateway.test_memory_cortex:{embedder.__name__}"}
    backends = {"cortex": {"adapter": "adapters.cortex:Cortex"}, "triples": {"adapter": "adapters.triples:Triples"}}
    return load(home=home, backends_only=True, embedder=named, backends=backends, **tables)


@asynccontextmanager
async def remembering(settings: Settings) -> AsyncIterator[Gateway]:
    async with Gateway.open(settings) as gateway:
        await gateway.remember([NewMemory(text, scope=ANA, kind="preference") for text in (RUST, TEA)])
        await gateway.remember([NewMemory(MILL, scope=ANA), NewMemory("Prefers Go", scope=OMAR)])
        await gateway.settle()
        yield gateway


@pytest.mark.row("A093", "`POST /hybrid-search` has the seed's fields, and says which search found each result")
async def test_hybrid_search_has_the_fields_of_the_seed(home: Path) -> None:
    async with remembering(embedded(home, Synonymous)) as gateway:
        found = await gateway.hybrid_search("which programming languages", ANA)
        assert found["count"] == len(found["results"]) > 0
        best = found["results"][0]
        assert {**best, "score": 0, "created_at": ""} == {
            "id": 1,
            "ref": "m1",
            "user_id": "ana",
            "topic": "preferences",
            "fact": RUST,
            "importance": 7,
            "created_at": "",
            "score": 0,
            "source": "fts5+vector",
        }
        assert best["created_at"].endswith("+00:00")
        beverage = (await gateway.hybrid_search("a beverage", ANA))["results"][0]
        assert (beverage["fact"], beverage["source"]) == (TEA, "vector")
        assert beverage["score"] <= 0.6


@pytest.mark.row("A094", "the score is .4 of the words' and .6 of the vectors', each 0 to 1; each id is there once")
async def test_hybrid_search_fuses_the_two_scores(home: Path) -> None:
    """The same text as the question has both scores at 1; the backends' copies are one result; the best N are kept."""
    async with remembering(embedded(home, Synonymous)) as gateway:
        found = (await gateway.hybrid_search(RUST, ANA))["results"]
        assert found[0]["score"] == pytest.approx(1.0, abs=0.01)
        assert [one["score"] for one in found] == sorted((one["score"] for one in found), reverse=True)
        assert len({one["id"] for one in found}) == len(found)
        assert (await gateway.hybrid_search(RUST, ANA, limit=1))["results"] == found[:1]


async def test_hybrid_search_asks_for_one_user(home: Path) -> None:
    async with remembering(embedded(home, Synonymous)) as gateway:
        for scope, texts in ((OMAR, {"Prefers Go"}), (ANA, {RUST})):
            found = (await gateway.hybrid_search("what is preferred: prefers", scope))["results"]
            assert {one["fact"] for one in found if "Prefers" in one["fact"]} == texts
            assert {one["user_id"] for one in found} == {scope.user_id}


@pytest.mark.row("A104", "embedder down: words alone, silently; model down: raw search, and a synthesis by rules")
@pytest.mark.parametrize("settings", [small, lambda home: embedded(home, Failing)], ids=["none", "failing"])
async def test_hybrid_search_without_an_embedder_is_by_words(home: Path, settings: Any) -> None:
    async with remembering(settings(home)) as gateway:
        found = (await gateway.hybrid_search("tea with lemon", ANA))["results"]
        assert [(one["fact"], one["source"], one["score"]) for one in found] == [(TEA, "fts5", 0.4)]


WIFI = "Hi Max! The wifi password of the cabin is on the fridge. Can you note it?"
SAID_OF_WIFI = "The wifi password of the cabin is on the fridge."
SMALL_TALK = (
    "Where is the wifi password?",
    "Great question! Let me check the wifi password of the cabin.",
    "Hi! Does the cabin have wifi?",
    "Thanks, bye! Shall I ask for the wifi tomorrow?",
)


@pytest.mark.row("A093", "`/hybrid-search`, `/recall` and auto-recall show what turns state, without small talk")
async def test_turns_are_shown_by_what_they_state(home: Path) -> None:
    """So are the synthesis for the next question, and nothing is left out that a user stated. `/fuse` shows turns."""
    scope = Scope(user_id="ana", agent_id="main", session_id="agent:main:telegram:1")
    said = (SMALL_TALK[0], SMALL_TALK[1], SMALL_TALK[2], "The router is new.", WIFI, "Noted!", SMALL_TALK[3], "Bye!")
    roles = ("user", "assistant") * 4
    history = [{"role": role, "content": text} for role, text in zip(roles, said, strict=True)]
    asked = "where is the wifi password of the cabin?"
    async with Gateway.open(small(home)) as gateway:
        await gateway.ingest_history(scope, json.dumps({"messages": history}).encode(), debounce=False)
        await gateway.settle()
        found = (await gateway.hybrid_search(asked, ANA))["results"]
        assert [one["fact"] for one in found] == [SAID_OF_WIFI]
        asker = Asker("main", "agent:main:telegram:7")
        recalled = FuseRequest(asked, ANA, recipe="seed002", asker=asker, timeout_ms=60_000)
        fused = await gateway.fuse(recalled)
        assert [one.members[0].text for one in fused.memories] == [SAID_OF_WIFI]
        assert f" {SAID_OF_WIFI}\n" in fused.block
        assert not any(text in fused.block for text in (*SMALL_TALK, "Max"))
        await gateway.syntheses.settle()
        synthesis = (await gateway.session_state(ANA, asker))["memoryCortexSynthesis"]
        assert synthesis is not None
        assert synthesis["response"] == SAID_OF_WIFI
        answer = await gateway.synthesis(asked, ANA)
        assert answer["response"].startswith(f"{SAID_OF_WIFI} [")
        assert answer["memories_used"] == 1
        whole = (await gateway.fuse(FuseRequest(asked, ANA, timeout_ms=60_000, fill=True))).block
        assert WIFI in whole
        assert SMALL_TALK[0] in whole


@pytest.mark.feature("`/hybrid-search` masks the secrets of notes, as blocks do")
async def test_hybrid_search_masks_secrets_of_notes(home: Path) -> None:
    """Those of memories are masked before they are stored."""
    key = f"sk-ant-api03-{'a1B2' * 24}"
    notes = home.parent / "notes"
    notes.mkdir()
    (notes / "keys.md").write_text(f"The deploy key of the harbour is {key} for now.\n", encoding="utf-8")
    backend = {"adapter": "adapters.markdown:Markdown", "paths": [str(notes)], "watch": False, "deadline_ms": 60_000}
    settings = load(home=home, backends_only=True, embedder={"provider": "none"}, backends={"markdown": backend})
    async with Gateway.open(settings) as gateway:
        await gateway.settle()
        (found,) = (await gateway.hybrid_search("the deploy key of the harbour", Scope(audience="private")))["results"]
        assert found["fact"] == "The deploy key of the harbour is sk-ant…a1B2 for now."


@pytest.mark.row("A095", "`POST /recall` answers in sentences with refs, by the model of the settings or by rules")
async def test_synthesis_is_by_the_model_of_the_settings(home: Path) -> None:
    """What the model made up is left out; without a model the sentences are quoted, and the reply says so."""
    model = {"adapter": "tests.gateway.test_memory_cortex:Writing", "quiet_s": 3600}
    async with remembering(embedded(home, Synonymous, model=model)) as gateway:
        made = await gateway.synthesis("which programming languages are preferred?", ANA)
        assert (made["response"], made["synthesis"], made["refs"]) == ("Prefers Rust. [m1]", "model", ["m1"])
        assert (made["memories_used"], made["memories_searched"] >= 1) == (1, True)


async def test_synthesis_without_a_model_quotes(home: Path) -> None:
    async with remembering(small(home)) as gateway:
        made = await gateway.synthesis("who drinks tea with lemon?", ANA)
        assert (made["synthesis"], made["refs"]) == ("rules", ["m2"])
        assert made["response"] == f"{TEA} [m2]"
        nothing = await gateway.synthesis("submarines", ANA)
        assert (nothing["response"], nothing["memories_used"]) == ("", 0)


async def test_search_and_recall_find_nothing_while_they_are_switched_off(home: Path) -> None:
    off = small(home).model_copy(update={"memory_cortex": MemoryCortexSettings(enabled=False)})
    async with remembering(off) as gateway:
        assert await gateway.hybrid_search(TEA, ANA) == {"results": [], "count": 0}
        assert (await gateway.synthesis(TEA, ANA))["response"] == ""


@pytest.mark.row("A103", "the session's fields: when it was taken in and recalled, facts injected, and the synthesis")
async def test_session_has_the_fields_of_the_seed(home: Path) -> None:
    """By the names of the seed, in milliseconds, also after a restart; a session that never was has none."""
    asker = Asker("main", "agent:main:telegram:7")
    async with remembering(small(home)) as gateway:
        nobody = await gateway.session_state(ANA, Asker(None, "never"))
        assert {**nobody, "session_id": ""} == {
            "session_id": "",
            "memoryCortexIngestedAt": None,
            "memoryCortexRecalledAt": None,
            "memoryCortexFactsInjected": 0,
            "memoryCortexSynthesis": None,
        }
        body = json.dumps({"messages": [{"role": "user", "content": "My boat is at the pier"}]}).encode()
        scope = Scope(user_id="ana", agent_id="main", session_id="agent:main:telegram:7")
        await gateway.ingest_history(scope, body, debounce=False)
        await gateway.settle()
        asked = "who drinks tea with lemon?"
        await gateway.fuse(FuseRequest(asked, ANA, asker=asker, format="long-term", timeout_ms=60_000))
        await gateway.settle()
        found = await gateway.session_state(ANA, asker)
        started = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
        assert (found["memoryCortexIngestedAt"] or 0) > started
        assert (found["memoryCortexRecalledAt"] or 0) > started
        assert found["memoryCortexFactsInjected"] == 1
        synthesis = found["memoryCortexSynthesis"]
        assert synthesis is not None
        assert (synthesis["query"], synthesis["response"]) == (asked, TEA)
        assert synthesis["cachedAt"] > started
        assert (await gateway.session_state(OMAR, asker))["memoryCortexRecalledAt"] is None
    async with Gateway.open(small(home)) as gateway:
        again = await gateway.session_state(ANA, asker)
        assert again["memoryCortexIngestedAt"] == found["memoryCortexIngestedAt"]
        assert (again["memoryCortexFactsInjected"], again["memoryCortexSynthesis"]) == (1, None)


def test_ids_are_exact_numbers_in_every_language() -> None:
    """A memory of another system has a number of its own above those of the journal."""
    assert id_of("m1") == 1
    other = id_of("x0123456789")
    assert 1 << 48 <= other < 1 << 53
    assert other == id_of("x0123456789") != id_of("x0123456788")
