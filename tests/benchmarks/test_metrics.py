"""The figures by hand, and agreement with an outside referee where there is one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from math import log2
from pathlib import Path

import pytest

from benchmarks.metrics import by_group, duplicate_pairs, found, mean, ndcg_at, percentile, recall_at
from benchmarks.report import Asked, Run, Told, figures
from tests.benchmarks.test_locomo import KITCHEN

REFEREE = os.environ.get("LOCOMO_REFEREE")
"""path of a script that scores LOCOMO.json ANSWERS.jsonl, and prints one JSON object"""


def test_found_undoes_what_packing_does() -> None:
    """Escaping and line breaks are not the agent's loss; a missing word is."""
    gold = ["Per: Then we eat salad <for a week> & bread.", "Ida: The oven broke on Sunday."]
    block = "[m1] Per: Then we eat salad &lt;for\n a week&gt; &amp; bread.\n[m2] Ida: The oven broke"
    assert found(gold, block) == [True, False]


def test_recall_is_the_share_of_gold_in_the_first_k() -> None:
    """Of a and b, the first two have a: 1/2; the first three have both: 2/2."""
    assert recall_at(2, ["a", "b"], ["a", "x", "b"]) == 1 / 2
    assert recall_at(3, ["a", "b"], ["a", "x", "b"]) == 1.0


def test_ndcg_discounts_by_rank() -> None:
    """Gold at ranks 1 and 3 of two: (1/log2 2 + 1/log2 4) over (1/log2 2 + 1/log2 3)."""
    assert ndcg_at(10, ["a", "b"], ["a", "x", "b"]) == pytest.approx((1 + 1 / 2) / (1 + 1 / log2(3)))
    assert ndcg_at(10, ["a"], ["x"]) == 0.0


def test_ndcg_and_recall_agree_with_ir_measures() -> None:
    """The reference implementation gives the same numbers."""
    measures = pytest.importorskip("ir_measures")
    ranked = ["x", "b", "y", "a", "z"]
    qrels = [measures.Qrel("q", d, 1) for d in ("a", "b", "c")]
    run = [measures.ScoredDoc("q", d, -rank) for rank, d in enumerate(ranked)]
    expected = measures.calc_aggregate([measures.nDCG @ 4, measures.R @ 2], qrels, run)
    assert ndcg_at(4, ["a", "b", "c"], ranked) == pytest.approx(expected[measures.nDCG @ 4])
    assert recall_at(2, ["a", "b", "c"], ranked) == pytest.approx(expected[measures.R @ 2])


def test_duplicates_are_pairs_that_say_the_same() -> None:
    """Alike at Jaccard 0.6 counts, a negation or a date apart does not, nor do very short texts."""
    oven = "Ida: the oven in the kitchen broke again"
    assert duplicate_pairs([oven, "Ida: The oven in the kitchen broke again!"]) == 1
    assert duplicate_pairs([oven, oven, oven]) == 3
    assert duplicate_pairs([oven, "Ida: the oven in the kitchen never broke again"]) == 0
    assert duplicate_pairs(["Ida: oven broke on 3 May in the kitchen", "Ida: oven broke on 4 May in the kitchen"]) == 0
    assert duplicate_pairs(["Ida: thanks!", "Ida: thanks!"]) == 0


def test_a_text_within_another_is_a_duplicate() -> None:
    """5 of 14 words is far from 0.6, and still it is told twice."""
    short = "Ida: the oven broke again"
    assert duplicate_pairs([short, f"{short}, so we eat salad with bread all week long"]) == 1


def test_percentiles_are_values_that_occurred() -> None:
    """Nearest rank: of 1 to 4, half are at most 2, and 95 % need the 4th."""
    assert percentile(0.5, [4, 1, 3, 2]) == 2
    assert percentile(0.95, [4, 1, 3, 2]) == 4
    assert percentile(0.5, []) is None


def test_means() -> None:
    """Nothing has no mean; groups keep their size."""
    assert mean([1, 2, 2]) == 1.6667
    assert mean([]) is None
    assert by_group([("b", 1.0), ("a", 0.0), ("b", 0.0)]) == {"a": (1, 0.0), "b": (2, 0.5)}


BLOCK = "<memories>\n[m1] Ida: The oven broke on Sunday.\n[m2] Per: The oven is repaired.\n</memories>"


