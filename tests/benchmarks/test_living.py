"""`benchmarks living`: its counts are of their own, and each figure counts what it says."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import living
from benchmarks.__main__ import main
from benchmarks.datasets import Corpus, DataError, locomo
from benchmarks.living_junk import KINDS, count, junk_kind
from fusion.ingest import turn_facts
from fusion.lib import junk
from tests.benchmarks.helpers import KITCHEN
from tests.lib.test_junk import LINES

COUNTED = {"greeting", "echo", "question", "tool"}
"""the labels that `junk_rate` counts; the others are not extracted either"""


@pytest.fixture
def kitchen(tmp_path: Path) -> tuple[Corpus, ...]:
    file = tmp_path / "kitchen.json"
    file.write_text(json.dumps([KITCHEN]), encoding="utf-8")
    return locomo.load(file)


def test_counting_agrees_with_labels() -> None:
    """It finds nineteen of twenty lines of junk, and takes no labelled fact for junk."""
    missed = [text for label, speaker, text in LINES if label in COUNTED and not junk_kind(text, speaker)]
    wrong = [text for label, speaker, text in LINES if label == "fact" and junk_kind(text, speaker)]
    assert len(missed) <= 0.05 * sum(label in COUNTED for label, _, _ in LINES) + 1, missed
    assert wrong == []


def test_counting_shares_no_code_with_extraction() -> None:
    """Otherwise extraction would grade itself."""
    source = Path(living.__file__).with_name("living_junk.py").read_text(encoding="utf-8")
    assert "fusion" not in "".join(line for line in source.splitlines() if line.startswith(("import", "from")))
    assert junk.__name__ not in vars(turn_facts) or junk.junk_of is not junk_kind


def test_count_finds_junk_and_duplicates() -> None:
    facts = [
        "Ada: I moved to Faro.",
        "Ada: I moved to Faro!",
        "Ada: Thanks a lot!",
        "Ada: Where is it?",
        "Ada: $ ls -l",
    ]
    counted = count((fact, "Ada") for fact in facts)
    assert counted == {"greeting": 1, "echo": 0, "question": 1, "tool_noise": 1, "duplicate": 1}


@pytest.mark.feature("of the facts that rules extract from the sample's sessions at most one in twenty is junk")
def test_facts_of_the_sample_are_no_junk() -> None:
    found = living.junk(())
    assert found["junk_rate"] <= 0.05
    assert found["junk_rate_of_turns"] > found["junk_rate"]
    assert found["facts"] >= 30
    assert set(found["junk_by_kind"]) == set(KINDS)


@pytest.mark.parametrize(("file", "count"), [(living.QUESTIONS, 30), (living.HELD_OUT, 40)])
def test_changes_of_topic_are_as_many_as_follow_ups(file: Path, count: int) -> None:
    rows = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()]
    assert Counter(kind for kind, *_ in rows) == {"follow": count, "change": count}


def test_held_out_pairs_share_no_question_with_those_of_the_choice() -> None:
    chosen, held_out = (
        {question for line in file.read_text(encoding="utf-8").splitlines() for question in line.split("\t")[1:3]}
        for file in (living.QUESTIONS, living.HELD_OUT)
    )
    assert not chosen & held_out


@pytest.mark.model
async def test_synthesis_is_used_for_follow_ups_and_not_for_changes() -> None:
    """By the vectors of the local model."""
    found = await living.synthesis()
    assert found["synthesis_used_follow_ups"] >= 0.9
    assert found["synthesis_used_changes"] == 0.0
    assert found["synthesis_held_out"].keys() == {"en", "de", "es", "fr", "it"}


async def test_ingest_prints_its_times() -> None:
    """Small; the figures themselves are no test."""
    found = await living.ingest(messages=12, calls=2)
    assert found.keys() == {
        *("ingest_messages", "ingest_answer_ms_p50", "ingest_answer_ms_p100", "ingest_cpu_ms_p50"),
        "ingest_stored_cpu_ms_p50",
    }
    assert min(found.values()) > 0


async def test_recall_after_ingest_finds_all_of_a_small_conversation(kitchen: tuple[Corpus, ...]) -> None:
    """Sent as histories and remembered: whatever block it is, it has all."""
    found = await living.recall_after_ingest(kitchen, None)
    whole = {"questions": 2, "eib_remember": 1.0, "eib_ingest": 1.0}
    assert found == {"recall_after_ingest": {**whole, "by_conversation": {kitchen[0].id: whole}}}


def test_parts_are_measured_alone_and_each_conversation_is_a_line_of_progress(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "kitchen.json"
    file.write_text(json.dumps([KITCHEN]), encoding="utf-8")
    assert main(["living", "recall_after_ingest", "junk", "--data", str(file), "--json"]) == 0
    printed = capsys.readouterr()
    assert {"command", "junk_rate", "recall_after_ingest"} <= {*json.loads(printed.out)}
    assert "ingest_answer_ms_p50" not in printed.out
    lines = printed.err.splitlines()
    assert [line.rpartition(": ")[0] for line in lines] == [
        "1/2 junk",
        f"2/2 recall after ingest: {KITCHEN['sample_id']}",
    ]


def test_unknown_part_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["living", "recal", "--json"]) == 2
    assert "no part recal" in capsys.readouterr().err


def test_figures_without_data_and_upkeep_say_why() -> None:
    with pytest.raises(DataError, match="no conversation x"):
        living.measure(None, conversations=["x"])


def test_unknown_data_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["living", "--data", str(tmp_path / "none.json"), "--json"]) == 2
    assert "none.json" in capsys.readouterr().err
