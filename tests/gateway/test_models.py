"""A gateway with an embedding provider or a language model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import pytest

from adapters.inmemory import InMemory
from fusion.contract import Opening, Place
from fusion.discover.memory_cortex import read_block
from fusion.errors import (
    SettingsError,
)
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.settings import Settings
from tests import chaos
from tests.chaos import Call, Chaos
from tests.fakes import FakeModel, word_vector
from tests.gateway.helpers import ASKED, DECIDED, NADIA, remember
from tests.patience import load
from tests.test_settings import environment


async def ollama(call: Call) -> None:
    """Ollama's own form, with the 768 numbers of its usual model."""
    vectors = [word_vector(text, 768).tolist() for text in call.json["input"]]
    await call.reply(json.dumps({"model": call.json["model"], "embeddings": vectors}).encode())


class TestEmbeddingProvider:
    """Vectors from a server: here one on loopback that answers as Ollama does."""

    @pytest.mark.feature("providers: a question sends only its own text")
    @pytest.mark.model
    async def test_provider_receives_the_question_alone(self, home: Path) -> None:
        """What is remembered is sent once for all four backends, a question once; candidates are compared here."""
        async with Chaos(behaviour=ollama) as server:
            chosen = load(home=home, embedder={"provider": "ollama", "url": server.url})
            async with Gateway.open(chosen) as gateway:
                await remember(gateway, DECIDED)
                before = len(server.calls)
                fused = await gateway.fuse(ASKED, scope=NADIA)
                assert DECIDED in fused.block
                assert (await gateway.status())["embedder"] == "ollama/nomic-embed-text@768"
        sent = [text for call in server.calls for text in call.json["input"]]
        assert sent.count(f"search_document: {DECIDED}") == 1
        assert [text for call in server.calls[before:] for text in call.json["input"]] == [f"search_query: {ASKED}"]

    @pytest.mark.model
    async def test_provider_that_is_down_leaves_search_by_words(self, home: Path) -> None:
        """Words answer, named as degraded with how to fix it; when it is back, the vectors fill in."""
        async with Chaos(behaviour=chaos.status(503)) as server:
            chosen = load(home=home, embedder={"provider": "ollama", "url": server.url})
            async with Gateway.open(chosen) as gateway:
                await gateway.remember([NewMemory(DECIDED, scope=NADIA)])
                await gateway.settle()
                assert DECIDED in (await gateway.fuse(ASKED, scope=NADIA)).block
            async with Gateway.open(chosen) as gateway:
                assert (await gateway.fuse(ASKED, scope=NADIA)).degraded  # the first one after a start, too
                notes = [note for state in await gateway.backends() for note in state["notes"]]
                assert any("vectors are not filled in" in note and "answered 503" in note for note in notes)

    @pytest.mark.row("A104", "embedder down: a home with the settings of the seed opens, and words find")
    @pytest.mark.model
    async def test_home_with_the_embedder_of_memory_cortex_opens_while_it_is_down(self, home: Path) -> None:
        """Nothing listens at the address of the converted block."""
        async with Chaos() as server:
            pass
        port = int(server.url.rpartition(":")[2])
        block = read_block(Path("openclaw.json"), {"embedHost": "127.0.0.1", "embedPort": port}).settings
        chosen = load(
            home=home, embedder={name: value for (table, name), value in block.items() if table == "embedder"}
        )
        async with Gateway.open(chosen) as gateway:
            await gateway.remember([NewMemory(DECIDED, scope=NADIA)])
            await gateway.settle()
            assert DECIDED in (await gateway.fuse(ASKED, scope=NADIA)).block
            assert (await gateway.status())["embedder"] == "compatible/nomic-embed-text@768"

    @pytest.mark.model
    async def test_a_home_opens_while_the_server_of_its_model_is_down(self, home: Path) -> None:
        """`fusion embed-serve` does not run: words find, the answer is degraded, and a note names the fix."""
        async with Chaos() as server:
            pass
        chosen = load(home=home, embedder={"provider": "embed-serve", "url": server.url})
        async with Gateway.open(chosen) as gateway:
            await gateway.remember([NewMemory(DECIDED, scope=NADIA)])
            await gateway.settle()
            found = await gateway.fuse(ASKED, scope=NADIA)
            assert DECIDED in found.block
            assert found.degraded
            notes = [note for state in await gateway.backends() for note in state["notes"]]
            assert any("start it with fusion embed-serve" in note for note in notes), notes

    async def test_unknown_provider_stops_the_start(self, home: Path) -> None:
        """A079: without a key or a server the home does not open, and no other provider is used."""
        chosen = load(home=home, embedder={"provider": "voyage"})
        with pytest.raises(SettingsError, match="there is no key in VOYAGE_API_KEY"):
            async with Gateway.open(chosen):
                raise AssertionError("it opened")

    @pytest.mark.row("A079", "providers: `none` searches by words only")
    async def test_provider_none_searches_by_words(self, home: Path) -> None:
        """A079: `provider = "none"` is noted, and nothing is called degraded for it."""
        async with Gateway.open(load(home=home, embedder={"provider": "none"})) as gateway:
            await remember(gateway, DECIDED)
            fused = await gateway.fuse(ASKED, scope=NADIA)
            assert DECIDED in fused.block
            assert not fused.degraded


