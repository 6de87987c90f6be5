"""A home that an earlier version filled opens, with its memories, refs, recipes and what was forgotten."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from fusion.contract import Scope
from fusion.errors import NotFound
from fusion.gateway.gateway import Gateway
from fusion.recall.engine import FuseRequest
from fusion.trust import allow
from tests.patience import load

HOMES = Path(__file__).parent.parent / "homes"
ANYONE = Scope(audience="private")


@pytest.fixture
def earlier_home(tmp_path: Path) -> Path:
    """The home of 21 November 2026: eight memories in four backends, one of them forgotten, one labelled useful."""
    with tarfile.open(HOMES / "2026-11-21.tar.xz") as archive:
        if hasattr(tarfile, "data_filter"):  # from Python 3.11.4 on
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(tmp_path)  # noqa: S202 — a file of ours
    return (tmp_path / "h").rename(tmp_path / "home")


@pytest.mark.model
@pytest.mark.feature("a home of an earlier version opens with its memories, refs and recipes")
async def test_home_of_an_earlier_version_keeps_all_its_data(earlier_home: Path) -> None:
    allow(earlier_home)
    async with Gateway.open(load(home=earlier_home)) as gateway:
        await gateway.settle()
        assert (await gateway.memory("m1", ANYONE))["text"] == "We deploy on Tuesdays."
        assert (await gateway.memory("m2", ANYONE))["text"] == "Berit likes cinnamon cake."
        assert "Postgres 16" in (await gateway.memory("m4", ANYONE))["text"]
        with pytest.raises(NotFound):
            await gateway.memory("m3", ANYONE)
        for backend in ("markdown", "cortex", "mem0", "triples"):
            found = await gateway.search(backend, "when do we deploy?", ANYONE)
            assert found.status == "ok", (backend, found)
            assert any(hit.text == "We deploy on Tuesdays." for hit in found.hits), backend
            alarm = await gateway.search(backend, "alarm code Hjulhuset 4711", ANYONE)
            assert not any("4711" in hit.text for hit in alarm.hits), backend
        for recipe in ("default", "mine"):
            answer = await gateway.fuse(FuseRequest("when do we deploy?", ANYONE, recipe=recipe))
            assert answer.memories[0].ref == "m1", recipe
            assert not answer.degraded, recipe
        assert [label["ref"] for label in (await gateway.labels("default"))["labels"]] == ["m1"]
