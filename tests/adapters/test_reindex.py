"""`reindex`: a backend of a home moves to another embedding model, and the home remembers it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from adapters.cortex.cli import Reembed
from adapters.reindex import PATIENCE, Reindex
from fusion.contract import Scope
from fusion.errors import (
    BackendError,
    BackendTimeout,
    BackendUnreachable,
    BadInput,
    RateLimited,
    SettingsError,
    Unauthorized,
)
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.settings import Settings
from tests.fakes import FakeEmbedder
from tests.patience import load

TEXTS = [f"Nadia planted tree number {n}" for n in range(40)]


class Provider(FakeEmbedder):
    """One model of a provider; ``faults`` are raised by its next calls that store, one each."""

    def __init__(self, model: str, dimensions: int) -> None:
        super().__init__(identity=f"fake/{model}@{dimensions}", dimensions=dimensions)
        self.faults: list[BackendError] = []

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> NDArray[np.float32]:
        if keep and self.faults:
            raise self.faults.pop(0)
        return await super().embed(texts, keep=keep)


class Poisoned(Provider):
    """One that gives no numbers for one text."""

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> NDArray[np.float32]:
        vectors = (await super().embed(texts, keep=keep)).copy()
        vectors[["number 7" in text for text in texts]] = np.nan
        return vectors


class Providers:
    """What opens them; ``opened`` has them by model, ``given`` what they were opened with."""

    opened: ClassVar[dict[str, Provider]] = {}
    given: ClassVar[dict[str, Mapping[str, Any]]] = {}
    failing: ClassVar[list[BackendError]] = []

    @classmethod
    async def open(cls, folder: Path, options: Mapping[str, Any]) -> Provider:
        if options["provider"] == "gone":
            raise SettingsError("there is no key in GONE_API_KEY: set GONE_API_KEY")
        model = options["model"] or "usual"
        cls.given[model] = dict(options)
        kind = Poisoned if model == "poisoned" else Provider
        cls.opened[model] = kind(model, 16 if model == "other" else 32)
        if model == "other":
            cls.opened[model].faults = list(cls.failing)
        return cls.opened[model]


@pytest.fixture(autouse=True)
def fresh() -> None:
    Providers.opened, Providers.given, Providers.failing = {}, {}, []


class Hasty(Reindex):
    """Does not wait, but notes how long it would have."""

    waited: ClassVar[list[float]] = []

    async def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)


def chosen(home: Path, **embedder: object) -> Settings:
    backends = {
        "triples": {"adapter": "adapters.triples:Triples"},
        "markdown": {"adapter": "adapters.markdown:Markdown"},
        "cortex": {"adapter": "adapters.cortex:Cortex"},
    }
    named = {"adapter": "tests.adapters.test_reindex:Providers", "provider": "some", **embedder}
    return load(home=home, backends_only=True, embedder=named, backends=backends)


async def filled(gateway: Gateway) -> None:
    await gateway.remember([NewMemory(text) for text in TEXTS])
    await gateway.settle()


async def told(gateway: Gateway, verb: Reindex, backend: str = "triples") -> dict[str, Any]:
    """The result; its progress is under "progress"."""
    progress: list[tuple[int, int | None]] = []

    async def line(text: str) -> None:
        raise AssertionError(text)

    result: Any = await gateway.do(backend, verb, Scope(), line, lambda done, total: progress.append((done, total)))
    return {**result, "progress": progress}


@pytest.mark.row("A163", "`reindex --dry-run` says how many texts and characters it would send")
async def test_a_dry_run_counts_what_would_be_sent(home: Path) -> None:
    """Texts and characters; nothing is encoded, nothing is moved."""
    async with Gateway.open(chosen(home)) as gateway:
        await filled(gateway)
        found = await told(gateway, verb := Reindex(model="other", dry_run=True))
        assert (found["from"], found["to"], found["moved"]) == ("fake/usual@32", "fake/other@16", False)
        assert found["texts"] >= len(TEXTS)
        assert found["characters"] >= sum(map(len, TEXTS))
        assert not Providers.opened["other"].encoded
        assert "would be sent" in verb.render(found)


@pytest.mark.row("A163", "A052", "… reembed moves to another model without a gap", of="`fusion cortex`: what it stores")
@pytest.mark.feature("`reindex` moves a backend to another model for good; nothing is sent twice")
@pytest.mark.parametrize(("backend", "kind"), [("markdown", Reindex), ("triples", Reindex), ("cortex", Reembed)])
async def test_one_backend_moves_and_stays_moved(backend: str, kind: type[Reindex], home: Path) -> None:
    """The backend answers with the other model, also after a restart, where nothing is encoded again; the others and
    the configuration are as they were. Once [embedder] names another, that is right again."""
    async with Gateway.open(chosen(home)) as gateway:
        await filled(gateway)
        found = await told(gateway, verb := kind(model="other"), backend)
        assert found["moved"] is True
        assert found["progress"][-1] == (found["texts"], found["texts"])
        assert "Moved from fake/usual@32 to fake/other@16" in verb.render(found)
        assert (await told(gateway, kind(model="other"), backend))["texts"] == 0
        await gateway.search(backend, "which tree did Nadia plant?", Scope())
        assert "which tree did Nadia plant?" in Providers.opened["other"].encoded
        assert (await gateway.status())["embedder"] == "fake/usual@32"
    async with Gateway.open(chosen(home)) as gateway:
        states = {state["name"]: state for state in await gateway.backends()}
        assert states[backend]["vectors_pending"] == 0
        assert not Providers.opened["other"].encoded
        assert not Providers.opened["usual"].encoded
    async with Gateway.open(chosen(home, model="third")) as gateway:
        await gateway.settle()
        assert Providers.opened["third"].encoded.total() >= len(TEXTS)
        assert not (home / "backends" / backend / "embedder.json").exists()


@pytest.mark.feature("`reindex`: a text without a vector is reported, found by its words and retried; the others move")
async def test_a_text_without_a_vector_is_reported(home: Path) -> None:
    """The others move; the one that the model makes no vector of is counted, with the reason, and waits for it."""
    async with Gateway.open(chosen(home)) as gateway:
        await filled(gateway)
        found = await told(gateway, verb := Reindex(model="poisoned"), "markdown")
        assert (found["moved"], found["texts"], found["without"]) == (True, len(TEXTS), 1)
        assert "1 of them have no vector and are found by their words: fake/poisoned@32 gave" in verb.render(found)
        states = {state["name"]: state for state in await gateway.backends()}
        assert (states["markdown"]["vectors"], states["markdown"]["vectors_pending"]) == (len(TEXTS) - 1, 1)


@pytest.mark.feature("`reindex` waits for a provider that asks to wait")
async def test_a_provider_that_asks_to_wait_is_waited_for(home: Path) -> None:
    """Passing failures: it waits as long as it is asked to, else 2 s, 4 s …; what will not pass is raised at once."""
    Providers.failing = [RateLimited("slow down", 37.0), BackendUnreachable("down"), BackendUnreachable("down")]
    Hasty.waited.clear()
    async with Gateway.open(chosen(home)) as gateway:
        await filled(gateway)
        assert (await told(gateway, Hasty(model="other")))["moved"] is True
        assert Hasty.waited == [37.0, 4.0, 8.0]


async def test_what_does_not_pass_is_raised(home: Path) -> None:
    """A key that is not accepted, at once; a server that goes away, after its eighth failure. Nothing has moved."""
    Providers.failing = [Unauthorized("no"), BackendTimeout("late")] + [BackendUnreachable("down")] * PATIENCE
    Hasty.waited.clear()
    async with Gateway.open(chosen(home)) as gateway:
        await filled(gateway)
        with pytest.raises(Unauthorized):
            await told(gateway, Hasty(model="other"))
        assert not Hasty.waited
        with pytest.raises(BackendUnreachable):
            await told(gateway, Hasty(model="other"))
        assert len(Hasty.waited) == PATIENCE
        assert not (home / "backends" / "triples" / "embedder.json").exists()
        assert (await told(gateway, Hasty(model="other", dry_run=True)))["from"] == "fake/usual@32"


@pytest.mark.feature(
    "… an unreachable provider is an error at once, with how to start it", of="`reindex` waits for a provider"
)
async def test_an_unreachable_server_is_reported_at_once(home: Path) -> None:
    """Refused before anything was answered: raised without a wait, and the next call finds the server that is up."""
    Providers.failing = [BackendUnreachable("http://127.0.0.1:11434: connection refused: ollama serve")]
    Hasty.waited.clear()
    async with Gateway.open(chosen(home)) as gateway:
        await filled(gateway)
        with pytest.raises(BackendUnreachable, match="ollama serve"):
            await told(gateway, Hasty(model="other"))
        assert not Hasty.waited
        assert (await told(gateway, Hasty(model="other")))["moved"] is True


async def test_forgetting_reaches_every_model(home: Path) -> None:
    """A forgotten text goes from the caches of the configured model and of the one that a backend was moved to."""
    async with Gateway.open(chosen(home)) as gateway:
        await filled(gateway)
        await told(gateway, Reindex(model="other"))
        (kept,) = await gateway.remember([NewMemory("a secret")])
        await gateway.settle()
        await gateway.forget(kept.ref, Scope())
        assert all("a secret" in one.forgotten for one in Providers.opened.values())


async def test_only_who_has_the_whole_store_may(home: Path) -> None:
    """Another tenant's key does not move everybody's index."""
    async with Gateway.open(chosen(home)) as gateway:
        with pytest.raises(BadInput, match="tenant default"):
            await gateway.do("triples", Reindex(model="other"), Scope(tenant="other"), _nothing, lambda *_: None)


@pytest.mark.feature("… `reindex` moves the indexes of all tenants", of="each tenant has its own journal")
async def test_the_indexes_of_other_tenants_move_too(home: Path) -> None:
    """Each tenant has an index of its own: once the owner has moved the backend, theirs are made by the same model."""
    acme = Scope("acme", audience="private")
    async with Gateway.open(chosen(home)) as gateway:
        await gateway.remember([NewMemory(text) for text in TEXTS[:5]], tenant="acme")
        await filled(gateway)
        await told(gateway, Reindex(model="other"))
        await gateway.settle("acme")
        (state,) = [one for one in await gateway.backends("acme") if one["name"] == "triples"]
        assert (state["items"], state["vectors"], state["vectors_pending"]) == (5, 5, 0)
        assert (await gateway.search("triples", "which tree of acme did Nadia plant?", acme)).hits
        assert "which tree of acme did Nadia plant?" in Providers.opened["other"].encoded


async def _nothing(text: str) -> None:
    """No line is sent."""


async def test_a_wrong_target_is_named(home: Path) -> None:
    """An unknown setting, and a provider that cannot be had; a record of one says which file to remove."""
    async with Gateway.open(chosen(home)) as gateway:
        with pytest.raises(BadInput, match=r'do not name .gone.*\[embedder.next\] provider = "gone"'):
            await told(gateway, Reindex(provider="gone"))
        with pytest.raises(BadInput, match="dimensions"):
            Reindex(dimensions=-1)
        for model in ("../keys", "a?b", "a#b", "/a", "a b", "a%2f"):
            with pytest.raises(BadInput, match="model"):
                Reindex(model=model)
    async with Gateway.open(chosen(home, next={"provider": "gone"})) as gateway:
        with pytest.raises(SettingsError, match="GONE_API_KEY"):
            await told(gateway, Reindex())
    record = home / "backends" / "triples" / "embedder.json"
    record.write_text(json.dumps({"instead_of": "fake/usual@32", "options": {"provider": "gone"}}))
    with pytest.raises(SettingsError, match=r"triples was moved .* remove .*embedder\.json"):
        async with Gateway.open(chosen(home)):
            raise AssertionError("it opened")
    record.write_text("{")
    async with Gateway.open(chosen(home)) as gateway:
        assert (await told(gateway, Reindex(dry_run=True)))["from"] == "fake/usual@32"


@pytest.mark.feature("`[embedder.next]` names the model that a backend is moved to")
async def test_the_next_provider_of_the_settings_is_moved_to_with_its_address_and_key(home: Path) -> None:
    """Without an argument, or by its name; the record has neither address nor key, and a restart finds both."""
    following = {"provider": "near", "model": "other", "url": "http://127.0.0.1:9", "api_key_file": "/keys/near"}
    for number, verb in enumerate((Reindex(), Reindex(provider="near"))):
        folder = home / str(number)
        async with Gateway.open(chosen(folder, next=following)) as gateway:
            await filled(gateway)
            assert (await told(gateway, verb))["to"] == "fake/other@16"
            options = Providers.given["other"]
            assert {name: options[name] for name in following} == following
        record = (folder / "backends" / "triples" / "embedder.json").read_text()
        assert json.loads(record)["options"] == {"table": "next"}
        Providers.opened.clear()
        async with Gateway.open(chosen(folder, next=following)) as gateway:
            assert not Providers.opened["other"].encoded
            assert Providers.given["other"]["url"] == following["url"]
        with pytest.raises(SettingsError, match=r"\[embedder.next\] is gone"):
            async with Gateway.open(chosen(folder)):
                raise AssertionError("it opened")


@pytest.mark.feature("no file in the home decides an address or a key")
@pytest.mark.parametrize("name", ["url", "api_key_env", "api_key_file"])
async def test_a_record_of_the_home_decides_no_address_and_no_key(home: Path, name: str) -> None:
    """One of an earlier version that has some is followed where the settings say the same, and else refused by name."""
    async with Gateway.open(chosen(home)) as gateway:
        await filled(gateway)
    record = home / "backends" / "triples" / "embedder.json"
    moved = {"provider": "near", "model": "other", name: "elsewhere"}
    record.write_text(json.dumps({"instead_of": "fake/usual@32", "options": moved}))
    with pytest.raises(
        SettingsError, match=rf"its {name} must be in the settings.*\[embedder.next\].* remove .*embedder"
    ):
        async with Gateway.open(chosen(home)):
            raise AssertionError("it opened")
    assert "other" not in Providers.opened
    async with Gateway.open(chosen(home, next={"provider": "near", name: "elsewhere"})):
        assert Providers.given["other"][name] == "elsewhere"


async def test_a_record_of_an_earlier_version_without_an_address_still_holds(home: Path) -> None:
    async with Gateway.open(chosen(home)) as gateway:
        await filled(gateway)
    record = home / "backends" / "triples" / "embedder.json"
    record.write_text(json.dumps({"instead_of": "fake/usual@32", "options": {"provider": "near", "model": "other"}}))
    async with Gateway.open(chosen(home)):
        assert Providers.given["other"]["provider"] == "near"
