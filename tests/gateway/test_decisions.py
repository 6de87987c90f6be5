"""Decisions by hand: archived, restored, quarantined memories, in the answers of every backend and of the cortex."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from fusion.contract import Scope, State, Trust
from fusion.errors import BadInput, NotFound
from fusion.gateway.decisions import StateRequest
from fusion.gateway.gateway import Gateway
from tests.gateway.helpers import ASKED, DECIDED, EMBEDDED, NADIA, OMAR, embedded, remember, small
from tests.patience import load


async def answered(gateway: Gateway, scope: Scope = NADIA) -> set[str]:
    """The backends' answers that contain the decided text, and "fuse" if the block does."""
    fused = await gateway.fuse(ASKED, scope=scope)
    found = {"fuse"} if DECIDED in fused.block else set()
    for name in gateway.guarded:
        answer = await gateway.search(name, ASKED, scope)
        found |= {name for hit in answer.hits if DECIDED in hit.text}
    return found


@pytest.mark.feature(
    "a memory can be archived, restored, trusted or quarantined at every door; it holds in every backend"
)
async def test_an_archived_memory_is_in_no_answer_until_it_is_restored(home: Path) -> None:
    async with Gateway.open(embedded(home)) as gateway:
        ref, _ = await remember(gateway, DECIDED, "Nadia prefers tea in the morning")
        before = await answered(gateway)
        assert before >= {"fuse", *EMBEDDED} - {"markdown"}
        made = (await gateway.set_state(StateRequest(ref, NADIA, archived=True, why="done")))["decision"]
        await gateway.settle()
        assert await answered(gateway) == set()
        assert (await gateway.memory(ref, NADIA))["state"]["ended"] == "archived"
        assert made is not None
        (entry,) = (await gateway.decisions(NADIA, ref=ref))["decisions"]
        assert entry == made
        await gateway.undo_decision(made["id"], NADIA)
        await gateway.settle()
        assert await answered(gateway) == before


async def test_a_refused_question_says_that_the_memory_was_archived(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        (ref,) = await remember(gateway, DECIDED)
        await gateway.set_state(StateRequest(ref, NADIA, archived=True))
        fused = await gateway.fuse(ASKED, scope=NADIA)
        assert [row["refused"] for row in fused.backends] == [{"archived": 1}] * 2


@pytest.mark.feature("any trust can be set by hand, and a quarantined memory is never answered")
@pytest.mark.parametrize("trust", get_args(Trust))
async def test_trust_set_by_hand_holds_in_every_answer(home: Path, trust: Trust) -> None:
    async with Gateway.open(small(home)) as gateway:
        (ref,) = await remember(gateway, DECIDED)
        await gateway.set_state(StateRequest(ref, NADIA, trust=trust))
        hits = (await gateway.search("one", ASKED, NADIA)).hits
        assert [hit.trust for hit in hits] == ([] if trust == "quarantined" else [trust])


@pytest.mark.feature(
    "a note that is quarantined is not read by Markdown either, until it is released, also after a restart"
)
async def test_quarantine_holds_for_what_a_backend_reads_itself(tmp_path: Path) -> None:
    """Until it is released, also after a restart; the other notes of the folder stay."""
    notes, whose = tmp_path / "notes", Scope(audience="private")
    notes.mkdir()
    (notes / "harbour.md").write_text("# Harbour\n\nThe code of the harbour gate is in the red folder.\n")
    (notes / "mill.md").write_text("# Mill\n\nThe code of the mill gate is in the blue folder.\n")
    settings = load(home=tmp_path / "home", embedder={"adapter": ""}, notes={"paths": [str(notes)]})
    asked = "in which folder are the codes of the gates?"

    async def told(gateway: Gateway) -> set[str]:
        block = (await gateway.fuse(asked, scope=whose, fill=True)).block
        found = {hit.text for hit in (await gateway.search("markdown", asked, whose)).hits}
        assert {word for word in ("red", "blue") if word in block} == {
            word for word in ("red", "blue") if any(word in text for text in found)
        }
        return {word for word in ("red", "blue") if word in block}

    async with Gateway.open(settings) as gateway:
        await gateway.settle()
        assert await told(gateway) == {"red", "blue"}
        fused = await gateway.fuse(asked, scope=whose, fill=True)
        (ref,) = {m.ref for one in fused.memories for m in one.members if "red" in m.text and m.ref.startswith("m")}
        await gateway.set_state(StateRequest(ref, whose, trust="quarantined"))
        assert await told(gateway) == {"blue"}
    async with Gateway.open(settings) as gateway:
        await gateway.settle()
        assert await told(gateway) == {"blue"}
        await gateway.set_state(StateRequest(ref, whose, trust="unknown"))
        assert await told(gateway) == {"red", "blue"}


async def test_the_state_reaches_the_cortex_and_its_own_recall(home: Path) -> None:
    async with Gateway.open(embedded(home)) as gateway:
        (ref,) = await remember(gateway, DECIDED)
        await gateway.set_state(StateRequest(ref, NADIA, archived=True, confidence=0.9))
        await gateway.settle()
        (memory,) = await gateway.guarded["cortex"].backend.graph.page()
        assert memory.state.confidence == 0.9
        assert memory.state.ended_at is not None


async def test_a_request_that_changes_nothing_or_says_nothing(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        (ref,) = await remember(gateway, DECIDED)
        assert (await gateway.set_state(StateRequest(ref, NADIA, confidence=State().confidence)))["decision"] is None
        with pytest.raises(BadInput, match="say what to change"):
            await gateway.set_state(StateRequest(ref, NADIA))
        with pytest.raises(BadInput, match="kept by its backend alone"):
            await gateway.set_state(StateRequest("xabcdefghij", NADIA, confidence=0.5))
        for unknown in ("m999", "xabcdefghij"):
            with pytest.raises(NotFound):
                await gateway.set_state(StateRequest(unknown, NADIA, archived=True))


async def test_another_user_sees_and_changes_nothing(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        (ref,) = await remember(gateway, DECIDED)
        made = (await gateway.set_state(StateRequest(ref, NADIA, archived=True)))["decision"]
        assert made is not None
        with pytest.raises(NotFound):
            await gateway.set_state(StateRequest(ref, OMAR, archived=False))
        with pytest.raises(NotFound):
            await gateway.undo_decision(made["id"], OMAR)
        assert (await gateway.decisions(OMAR))["decisions"] == []


async def test_pages_of_the_log_end_and_continue(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        (ref,) = await remember(gateway, DECIDED)
        for confidence in (0.1, 0.2, 0.3):
            await gateway.set_state(StateRequest(ref, NADIA, confidence=confidence))
        first = await gateway.decisions(NADIA, 2)
        rest = await gateway.decisions(NADIA, 2, cursor=first["next_cursor"])
        ids = [one["id"] for one in (*first["decisions"], *rest["decisions"])]
        assert (ids, rest["next_cursor"]) == (["d3", "d2", "d1"], None)
        with pytest.raises(BadInput, match="cursor"):
            await gateway.decisions(NADIA, cursor="nonsense")
