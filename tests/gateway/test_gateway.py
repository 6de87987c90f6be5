"""A whole home, opened as a door opens it: real journal, real backends, real files."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusion.contract import Scope
from fusion.errors import (
    BadInput,
    HomeLocked,
    NotFound,
    Overloaded,
    SettingsError,
)
from fusion.gateway.admission import Admission
from fusion.gateway.gateway import Gateway
from fusion.gateway.import_class import resolve
from fusion.ingest.intake import NewMemory
from fusion.recall.engine import FuseRequest, fuse
from fusion.recall.recording import Replay
from fusion.settings import Settings
from fusion.trust import make_home
from tests.gateway.helpers import ASKED, DECIDED, EMBEDDED, NADIA, OMAR, embedded, remember, small
from tests.patience import load


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


async def assert_life_of_a_memory(chosen: Settings, names: set[str]) -> None:
    """A memory is remembered, found, explained and forgotten; afterwards no answer has it."""
    async with Gateway.open(chosen) as gateway:
        ref, other = await remember(gateway, DECIDED, "Nadia prefers tea in the morning")
        fused = await gateway.fuse(ASKED, scope=NADIA)
        assert DECIDED in fused.block
        assert ref in [member.ref for memory in fused.memories for member in memory.members]
        assert not fused.degraded
        assert {row["name"] for row in fused.backends} == names

        receipt = await gateway.receipt(fused.receipt_id)
        packed = {row["ref"] for row in receipt["candidates"] if row["decision"] == "packed"}
        assert ref in packed
        assert DECIDED not in json.dumps(receipt)
        whole = await gateway.memory(ref, NADIA)
        assert (whole["text"], whole["supersedes"]) == (DECIDED, None)
        assert whole["backends"]
        assert set(whole["backends"]) <= names

        forgotten = await gateway.forget(ref, NADIA)
        assert forgotten.done
        assert "deleted" in forgotten.backends.values()
        again = await gateway.fuse(ASKED, scope=NADIA)
        assert DECIDED not in again.block
        for name in names:
            hits = (await gateway.search(name, ASKED, NADIA)).hits
            assert [hit for hit in hits if DECIDED in hit.text] == []
        with pytest.raises(NotFound):
            await gateway.memory(ref, NADIA)
        assert (await gateway.memory(other, NADIA))["kind"] == "note"


class TestLifeOfAMemory:
    async def test_memory_in_the_reference_backend(self, home: Path) -> None:
        """Over the reference backend."""
        await assert_life_of_a_memory(small(home), {"one", "two"})

    async def test_memory_in_four_embedded_backends_without_a_model(self, home: Path) -> None:
        """Over the four embedded backends, which search by words here."""
        await assert_life_of_a_memory(embedded(home), EMBEDDED)

    @pytest.mark.feature("the life of one memory in the four embedded backends with the real model")
    @pytest.mark.model
    async def test_memory_in_four_embedded_backends(self, home: Path) -> None:
        """The same with the real model, as a new user has it; a paraphrase without a common word is found as well."""
        chosen = load(home=home)
        await assert_life_of_a_memory(chosen, EMBEDDED)
        async with Gateway.open(chosen) as gateway:
            await remember(gateway, DECIDED)
            fused = await gateway.fuse("which data store are reservations kept in?", scope=NADIA)
            states = {state["name"]: state for state in await gateway.backends()}
            assert (await gateway.ready())["notes"] == []
        assert DECIDED in fused.block
        assert {(s["name"], s["status"], s["backlog"], s["vectors_pending"]) for s in states.values()} == {
            (name, "ready", 0, 0) for name in EMBEDDED
        }
        assert states["cortex"]["vectors"] == states["cortex"]["items"] == 2

    async def test_acknowledged_memories_survive_reopening(self, home: Path) -> None:
        """Also for backends that keep nothing themselves and for what was never delivered before the end."""
        async with Gateway.open(small(home)) as gateway:
            [kept] = await gateway.remember([NewMemory(DECIDED, scope=NADIA)])
        async with Gateway.open(embedded(home)) as gateway:
            await gateway.settle()
            assert (await gateway.memory(kept.ref, NADIA))["event_id"] == kept.event_id
            assert DECIDED in (await gateway.fuse(ASKED, scope=NADIA)).block

    @pytest.mark.row("A163", "a backend that joins later catches up")
    async def test_backend_added_later_gets_all_memories(self, home: Path) -> None:
        """It learns all that was acknowledged before it was configured, without what was forgotten."""
        async with Gateway.open(small(home, one="adapters.inmemory:InMemory")) as gateway:
            refs = await remember(gateway, *(f"Note {i} about the harbour" for i in range(5)))
            await gateway.forget(refs[2], NADIA)
        late = small(home, one="adapters.inmemory:InMemory", late="adapters.inmemory:InMemory")
        async with Gateway.open(late) as gateway:
            await gateway.settle()
            found = {hit.text for hit in (await gateway.search("late", "harbour", NADIA)).hits}
        assert found == {f"Note {i} about the harbour" for i in (0, 1, 3, 4)}

    async def test_recording_replays_to_the_same_block(self, home: Path) -> None:
        """What was recorded of a real request gives the same block and memories, byte for byte."""
        async with Gateway.open(embedded(home)) as gateway:
            await remember(gateway, DECIDED, "The bookings database runs on SQLite today", "Omar keeps bees")
            request = FuseRequest(ASKED, scope=NADIA)
            live, recording = await gateway.record(request)
            replayed = (await fuse(request, gateway.recipes["default"], Replay(recording))).fused
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
            gateway = replace(opened, admission=Admission(1))
            await remember(gateway, DECIDED)
            asked = FuseRequest(ASKED, NADIA, timeout_ms=1)
            async with gateway.admission.slot(60):
                compared, found = gateway.compare(asked, "all", "-two"), gateway.search("two", ASKED, NADIA)
                questions = gateway.fuse(asked), compared, found
                for question in questions:
                    with pytest.raises(Overloaded, match="no slot was free"):
                        await question
                with pytest.raises(BadInput, match="recipe 'odd'"):
                    await gateway.fuse(asked, recipe="odd")
            assert DECIDED in (await gateway.fuse(ASKED, scope=NADIA, backends=("one",))).block
            assert gateway.admission.under_way == 0


class TestNames:
    @pytest.mark.parametrize(
        ("path", "reason"),
        [
            ("adapters.nothing:There", "there is no module adapters.nothing; ours are in"),
            ("nowhere:There", "there is no module nowhere"),
            ("adapters.inmemory:There", "write package.module:Class"),
            ("adapters.inmemory", "write package.module:Class"),
            (":There", "write package.module:Class"),
        ],
    )
    async def test_missing_adapter_is_named_with_suggestions(self, home: Path, path: str, reason: str) -> None:
        """The setting is named, and what to write instead; nothing is left open."""
        with pytest.raises(SettingsError) as caught:
            async with Gateway.open(small(home, one=path)):
                raise AssertionError
        assert f"backends.one.adapter = {path!r}" in str(caught.value)
        assert reason in str(caught.value)
        async with Gateway.open(small(home)):
            """The lock was given back."""

    def test_list_of_adapters_names_their_folder(self) -> None:
        """The list that an unknown name is answered with is a folder that exists."""
        with pytest.raises(SettingsError) as caught:
            resolve("adapters.nothing:There", "key")
        assert (Path(str(caught.value).rpartition(" ")[2]) / "inmemory.py").is_file()

    async def test_unknown_backends_and_recipes_list_the_known_ones(self, home: Path) -> None:
        """In a request they are bad input; in the settings, a settings error."""
        async with Gateway.open(small(home)) as gateway:
            with pytest.raises(BadInput, match="'three': there are one, two"):
                await gateway.search("three", ASKED, NADIA)
            with pytest.raises(BadInput, match="'three': there are one, two"):
                await gateway.fuse(ASKED, backends=("one", "three"))
            with pytest.raises(BadInput, match="'fast': there are deep, default, hook, local-plus, seed000"):
                await gateway.fuse(ASKED, recipe="fast")
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
        async with Gateway.open(small(home)) as gateway:
            with pytest.raises(HomeLocked, match=f"{home} is in use by this process"):
                async with Gateway.open(small(home)):
                    raise AssertionError
            await remember(gateway, DECIDED)
            assert DECIDED in (await gateway.fuse(ASKED, scope=NADIA)).block

    async def test_closing_leaves_no_task(self, home: Path) -> None:
        """Deliveries, fillings, receipts: all ended, also in the middle of work and when the block raised."""
        before = asyncio.all_tasks()
        async with Gateway.open(embedded(home)) as gateway:
            await remember(gateway, DECIDED)
            await gateway.fuse(ASKED, scope=NADIA)
        assert asyncio.all_tasks() == before
        with suppress(ZeroDivisionError):
            async with Gateway.open(embedded(home)) as gateway:
                await gateway.remember([NewMemory(DECIDED, scope=NADIA)])
                raise ZeroDivisionError
        assert asyncio.all_tasks() == before

    async def test_receipt_outlives_its_process(self, home: Path) -> None:
        """The last answer before the end is explained after it."""
        async with Gateway.open(small(home)) as gateway:
            await remember(gateway, DECIDED)
            receipt_id = (await gateway.fuse(ASKED, scope=NADIA)).receipt_id
        async with Gateway.open(small(home)) as gateway:
            assert (await gateway.receipt(receipt_id))["receipt_id"] == receipt_id
            with pytest.raises(NotFound):
                await gateway.receipt(receipt_id, "another tenant")

    async def test_gateway_writes_only_to_its_home(self, home: Path) -> None:
        """Neither in the working directory, nor next to the home; in the user's folder the record that allows it."""
        elsewhere = [Path.home(), Path.cwd() / ".fusion"]
        make_home(home)
        before = [tree(folder) for folder in elsewhere]
        async with Gateway.open(embedded(home)) as gateway:
            await remember(gateway, DECIDED)
            await gateway.fuse(ASKED, scope=NADIA)
        assert [tree(folder) for folder in elsewhere] == before
        assert {path.name for path in home.parent.iterdir()} == {"home"}
        assert {path.name for path in (home / "backends").iterdir()} == EMBEDDED

    @pytest.mark.feature("only its owner can read a home's files")
    @pytest.mark.skipif(sys.platform == "win32", reason="there are no modes")
    async def test_files_of_a_home_are_private(self, home: Path) -> None:
        """0600 and 0700, whatever the user's umask."""
        with umask(0o022):
            async with Gateway.open(embedded(home)) as gateway:
                await remember(gateway, DECIDED)
                await gateway.fuse(ASKED, scope=NADIA)
                open_to_others = [str(p.relative_to(home)) for p in [home, *home.rglob("*")] if p.stat().st_mode & 0o77]
        assert open_to_others == []

    async def test_named_home_is_opened(self, tmp_path: Path) -> None:
        """By the caller or by the configuration file, without changing the process's environment."""
        text = 'home = "kept"\nbackends_only = true\n[embedder]\nadapter = ""\n'
        file = tmp_path / "mine.toml"
        file.write_text(text + '[backends.one]\nadapter = "adapters.inmemory:InMemory"\n')
        async with Gateway.open(file) as gateway:
            assert gateway.settings.home == tmp_path / "kept"
        async with Gateway.open(str(file), home=tmp_path / "named") as gateway:
            assert gateway.settings.home == tmp_path / "named"