def _asked(
    question: int, category: int, budget: int, block: str, gold: tuple[str, ...], hit: tuple[bool, ...]
) -> Asked:
    return Asked(
        conversation="kitchen",
        question=question,
        category=category,
        budget=budget,
        block=block,
        members=(("D2:1",), ("D10:1",)) if block else (),
        ranked=("D2:1", "x", "D10:1", "y", "z", "D2:2"),
        found=hit,
        gold=gold,
        duplicates=0,
        took_ms=10.0 + question,
        cpu_ms=8.0,
    )


@pytest.fixture
def told() -> Told:
    rows = []
    for budget in (6000, 3000, 1500):
        rows.append(_asked(0, 4, budget, BLOCK, ("D2:1",), (True,)))
        rows.append(_asked(1, 1, budget, BLOCK, ("D10:1", "D2:2"), (True, False)))
        rows.append(_asked(2, 5, budget, "", (), ()))
    return Told(tuple(rows), turns=3, ingest_s=0.5, recipe_hash="0123456789ab")


def test_the_figures_of_a_run(told: Told, tmp_path: Path) -> None:
    """EIB frac (1/1 + 1/2) / 2, all 1 of 2; R@5 the same, R@10 has all; the unanswerable question got nothing."""
    out = figures(Run(data=tmp_path / "kitchen.json"), [told])
    expected = {
        "dataset": "kitchen",
        "n": 2,
        "recipe": "default",
        "eib_frac": 0.75,
        "eib_all": 0.5,
        "eib_1500_frac": 0.75,
        "eib_3000_frac": 0.75,
        "r_at_5": 0.75,
        "r_at_10": 1.0,
        "abstained_on_unanswerable": 1.0,
        "abstained_on_answerable": 0.0,
        "p50_ms": 11.0,
        "p95_ms": 12.0,
        "cpu_ms_per_query": 8.0,
        "ingest_per_s": 6.0,
        "over_budget": 0,
    }
    assert {name: out[name] for name in expected} == expected
    assert out["by_category"] == {
        "multi-evidence": {"n": 1, "eib_frac": 0.5, "eib_all": 0.0},
        "single": {"n": 1, "eib_frac": 1.0, "eib_all": 1.0},
    }
    # Ranks of the gold: 1 → 1; 3 and 6 → (1/log2 4 + 1/log2 7) / (1 + 1/log2 3).
    second = (1 / 2 + 1 / log2(7)) / (1 + 1 / log2(3))
    assert out["ndcg_at_10"] == pytest.approx((1 + second) / 2, abs=1e-4)


def test_the_found_of_a_row_is_what_its_block_says(told: Told) -> None:
    """What the figures count is what `found` reads in the block that goes to the referee."""
    texts = {t["dia_id"]: f"{t['speaker']}: {t['text']}" for s in ("session_2", "session_10") for t in _session(s)}
    for row in told.asked:
        assert tuple(found([texts[g] for g in row.gold], row.block)) == row.found


def _session(name: str) -> list[dict[str, str]]:
    talk = KITCHEN["conversation"]
    assert isinstance(talk, dict)
    turns: list[dict[str, str]] = talk[name]
    return turns


@pytest.mark.skipif(not REFEREE, reason="LOCOMO_REFEREE names no referee")
def test_the_referee_agrees(told: Told, tmp_path: Path) -> None:
    """A script that is not ours reads the same answers and comes to the same figures."""
    data, answers = tmp_path / "kitchen.json", tmp_path / "answers.jsonl"
    data.write_text(json.dumps([KITCHEN]), encoding="utf-8")
    answers.write_text("".join(json.dumps(row.answer()) + "\n" for row in told.asked), encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, str(REFEREE), str(data), str(answers)], capture_output=True, text=True, check=True
    )
    referee = json.loads(ran.stdout)
    ours = figures(Run(data=data), [told])
    assert (referee["eib"]["6000"]["frac"], referee["eib"]["6000"]["all"]) == (ours["eib_frac"], ours["eib_all"])
    assert referee["eib"]["1500"]["frac"] == ours["eib_1500_frac"]
    assert (referee["r_at_5"], referee["r_at_10"]) == (ours["r_at_5"], ours["r_at_10"])
    assert referee["abstained_on_unanswerable"] == ours["abstained_on_unanswerable"]
    assert (referee["over_budget"], referee["duplicate_pairs"]) == (ours["over_budget"], ours["duplicate_pairs"])
