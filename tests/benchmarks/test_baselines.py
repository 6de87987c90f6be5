"""The baselines' arithmetic, and their packing into our fence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.arms import BASELINES
from benchmarks.baselines import best, min_max_scaled, rankings, rows, rrf, steps
from benchmarks.datasets import Corpus, DataError, Item, Question
from benchmarks.memory_libraries import NEEDS, installed, require
from tests.fakes import FakeEmbedder

KITCHEN = Corpus(
    "kitchen",
    (
        Item("t1", "the oven broke on sunday", "s1", 0, speaker="Ida"),
        Item("t2", "then we eat salad", "s1", 1, speaker="Per"),
        Item("t3", "the oven is repaired", "s2", 0, speaker="Per"),
        Item("t4", "the garden needs water", "s2", 5, speaker="Ida"),
        Item("t5", "nobody watered it", "s3", 0, speaker="Per"),
    ),
    (Question(0, "who said that the oven broke?", "single", ("t1",)), Question(1, "salad", "single", ("t2",))),
)


def test_rrf_of_two_rankings_by_hand() -> None:
    """Ranks 1, 2, 3 and 2, 1, 3: 1/61 + 1/62 twice, then 2/63."""
    assert rrf(np.array([3.0, 2.0, 1.0]), np.array([0.2, 0.3, 0.1])) == pytest.approx(
        [1 / 61 + 1 / 62, 1 / 62 + 1 / 61, 2 / 63]
    )


def test_scores_are_spread_from_0_to_1() -> None:
    """(2 - 1) / (5 - 1) is a quarter; where all are equal they say nothing."""
    assert min_max_scaled(np.array([1.0, 2.0, 5.0])).tolist() == [0.0, 0.25, 1.0]
    assert min_max_scaled(np.array([2.0, 2.0])).tolist() == [0.0, 0.0]


def test_tied_scores_keep_the_order_of_the_corpus() -> None:
    """The same in every run."""
    assert [name for name, _ in best(KITCHEN.memories, np.array([0.0, 1.0, 1.0, 0.0, 2.0]))] == [
        "t5",
        "t2",
        "t3",
        "t1",
        "t4",
    ]


async def test_every_baseline_finds_the_memory_with_the_words_of_the_question() -> None:
    """BM25, cosine, their fusion and the hand-set sum all put the turn with the words first."""
    found = await rankings(("bm25", "dense", "rrf", "handset"), KITCHEN, KITCHEN.questions, FakeEmbedder())
    assert {name: ranking[1][0][0] for name, ranking in found.items()} == dict.fromkeys(found, "t2")
    assert found["handset"][0][0][0] == "t1"


@pytest.mark.feature("baselines are measured in the same fence")
def test_baselines_are_packed_into_the_same_fence() -> None:
    """Plain ones as memories alone, the hand-set as excerpts of their sessions; all within the budget."""
    ranking = {0: [("t1", 1.0), ("t3", 0.9), ("t2", 0.8)]}
    made = rows("own", KITCHEN, {"bm25": ranking, "handset": ranking}, (6000, 250))
    members = {(row.arm, row.budget): row.members for row in made}
    assert members["bm25", 6000] == (("t1",), ("t3",), ("t2",))
    assert members["handset", 6000] == (("t1", "t2"), ("t3",))
    assert all(row.block.startswith('<memories nonce="') and len(row.block) <= row.budget for row in made)
    assert [row.eib for row in made] == [1.0, 1.0, 1.0, 1.0]
    assert made[0].ranked == ("t1", "t3", "t2")
    assert (made[0].evidence, made[0].best) == ((KITCHEN.memories[0].spoken,), None)


def test_a_passage_of_several_items_is_one_memory_and_counts_as_its_items() -> None:
    """t1 and t2 joined and t4 alone are two memories of eight; both turns of the first are found and ranked."""
    found = {"mnemostack": {0: [("t1\nt2", 2.0), ("t4", 1.0)]}}
    (row,) = rows("own", KITCHEN, found, (6000,))
    assert (row.members, row.ranked, row.eib) == ((("t1", "t2"), ("t4",)), ("t1", "t2", "t4"), 1.0)
    assert "Ida: the oven broke on sunday\nPer: then we eat salad\n" in row.block


@pytest.mark.feature("a baseline that is not installed says how to install it")
def test_a_missing_baseline_says_how_to_install_it() -> None:
    """Asked for by name; a baseline of our own needs nothing, and each that needs something is a baseline."""
    assert set(NEEDS) <= set(BASELINES)
    assert installed("handset", lambda module: None)
    require(["handset", "rrf"], lambda module: None)
    assert not installed("mnemostack", lambda module: None)
    with pytest.raises(DataError, match=r"not installed: pip install '/path/to/checkout\[mnemostack\]'"):
        require(["bm25", "mnemostack"], {"rank_bm25": "there"}.get)


@pytest.mark.feature("mnemostack is a baseline: its own ingestor and recall, our vectors, no server")
@pytest.mark.skipif(not installed("mnemostack"), reason="needs the extra mnemostack")
async def test_the_mnemostack_library_answers_alone() -> None:
    """Windows of three stay within a document, and a note of no document has none; the words decide what is first."""
    evening = tuple(Item(f"e{i}", text, "s9", i, speaker="Ida") for i, text in enumerate(("tea", "more tea", "a film")))
    notes = (Item("n1", "salt the salad"), Item("n2", "water the tomatoes"), Item("n3", "mend the oven"))
    corpus = replace(KITCHEN, memories=(*KITCHEN.memories, *evening, *notes))
    told: list[int] = []
    found = await rankings(("mnemostack",), corpus, corpus.questions, FakeEmbedder(), told.append)
    assert sum(told) == steps(("mnemostack",), len(corpus.memories), len(corpus.questions))
    passages = {name for ranking in found["mnemostack"].values() for name, _ in ranking}
    assert passages <= {item.id for item in corpus.memories} | {"e0\ne1\ne2"}
    assert "e0\ne1\ne2" in passages
    assert found["mnemostack"][1][0][0] in {"t2", "n1"}


@pytest.mark.model
async def test_the_mem0_library_answers_alone() -> None:
    """By its own `add` and `search`, each memory once; a bar advances with every memory and question."""
    told: list[int] = []
    questions = KITCHEN.questions
    found = await rankings(("bm25", "mem0"), KITCHEN, questions, FakeEmbedder(), told.append)
    assert sum(told) == steps(("bm25", "mem0"), len(KITCHEN.memories), len(questions))
    names = [name for name, _ in found["mem0"][1]]
    assert (names[0], len(set(names))) == ("t2", len(names))
