"""The loader of LoCoMo's format, on a small conversation of our own."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from benchmarks.datasets import DataError
from benchmarks.datasets.locomo import evidence, load, session_date
from benchmarks.options import Run
from benchmarks.run_dataset import heading
from fusion.recipe import Recipe
from tests.benchmarks.helpers import KITCHEN


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kitchen.json"
    path.write_text(json.dumps([KITCHEN]), encoding="utf-8")
    return path


def test_turns_come_in_the_order_they_were_said(file: Path) -> None:
    """Session 2 comes before session 10, positions count within a session, and turns have their session's date."""
    (conversation,) = load(file)
    assert conversation.id == "kitchen"
    assert [(t.id, t.document, t.position) for t in conversation.memories] == [
        ("D2:1", "session_2", 0),
        ("D2:2", "session_2", 1),
        ("D10:1", "session_10", 0),
    ]
    assert conversation.memories[0].at == datetime(2024, 1, 14, 12, 30, tzinfo=UTC)
    assert conversation.memories[1].at == datetime(2024, 1, 14, 12, 30, 1, tzinfo=UTC)
    assert conversation.memories[0].caption == "a dark oven"
    assert conversation.memories[2].spoken == "Per: The oven is repaired."


def test_a_question_without_evidence_does_not_count(file: Path) -> None:
    """Category 5 has no answer, and a question whose evidence names no turn cannot be scored."""
    (conversation,) = load(file)
    assert [q.gold for q in conversation.questions] == [("D2:1",), ("D10:1", "D2:2"), ("D2:2",), ()]
    assert [q.answerable for q in conversation.questions] == [True, True, False, False]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (["D30:05"], (("D30:5",), ())),
        (["D:11:26"], (("D11:26",), ())),
        (["D1:1; D1:2 D1:1"], (("D1:1", "D1:2"), ())),
        (["D", None], ((), ("D", "None"))),
        ([], ((), ())),
        (["D99:1", "D1:1 D99:1"], (("D1:1",), ("D99:1",))),
    ],
)
def test_evidence_is_repaired(entries: list[object], expected: tuple[tuple[str, ...], tuple[str, ...]]) -> None:
    """Leading zeros and stray colons go, several ids in one string are several, repeats are dropped; what names no turn
    is told apart."""
    assert evidence(entries, {"D30:5", "D11:26", "D1:1", "D1:2"}) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1:56 pm on 8 May, 2023", datetime(2023, 5, 8, 13, 56, tzinfo=UTC)),
        ("12:01 am on 1 January, 2024", datetime(2024, 1, 1, 0, 1, tzinfo=UTC)),
        ("some day", None),
        (None, None),
    ],
)
def test_dates_of_sessions(text: str | None, expected: datetime | None) -> None:
    """Noon is 12 pm, midnight 12 am, and what is no date is none."""
    assert session_date(text, "here") == expected


def test_another_file_is_refused(tmp_path: Path) -> None:
    """A file of another shape is named, not half read."""
    path = tmp_path / "other.json"
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(DataError, match=r"other\.json is no LoCoMo file"):
        load(path)


def test_broken_ids_are_named(tmp_path: Path) -> None:
    """Two turns with one id, and a turn without a text, are reported by conversation and place."""
    twice = json.loads(json.dumps([KITCHEN]))
    twice[0]["conversation"]["session_2"][1]["dia_id"] = "D2:1"
    silent = json.loads(json.dumps([KITCHEN]))
    del silent[0]["conversation"]["session_2"][1]["text"]
    path = tmp_path / "broken.json"
    path.write_text(json.dumps(twice), encoding="utf-8")
    with pytest.raises(DataError, match=r"kitchen\): the id 'D2:1' occurs twice"):
        load(path)
    path.write_text(json.dumps(silent), encoding="utf-8")
    with pytest.raises(DataError, match="session_2, turn 1: 'text' must be str"):
        load(path)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (
            ("conversation", "session_2_date_time"),
            "1:56 pm on 48 May, 2023",
            "session_2: there is no day 48 of month May",
        ),
        (
            ("conversation", "session_2_date_time"),
            "1:56 pm on 8 Mai, 2023",
            "session_2: there is no day 8 of month Mai",
        ),
        (("conversation", "session_2_date_time"), 5, "session_2: its date must be a text"),
        (("conversation", "session_2", 0, "text"), " ", "session_2, turn 0: 'text' is empty"),
        (("qa", 1, "question"), "", "question 1: 'question' is empty"),
        (("qa", 1, "evidence"), "D2:1", "question 1: 'evidence' must be list"),
        (("qa", 1, "evidence"), 3, "question 1: 'evidence' must be list"),
    ],
)
def test_locomo_names_an_invalid_entry(
    tmp_path: Path, place: tuple[str | int, ...], value: object, message: str
) -> None:
    """Days that there are not, empty texts, and evidence that would be read letter by letter: by file and entry."""
    broken: Any = json.loads(json.dumps([KITCHEN]))
    *path, last = place
    entry = broken[0]
    for step in path:
        entry = entry[step]
    entry[last] = value
    path_of_it = tmp_path / "broken.json"
    path_of_it.write_text(json.dumps(broken), encoding="utf-8")
    with pytest.raises(DataError, match=rf"broken\.json, conversation 0 \(kitchen\), {re.escape(message)}"):
        load(path_of_it)


@pytest.mark.feature(
    "… a broken data set is reported by file and entry; evidence that names nothing is counted",
    of="`tune` changes a number only",
)
def test_ids_that_name_no_turn_are_counted(file: Path) -> None:
    """Question 3 names D and D9:9: neither exists, so it is not asked, and both are reported."""
    (conversation,) = load(file)
    assert [q.unresolved for q in conversation.questions] == [(), (), (), ("D", "D9:9")]
    assert heading(Run("kitchen", (conversation,)), Recipe())["evidence_unresolved"] == {
        "ids": 2,
        "questions_not_asked": 1,
    }
