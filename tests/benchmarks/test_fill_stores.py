"""Memories into stores: how far that is, and what a kept home holds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks.datasets import Corpus, DataError, Item
from benchmarks.fill_stores import content_digest, corpus_home, encoders, open_home, wait_until_stored
from fusion import Gateway, wire
from fusion.local_models.registry import DEFAULT, named
from tests.fakes import FakeEmbedder


def state(name: str, status: str, *, backlog: int = 0, vectors_pending: int = 0) -> wire.BackendState:
    return {
        "name": name,
        "adapter": "",
        "status": status,
        "detail": "",
        "items": 0,
        "vectors": 0,
        "vectors_pending": vectors_pending,
        "backlog": backlog,
        "leaked": 0,
        "notes": [],
        "degraded": False,
    }


@dataclass
class Stores:
    """Two backends that get ten memories: each check finds the second one further, and then all are stored."""

    looks: list[tuple[int, int]]
    """of the second backend, what it has not been told, and what has no vector yet, look by look"""
    status: str = "ready"
    done: asyncio.Event = field(default_factory=asyncio.Event)
    live: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(embedder=FakeEmbedder()))

    async def settle(self) -> None:
        await self.done.wait()

    async def backends(self) -> Sequence[wire.BackendState]:
        backlog, pending = self.looks.pop(0) if self.looks else (0, 0)
        if not self.looks:
            self.done.set()
        return [state("one", "ready"), state("two", self.status, backlog=backlog, vectors_pending=pending)]


@pytest.mark.feature("a progress bar also moves while memories are stored, by the slowest backend")
async def test_progress_follows_the_slowest_backend() -> None:
    """Of ten, 4 are not told and 6 have no vector: none is there; then 7; one fewer moves nothing back; then all."""
    steps: list[int] = []
    stores = Stores([(4, 6), (0, 3), (0, 4), (0, 0)])
    await wait_until_stored(cast(Gateway, cast(Any, stores)), 10, steps.append, 0.0)
    assert [step for step in steps if step] == [7, 3]


async def test_a_memory_that_a_store_lacks_is_an_error() -> None:
    """Figures of a store that does not answer would mean nothing."""
    with pytest.raises(RuntimeError, match="not everything is stored"):
        await wait_until_stored(cast(Gateway, cast(Any, Stores([(0, 0)], status="open"))), 1, poll_s=0.0)


@pytest.mark.feature("benchmarks: a kept home holds one content only")
def test_a_kept_home_is_filled_by_one_corpus_only(tmp_path: Path) -> None:
    """The same content again is welcome; edited, stored otherwise, or in a home that does not say: refused by name."""
    first = {"content": content_digest(Corpus("notes", (Item("a", "It cost 190 kr."),), ())), "captions": "without"}
    edited = {**first, "content": content_digest(Corpus("notes", (Item("a", "It cost 999 kr."),), ()))}
    for _ in range(2):
        with corpus_home(tmp_path, "notes", first) as home:
            assert home == tmp_path / "notes"
    for other, differs in ((edited, "content differ"), ({**first, "captions": "with"}, "captions differ")):
        with pytest.raises(DataError, match=differs), corpus_home(tmp_path, "notes", other):
            pass
    (tmp_path / "older").mkdir()
    (tmp_path / "older" / "journal.sqlite").touch()
    with pytest.raises(DataError, match="does not say by what"), corpus_home(tmp_path, "older", first):
        pass


async def test_a_kept_home_opens_without_a_question(tmp_path: Path) -> None:
    """The benchmark made it, so it is recorded as made here; it opens again in a later run."""
    filled = {"content": "none", "captions": "without"}
    for _ in range(2):
        with corpus_home(tmp_path, "notes", filled) as home:
            async with open_home(home, ("markdown",)) as gateway:
                assert "markdown" in [state["name"] for state in await gateway.backends()]


def test_recordings_name_the_encoders_that_the_environment_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default model, another one, a provider's, none, and a second one."""
    assert encoders() == named(DEFAULT).identity
    monkeypatch.setenv("FUSION_EMBEDDER__SECOND", "e5-small-v2")
    assert encoders() == f"{named(DEFAULT).identity} and {named('e5-small-v2').identity}"
    monkeypatch.setenv("FUSION_EMBEDDER__SECOND", "")
    monkeypatch.setenv("FUSION_EMBEDDER__MODEL", "e5-small-v2")
    assert encoders() == named("e5-small-v2").identity
    monkeypatch.setenv("FUSION_EMBEDDER__PROVIDER", "ollama")
    assert encoders() == "ollama e5-small-v2"
    monkeypatch.setenv("FUSION_EMBEDDER__PROVIDER", "none")
    assert encoders() == "none"
