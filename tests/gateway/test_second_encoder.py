"""A home with a second encoder: what is stored is read by it, forgetting reaches it, and without it answers say so.

The model is a small one that the tests make.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fusion.contract import Place, Scope
from fusion.doors.cli.doctor import examine
from fusion.errors import ReplayGap
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.lib.in_context import in_context
from fusion.local_models import files
from fusion.local_models.registry import MODELS
from fusion.recall.engine import FuseRequest, fuse
from fusion.recall.pack import Excerpt
from fusion.recall.recording import Replay
from fusion.settings import Settings
from fusion.trust import allow
from tests.patience import load
from tests.small_onnx import encoder_onnx, small_model, written

MODEL = small_model(encoder_onnx(), "like-e5", query_prefix="query: ", passage_prefix="passage: ")
TALK = ("Where is the drill?", "On the blue shelf.", "Thank you.")
ASK = FuseRequest("where is the drill", Scope(user_id="ana", audience="private"), recipe="local-plus")


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    written(files.own_path(MODEL), encoder_onnx())
    monkeypatch.setitem(MODELS, MODEL.name, MODEL)  # type: ignore[misc]


def with_second(home: Path, name: str = "like-e5") -> Settings:
    backends = {"triples": {"adapter": "adapters.triples:Triples"}}
    return load(home=home, backends_only=True, embedder={"second": name}, backends=backends)


def turns() -> list[NewMemory]:
    return [
        NewMemory(text, Scope(user_id="ana"), kind="turn", speaker="Bo", place=Place("talk", n, n))
        for n, text in enumerate(TALK)
    ]


@pytest.mark.feature("the recipe `local-plus` ranks by a second local encoder, which reads turns in their context")
async def test_a_home_with_a_second_encoder(home: Path) -> None:
    """What is stored is read when it is settled; what is forgotten is gone from it, alone and as context."""
    said = [f"Bo: {text}" for text in TALK]
    middle = in_context(said[1], said[0], said[2])
    async with Gateway.open(with_second(home)) as gateway:
        second = gateway.embedders.second
        assert second is not None
        kept = await gateway.remember(turns())
        await gateway.settle()
        assert set(await second.known([*said, middle])) == {*said, middle}
        put_off = second.put_off
        fused = await gateway.fuse(ASK)
        assert "second_encoder" not in fused.rerank
        assert "without_vectors" not in fused.rerank
        assert TALK[1] in fused.block
        assert second.put_off == put_off, "a question encodes itself and nothing else"
        await gateway.forget(kept[0].ref, Scope(user_id="ana"))
        await gateway.settle()
        assert set(await second.known([*said, middle])) == set(said[1:])
        again = await gateway.fuse(ASK)
        assert TALK[0] not in again.block
        await gateway.settle()
        assert await second.known([in_context(said[1], "", said[2])])


@pytest.mark.feature(
    "… `fusion jobs run vectors` does it in a home that had none",
    of="a second encoder reads each turn of a conversation with its neighbours when it is stored",
)
async def test_a_home_that_had_no_second_encoder(home: Path) -> None:
    """What was stored before is read by the job; then a question finds all vectors."""
    async with Gateway.open(with_second(home, "")) as gateway:
        await gateway.remember(turns())
        await gateway.settle()
        assert "read_by_second" not in (await gateway.jobs().run("vectors")).receipt["result"]
    async with Gateway.open(with_second(home)) as gateway:
        counted = (await gateway.jobs().run("vectors", dry_run=True)).receipt["result"]
        assert (counted["unread_by_second"] > 0, counted["read_by_second"]) == (True, 0)
        ran = (await gateway.jobs().run("vectors")).receipt["result"]
        assert ran["read_by_second"] == ran["unread_by_second"] == counted["unread_by_second"]
        assert (await gateway.jobs().run("vectors")).receipt["result"]["unread_by_second"] == 0
        assert "without_vectors" not in (await gateway.fuse(ASK)).rerank


async def test_a_second_encoder_that_is_not_installed(home: Path) -> None:
    """The home opens and answers by the first one; notes, answers and doctor say what is missing, with the fix."""
    files.own_path(MODEL).unlink()
    async with Gateway.open(with_second(home)) as gateway:
        await gateway.remember(turns())
        await gateway.settle()
        fused = await gateway.fuse(ASK)
        assert fused.rerank["second_encoder"] == "missing"
        assert TALK[1] in fused.block
        assert any(
            "second encoder" in note and "fusion models add like-e5" in note
            for note in (await gateway.status())["notes"]
        )
    (home / "fusion.toml").write_text('[embedder]\nsecond = "like-e5"\n')
    allow(home)
    (finding,) = [one for one in examine(home) if one.check == "embedder.second"]
    assert (finding.status, finding.fix) == ("fail", "fusion models add like-e5")


async def test_the_default_recipe_is_the_same_with_a_second_encoder(home: Path, tmp_path: Path) -> None:
    blocks = []
    for folder, name in ((home, "like-e5"), (tmp_path / "other", "")):
        async with Gateway.open(with_second(folder, name)) as gateway:
            await gateway.remember(turns())
            await gateway.settle()
            fused = await gateway.fuse(FuseRequest(ASK.query, ASK.scope, explain=True))
            blocks.append([(m.text, m.score) for memory in fused.memories for m in memory.members])
            assert fused.recipe["name"] == "default"
    assert blocks[0] == blocks[1]


async def test_a_comparison_asks_the_second_encoder_for_the_arm_that_wants_it(home: Path) -> None:
    """Each arm has the scores that it has alone: local-plus by the second encoder, default by the first."""
    async with Gateway.open(with_second(home)) as gateway:
        await gateway.remember(turns())
        await gateway.settle()
        alone = [await gateway.fuse(replace(ASK, recipe=recipe)) for recipe in ("default", "local-plus")]
        for first, second in ((0, 1), (1, 0)):
            names = [alone[first].recipe["name"], alone[second].recipe["name"]]
            compared = await gateway.compare(ASK, *names)
            for side, fused in (("a", alone[first]), ("b", alone[second])):
                assert compared[side]["rerank"].get("second_encoder") is None
                assert scores_of(compared[side]["memories"]) == scores_of(fused.memories)
        assert scores_of(alone[0].memories) != scores_of(alone[1].memories)


async def test_a_recording_has_what_the_second_encoder_says_if_its_recipe_asks_for_it(home: Path) -> None:
    """It replays default and local-plus as they answer alone; a recording by default refuses local-plus."""
    async with Gateway.open(with_second(home)) as gateway:
        await gateway.remember(turns())
        await gateway.settle()
        live, recording = await gateway.record(ASK)
        plain, small = await gateway.record(replace(ASK, recipe="default"))
        recipes = gateway.recipes
        names = ("local-plus", "default")
        again = [await fuse(ASK, recipes[name], Replay(recording)) for name in names]
        assert [scores_of(one.fused.memories) for one in again] == [scores_of(live.memories), scores_of(plain.memories)]
        with pytest.raises(ReplayGap, match="the second encoder was not asked"):
            await fuse(ASK, recipes["local-plus"], Replay(small))


def scores_of(memories: Sequence[Excerpt]) -> dict[str, float]:
    return {member.ref: round(member.score, 6) for memory in memories for member in memory.members}
