"""The figures of rows by hand, and agreement with an outside referee where there is one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from math import log2
from pathlib import Path

import orjson
import pytest

from benchmarks.figures import arms, cost, ingest, quality
from benchmarks.fill_stores import Stored, Took
from benchmarks.metrics import texts_in_block
from benchmarks.scored_rows import Row, write, write_rows
from tests.benchmarks.helpers import KITCHEN

REFEREE = os.environ.get("LOCOMO_REFEREE")
"""path of a script that scores LOCOMO.json ANSWERS.jsonl, and prints one JSON object"""

BLOCK = "<memories>\n[m1] Ida: The oven broke on Sunday.\n[m2] Per: The oven is repaired.\n</memories>"


def _row(question: int, category: str, budget: int, block: str, gold: tuple[str, ...], hit: tuple[bool, ...]) -> Row:
    return Row(
        dataset="kitchen",
        corpus="kitchen",
        question=question,
        query="?",
        category=category,
        arm="default",
        recipe="default",
        recipe_hash="0123456789ab",
        backends=("a",),
        budget=budget,
        block=block,
        members=(("D2:1",), ("D10:1",)) if block else (),
        ranked=("D2:1", "x", "D10:1", "y", "z", "D2:2"),
        gold=gold,
        found=hit,
        eib=sum(hit) / len(hit) if hit else None,
        took_ms=10.0 + question,
        cpu_ms=8.0,
        abstained=not block,
        duplicates=0,
    )


@pytest.fixture
def rows() -> list[Row]:
    made = []
    for budget in (6000, 3000, 1500):
        made.append(_row(0, "single", budget, BLOCK, ("D2:1",), (True,)))
        made.append(_row(1, "multi-evidence", budget, BLOCK, ("D10:1", "D2:2"), (True, False)))
        made.append(_row(2, "unanswerable", budget, "", (), ()))
    return made


def test_the_rate_of_storing_is_by_the_clock_and_by_cpu() -> None:
    """30 memories in 2 + 4 s that took 10 s of CPU; a home that had its memories counts for nothing."""
    fresh = Stored({}, Took(2.0, 6.0), 10), Stored({}, Took(4.0, 4.0), 20)
    assert ingest([*fresh, Stored({}, None, 50)]) == {"ingest_per_s": 5.0, "ingest_per_cpu_s": 3.0}
    assert ingest([Stored({}, None, 50)]) == {"ingest_per_s": None, "ingest_per_cpu_s": None}


def test_the_figures_of_an_arm(rows: list[Row]) -> None:
    """EIB frac (1/1 + 1/2) / 2, all 1 of 2; R@5 the same, R@10 has all; the unanswerable question got nothing.

    Three gold turns of which two were found, in two blocks: each cost one block's characters.
    """
    out = {**quality(rows), **cost(rows)}
    expected = {
        "n": 2,
        "eib_frac": 0.75,
        "eib_all": 0.5,
        "eib_1500_frac": 0.75,
        "eib_3000_frac": 0.75,
        "r_at_5": 0.75,
        "r_at_10": 1.0,
        "mrr": round((1 + 1 / 3) / 2, 4),
        "abstained_on_unanswerable": 1.0,
        "abstained_on_answerable": 0.0,
        "chars_per_gold": float(len(BLOCK)),
        "p50_ms": 11.0,
        "p95_ms": 12.0,
        "p50_cpu_ms": 8.0,
        "cpu_ms_per_query": 8.0,
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


@pytest.mark.feature("two arms are compared by interval, wins, ties and losses, by category")
def test_the_difference_of_two_arms(rows: list[Row]) -> None:
    """The other arm lost its only evidence of question 1: 0.5 less on one of two questions, 0.25 in the mean."""
    worse = [replace(r, arm="hook", found=(False, False), eib=0.0) if r.question == 1 else r for r in rows]
    worse = [replace(r, arm="hook") for r in worse]
    out = arms([*rows, *worse], "hook")
    verdict = out["default"]["against"]
    assert "against" not in out["hook"]
    assert (verdict["baseline"], verdict["eib_frac"]["difference"]) == ("hook", 0.25)
    assert [verdict["eib_frac"][name] for name in ("n", "win", "tie", "loss")] == [2, 1, 1, 0]
    assert verdict["by_category"]["multi-evidence"]["difference"] == 0.5
    assert verdict["by_category"]["single"]["difference"] == 0.0
    assert verdict["eib_all"]["difference"] == 0.0


def test_the_evidence_found_of_a_row_is_in_its_block(rows: list[Row]) -> None:
    """What the figures count is what `texts_in_block` reads in the block that goes to the referee."""
    texts = {t["dia_id"]: f"{t['speaker']}: {t['text']}" for s in ("session_2", "session_10") for t in _session(s)}
    for row in rows:
        assert tuple(texts_in_block([texts[g] for g in row.gold], row.block)) == row.found


def test_rows_are_written_whole_or_not_at_all(rows: list[Row], tmp_path: Path) -> None:
    """An object a line with every field; a row that cannot be written leaves what was there, and nothing half."""
    file = tmp_path / "rows.jsonl"
    write_rows(file, rows)
    read = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert len(read) == 9
    assert (read[1]["eib"], read[1]["found"], read[2]["eib"]) == (0.5, [True, False], None)
    with pytest.raises(orjson.JSONEncodeError):
        write(file, [{"fine": 1}, {"not": object()}])
    assert len(file.read_text(encoding="utf-8").splitlines()) == 9
    assert [f.name for f in tmp_path.iterdir()] == ["rows.jsonl"]


def _session(name: str) -> list[dict[str, str]]:
    talk = KITCHEN["conversation"]
    assert isinstance(talk, dict)
    turns: list[dict[str, str]] = talk[name]
    return turns


@pytest.mark.skipif(not REFEREE, reason="LOCOMO_REFEREE names no referee")
def test_a_referee_finds_the_same_evidence(rows: list[Row], tmp_path: Path) -> None:
    """A script that is not ours reads the same answers and comes to the same figures."""
    data, answers = tmp_path / "kitchen.json", tmp_path / "answers.jsonl"
    data.write_text(json.dumps([KITCHEN]), encoding="utf-8")
    write(answers, (row.answer() for row in rows))
    ran = subprocess.run(
        [sys.executable, str(REFEREE), str(data), str(answers)], capture_output=True, text=True, check=True
    )
    referee = json.loads(ran.stdout)
    ours = quality(rows)
    assert (referee["eib"]["6000"]["frac"], referee["eib"]["6000"]["all"]) == (ours["eib_frac"], ours["eib_all"])
    assert referee["eib"]["1500"]["frac"] == ours["eib_1500_frac"]
    assert (referee["r_at_5"], referee["r_at_10"]) == (ours["r_at_5"], ours["r_at_10"])
    assert referee["abstained_on_unanswerable"] == ours["abstained_on_unanswerable"]
    assert (referee["over_budget"], referee["duplicate_pairs"]) == (ours["over_budget"], ours["duplicate_pairs"])