WORDS = st.sampled_from("harbour bees tea bridge Postgres morning red".split())


SAID = st.lists(st.tuples(st.sampled_from("nadia omar".split()), st.lists(WORDS, min_size=1, max_size=4)), max_size=6)


@pytest.mark.row("A156", "two users never see each other's memories")
@settings(max_examples=15, deadline=None)
@given(said=SAID, asked=WORDS, others=st.booleans())
def test_two_users_never_see_each_others_memories(said: list[tuple[str, list[str]]], asked: str, others: bool) -> None:
    """For any memories and any asking scope, `fuse` and `search` return only memories of that user."""

    async def ask() -> list[Any]:
        with TemporaryDirectory() as folder:
            async with Gateway.open(small(Path(folder) / "home")) as gateway:
                for number, (user, words) in enumerate(said):
                    scope = Scope(user_id=user, audience="private" if others else "group")
                    text = f"{user} {number} said {' '.join(words)}"
                    await gateway.remember([NewMemory(text, scope=scope)])
                await gateway.settle()
                seen: list[Any] = []
                for scope in (NADIA, OMAR):
                    fused = await gateway.fuse(asked, scope=scope)
                    texts = [member.text for memory in fused.memories for member in memory.members]
                    for name in ("one", "two"):
                        texts += [hit.text for hit in (await gateway.search(name, asked, scope)).hits]
                    seen += [(scope.user_id, text.split()[0]) for text in texts]
                return seen

    assert [pair for pair in asyncio.run(ask()) if pair[0] != pair[1]] == []
