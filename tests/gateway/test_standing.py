"""What a memory's state does to the answers of `/fuse`: its project, and an open conflict."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusion.contract import Scope
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from tests.gateway.helpers import embedded, small

NADIA = Scope(user_id="nadia", audience="private")


@pytest.mark.row("A012", "a project that a question names puts its memories first, through `/fuse`")
@pytest.mark.parametrize(("asked", "first"), [("alpha", "alpha"), ("beta", "beta")])
async def test_memories_of_the_questions_project_come_first(home: Path, asked: str, first: str) -> None:
    """Two projects deploy at different hours; the words of the question fit both alike."""
    texts = {"alpha": "The release is deployed at nine.", "beta": "The release is deployed at five."}
    async with Gateway.open(embedded(home)) as gateway:
        for project, text in texts.items():
            scope = Scope(user_id="nadia", project=project, audience="private")
            await gateway.remember([NewMemory(text, scope=scope)])
        await gateway.settle()
        scope = Scope(user_id="nadia", project=asked, audience="private")
        fused = await gateway.fuse("when is the release deployed?", scope=scope)
        assert fused.memories[0].members[0].text == texts[first]
        assert len(fused.memories) == 2, "the other project's memory is not filtered"


@pytest.mark.row("A027", "a block says of a memory in an open conflict what it conflicts with")
@pytest.mark.parametrize("layout", ["fence", "long-term", "context-pack", "cortex"])
async def test_a_conflict_is_annotated_in_every_block_format(home: Path, layout: str) -> None:
    async with Gateway.open(small(home)) as gateway:
        kept = await gateway.remember(
            [NewMemory(text, scope=NADIA) for text in ("Mara lives in Bergen.", "Mara moved to Oslo for good.")]
        )
        await gateway.settle()
        one, other = (item.event_id for item in kept)
        group = {"conflict_group": "g", "conflict_status": "active"}
        await gateway.journal.decide(
            {one: {**group, "contradicts": other}, other: {**group, "contradicts": one}}, "test", "a move"
        )
        fused = await gateway.fuse("where does Mara live?", scope=NADIA, format=layout)
        assert {dispute.kind for dispute in fused.disputed} == {"conflict"}
        refs = [item.ref for item in kept]
        lines = fused.block.replace("conflicts with: obs:", "conflicts with: ").splitlines()
        shown = {line.rpartition(" [conflicts with: ")[::2] for line in lines}
        assert sum(text.endswith("in Bergen.") and rival == f"{refs[1]}]" for text, rival in shown) == 1
        assert sum(text.endswith("for good.") and rival == f"{refs[0]}]" for text, rival in shown) == 1
        if layout not in ("cortex", "context-pack"):
            either_order = (f"[{a}, {b}] disagree" for a, b in (refs, refs[::-1]))
            assert any(pair in fused.block for pair in either_order)


async def test_a_conflict_is_annotated_that_texts_show_as_well(home: Path) -> None:
    """The two statements differ in one word, so a question would find them contradictory without the journal."""
    async with Gateway.open(small(home)) as gateway:
        kept = await gateway.remember(
            [NewMemory(text, scope=NADIA, kind="fact") for text in ("Mara works at Initech.", "Mara works at Globex.")]
        )
        await gateway.settle()
        one, other = (item.event_id for item in kept)
        group = {"conflict_group": "g", "conflict_status": "active"}
        await gateway.journal.decide(
            {one: {**group, "contradicts": other}, other: {**group, "contradicts": one}}, "test", "a move"
        )
        fused = await gateway.fuse("where does Mara work?", scope=NADIA)
        assert f"Mara works at Initech. [conflicts with: {kept[1].ref}]\n" in fused.block
        assert f"Mara works at Globex. [conflicts with: {kept[0].ref}]\n" in fused.block


@pytest.mark.row("A009", "A010", "what was in a block before ranks higher by recency and use, in `seed000`")
async def test_use_in_earlier_blocks_raises_a_memory(home: Path) -> None:
    """Two statements fit a question alike; only one fits an earlier question, whose block it was in."""
    async with Gateway.open(small(home)) as gateway:
        texts = ("The red lamp is in the hall.", "The blue lamp is in the hall.")
        kept = await gateway.remember([NewMemory(text, scope=NADIA) for text in texts])
        await gateway.settle()
        for _ in range(3):
            await gateway.fuse("what is blue?", scope=NADIA, max_results=1, max_items=1)
        await gateway.settle()
        fused = await gateway.fuse("which lamp is in the hall?", scope=NADIA, recipe="seed000", explain=True)
        assert fused.explain is not None
        rows = {row["ref"]: row["signals"] for row in fused.explain["candidates"]}
        red, blue = (rows[one.ref] for one in kept)
        assert (red["recency"], red["use"]) == (pytest.approx(0.1), 0.0)
        assert (blue["recency"], blue["use"]) == (pytest.approx(1.0), pytest.approx(0.2))
        assert fused.memories[0].ref == kept[1].ref
