"""What is recorded replays as it was, from memory and from disk, and what was recorded otherwise is refused."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.arms import Arm, subsets
from benchmarks.datasets import Corpus, DataError, Item, Question
from benchmarks.fill_stores import TIMEOUT_MS, open_home, store_corpus
from benchmarks.recordings import CorpusRecording, load, made_from, save
from benchmarks.replay import record, replay, scope_of, widest_recipe
from benchmarks.scored_rows import Row, Scorer
from fusion import FuseRequest, Gateway
from fusion.recall.engine import fuse
from fusion.recipe import GatherSettings, Recipe
from fusion.recipe_files import recipes
from fusion.settings import load as load_settings

BACKENDS = ("markdown", "cortex", "triples")
KITCHEN = Corpus(
    "kitchen",
    tuple(
        Item(f"t{i}", text, f"s{i // 4}", i % 4, speaker="Ida" if i % 2 else "Per")
        for i, text in enumerate(
            (
                "The oven broke on Sunday.",
                "Then we eat salad for a week.",
                "Bread would be fine, too.",
                "Ask the neighbour for his oven!",
                "The oven is repaired.",
                "It cost ninety crowns.",
                "The garden needs water in May.",
                "Nobody watered the tomatoes.",
                "Per works at the harbour now.",
            )
        )
    ),
    (
        Question(0, "What broke on Sunday?", "single", ("t0",)),
        Question(1, "What did the repair of the oven cost?", "multi-evidence", ("t4", "t5")),
        Question(2, "Who watered the moon?", "unanswerable"),
    ),
)


def _recipes() -> dict[str, Recipe]:
    return dict(recipes(load_settings(home=Path("/nonexistent"))))


@pytest.fixture
async def kitchen(tmp_path: Path) -> AsyncIterator[tuple[Gateway, CorpusRecording]]:
    async with open_home(tmp_path / "home", BACKENDS) as gateway:
        stored = await store_corpus(gateway, KITCHEN)
        wide = widest_recipe(list(_recipes().values()))
        made = made_from(KITCHEN, BACKENDS, wide, "minilm")
        asked = {q.index: await record(gateway.live, scope_of(KITCHEN), q, wide, BACKENDS) for q in KITCHEN.questions}
        yield (
            gateway,
            CorpusRecording(
                made=made,
                asked={q.index: q.text for q in KITCHEN.questions},
                recordings={i: recording for i, (recording, _) in asked.items()},
                stored={ref: item.id for ref, item in stored.items.items()},
                costs={i: costs for i, (_, costs) in asked.items()},
                rankings={"bm25": {0: [("t0", 1.5)]}},
                timed={"": [3.0], "cortex": [2.0]},
            ),
        )


def _same(row: Row) -> Row:
    """A row without what differs between two runs: times, the nonce, and the eighth digit of a probability.

    The last bits of a similarity depend on how many texts are compared at once.
    """
    block = re.sub('(nonce="|End of memories )[0-9a-f]+', "", row.block)
    probabilities = tuple(None if p is None else round(p, 6) for p in row.probabilities)
    return replace(row, took_ms=0.0, cpu_ms=0.0, block=block, probabilities=probabilities)


@pytest.mark.feature("any recipe over any subset of backends gives the same answers replayed as live")
@pytest.mark.model
async def test_every_recipe_and_subset_replays_as_it_answers_live(kitchen: tuple[Gateway, CorpusRecording]) -> None:
    """Every recipe over seven subsets, three questions each: block, members and ranking are those of a live answer.

    One of the recipes asks for three hits only: it is handed the head of what was recorded.
    """
    gateway, one = kitchen
    shallow = Recipe(name="shallow", gather=GatherSettings(depth=3), rerank=_recipes()["default"].rerank)
    every = [*_recipes().values(), shallow]
    arms = [Arm(f"{r.name} {'+'.join(n)}", r, n) for r in every for n in subsets(BACKENDS)]
    items = {item.id: item for item in KITCHEN.memories}
    scorer = Scorer("own", KITCHEN, {ref: items[name] for ref, name in one.stored.items()})
    live = []
    for question in KITCHEN.questions:
        for arm in arms:
            request = FuseRequest(question.text, scope_of(KITCHEN), backends=arm.backends, timeout_ms=TIMEOUT_MS)
            outcome = await fuse(replace(request, budget_chars=1500), arm.recipe, gateway.live)
            live.append(_same(scorer.row(question, arm, 1500, outcome, 0.0, 0.0)))
    assert len(live) == len(every) * 7 * 3
    assert [_same(row) for row in await _replayed(one, arms)] == live


async def _replayed(one: CorpusRecording, arms: list[Arm]) -> list[Row]:
    """`replay` has a loop of its own, so it runs in a thread here."""
    import asyncio

    return await asyncio.to_thread(replay, [one], [KITCHEN], arms, dataset="own", budgets=(1500,))


@pytest.mark.model
async def test_a_recording_comes_back_from_disk(kitchen: tuple[Gateway, CorpusRecording], tmp_path: Path) -> None:
    """Written and read, it replays to the same rows, with costs, rankings and times as they were."""
    _, one = kitchen
    save(one, tmp_path / "recordings")
    back = load(tmp_path / "recordings", one.made, KITCHEN.questions)
    assert back is not None
    assert (back.costs, back.rankings, back.timed) == (one.costs, one.rankings, one.timed)
    arms = [Arm("default", _recipes()["default"], BACKENDS), Arm("seed003", _recipes()["seed003"], ("cortex",))]
    assert [_same(r) for r in await _replayed(back, arms)] == [_same(r) for r in await _replayed(one, arms)]


@pytest.mark.feature("a recording of other memories or another model is refused")
@pytest.mark.model
async def test_a_recording_of_other_memories_is_refused(
    kitchen: tuple[Gateway, CorpusRecording], tmp_path: Path
) -> None:
    """Another model, other memories, an earlier form, other bytes: named. Deeper, or more questions: recorded again."""
    _, one = kitchen
    folder = tmp_path / "recordings"
    assert load(folder, one.made, KITCHEN.questions) is None
    save(one, folder)
    with pytest.raises(DataError, match=r"recorded otherwise \(embedder differ\)"):
        load(folder, {**one.made, "embedder": "other"}, KITCHEN.questions)
    fewer = replace(KITCHEN, memories=KITCHEN.memories[1:])
    with pytest.raises(DataError, match="content differ"):
        load(folder, made_from(fewer, BACKENDS, widest_recipe(list(_recipes().values())), "minilm"), KITCHEN.questions)
    with pytest.raises(DataError, match=r"recorded otherwise \(version differ\)"):
        load(folder, {**one.made, "version": 0}, KITCHEN.questions)
    assert load(folder, {**one.made, "depth": 10_000}, KITCHEN.questions) is None
    assert load(folder, {**one.made, "depth": 1}, KITCHEN.questions) is not None
    assert load(folder, one.made, [*KITCHEN.questions, Question(3, "And then?", "single", ("t1",))]) is None
    (folder / "kitchen.npz").write_bytes(b"not a recording")
    with pytest.raises(DataError, match=r"kitchen\.npz cannot be read"):
        load(folder, one.made, KITCHEN.questions)


@pytest.mark.model
async def test_an_arm_that_wants_more_than_was_recorded_is_named(kitchen: tuple[Gateway, CorpusRecording]) -> None:
    """Depth 1,000 of a recording of 300: refused, instead of being measured at less."""
    _, one = kitchen
    deeper = Recipe(name="deeper", gather=GatherSettings(depth=1000))
    with pytest.raises(DataError, match="arm 'deeper' wants 1000 hits; 300 were recorded"):
        await _replayed(one, [Arm("deeper", deeper, BACKENDS)])


@pytest.mark.feature(
    "… a recording answers only the question that was recorded",
    of="`tune` changes a number only",
)
@pytest.mark.model
async def test_a_recording_answers_no_other_question(kitchen: tuple[Gateway, CorpusRecording], tmp_path: Path) -> None:
    """A question that was reworded, or two that changed places: recorded again, never answered for another text."""
    _, one = kitchen
    save(one, tmp_path)
    first, second, third = KITCHEN.questions
    reworded = replace(first, text="What broke?")
    swapped = [replace(second, index=0), replace(first, index=1), third]
    assert load(tmp_path, one.made, [first, third]) is not None
    assert load(tmp_path, one.made, [reworded, second, third]) is None
    assert load(tmp_path, one.made, swapped) is None


@pytest.mark.model
async def test_a_recording_is_private_and_names_a_folder_that_cannot_be_written(
    kitchen: tuple[Gateway, CorpusRecording], tmp_path: Path
) -> None:
    """For its owner only, also in a folder that others may read; a file for a folder is a clear error."""
    _, one = kitchen
    save(one, tmp_path)
    assert (tmp_path / "kitchen.npz").stat().st_mode & 0o777 == 0o600
    with pytest.raises(DataError, match=r"kitchen\.npz cannot be written: Not a directory"):
        save(one, tmp_path / "kitchen.npz" / "below")