class OpeningKeeper(InMemory):
    """Keeps what it was opened with."""

    opening: Opening | None = None

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        backend = cls()
        backend.opening = opening
        return backend


class Scripted(FakeModel):
    """A language model that answers every question alike."""

    @classmethod
    def open(cls, options: Mapping[str, object]) -> Self:
        return cls('[{"text": "Nadia moved to Faro.", "confidence": 0.7}]')


def modelled(home: Path, **model: object) -> Settings:
    """A home with one backend and a language model."""
    tables = {"notes": {"adapter": "tests.gateway.test_models:OpeningKeeper"}}
    return load(home=home, backends_only=True, embedder={"adapter": ""}, model=model, backends=tables)


def opening_of(gateway: Gateway) -> Opening:
    backend = gateway.guarded["notes"].backend
    assert isinstance(backend, OpeningKeeper)
    assert backend.opening is not None
    return backend.opening


class TestLanguageModel:
    @pytest.mark.row("A043", "… a key in the environment alone sends nothing", of="a model distils conversations")
    async def test_key_in_the_environment_alone_sends_nothing(self, tmp_path: Path) -> None:
        """Only the configuration turns a model on; without it no backend gets one, and nothing is distilled."""
        with environment(ANTHROPIC_API_KEY="sk-made-up", OPENAI_API_KEY="sk-made-up"):
            async with Gateway.open(modelled(tmp_path)) as gateway:
                assert gateway.distiller is None
                assert opening_of(gateway).model is None
                assert not any("language model" in note for note in gateway.notes)

    async def test_conversation_is_distilled_and_found(self, tmp_path: Path) -> None:
        """With a model a turn becomes a memory in every backend, and each backend is opened with the model."""
        chosen = {"adapter": "tests.gateway.test_models:Scripted", "quiet_s": 0}
        async with Gateway.open(modelled(tmp_path, **chosen)) as gateway:
            turn = NewMemory("I have a flat by the sea now.", scope=NADIA, kind="turn", speaker="Nadia")
            await gateway.remember([turn])
            await gateway.settle()
            assert opening_of(gateway).model is not None
            answer = await gateway.search("notes", "Faro", NADIA)
            assert [hit.text for hit in answer.hits if hit.derived_from] == ["Nadia moved to Faro."]

    async def test_model_without_its_key_is_reported_as_degraded(self, tmp_path: Path) -> None:
        """The gateway starts, learns by rules, and names the variable."""
        chosen = {"adapter": "adapters.models.gateway:Gateway", "api_key_env": "NOBODYS_KEY"}
        async with Gateway.open(modelled(tmp_path, **chosen)) as gateway:
            assert gateway.distiller is None
            assert any("NOBODYS_KEY is not set" in note for note in gateway.notes)

    async def test_wrong_model_option_stops_the_start(self, tmp_path: Path) -> None:
        """It is named, as every mistake in the configuration is."""
        chosen = {"adapter": "adapters.models.gateway:Gateway", "base_url": "ftp://x"}
        with pytest.raises(SettingsError, match="base_url"):
            async with Gateway.open(modelled(tmp_path, **chosen)):
                pass


@pytest.mark.model
async def test_settle_waits_for_the_texts_that_a_question_put_off(home: Path) -> None:
    """The backend encodes nothing, so nobody did before the first question finds the turn."""
    one = {"one": {"adapter": "adapters.inmemory:InMemory"}}
    said = NewMemory("the boat to Kirkenes was late again", speaker="Bo", place=Place("talk", 0, 0), scope=NADIA)
    async with Gateway.open(load(home=home, backends_only=True, backends=one)) as gateway:
        await gateway.remember([said])
        await gateway.settle()
        first = await gateway.fuse("which boat was late?", scope=NADIA)
        await gateway.settle()
        second = await gateway.fuse("which boat was late?", scope=NADIA)
    assert said.text in first.block
    assert said.text in second.block
    assert (first.rerank["without_vectors"], "without_vectors" in second.rerank) == (1, False)
    assert not first.degraded
