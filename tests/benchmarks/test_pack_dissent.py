"""The figures of dissent, and the sets that they are of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.datasets import DataError
from benchmarks.pack_dissent import DEVELOPMENT, REPORTED, Case, Marks, Result, case_of, figures, halves, read


def case(name: str, *, contradicted: bool, speaker: str | None = None) -> Case:
    text = {"text": "The ferry leaves at seven.", "at": "2025-01-01T12:00:00+00:00"}
    memories = [text | ({"speaker": speaker} if speaker else {})] * 2
    row = {"id": name, "question": f"When does ferry {name} leave?", "contradicted": contradicted, "memories": memories}
    return case_of(row | ({"sides": [[0], [1]]} if contradicted else {}))


def test_the_figures_count_marked_pairs() -> None:
    both, none, wrong = Marks(True, True), Marks(True, False), Marks(False, False, frozenset({frozenset({0, 1})}))
    found = [
        Result(case("a", contradicted=True), none, both),
        Result(case("b", contradicted=True, speaker="Bo"), none, none),
        Result(case("c", contradicted=False), none, wrong),
        Result(case("d", contradicted=False), none, none),
    ]
    printed = figures(found)
    assert (printed["both_sides_held"], printed["marked"], printed["false_dissent"]) == (1.0, 0.0, 0.0)
    ruled = printed["by_rules"]
    assert (ruled["both_sides_held"], ruled["marked"], ruled["false_dissent"]) == (1.0, 0.5, 0.5)
    assert printed["by form"]["speech"]["by_rules"]["marked"] == 0.0
    assert printed["by language"]["english"]["contradicted"] == 2


@pytest.mark.parametrize("file", [REPORTED, DEVELOPMENT], ids=lambda file: file.stem)
def test_half_of_a_set_is_contradicted(file: Path) -> None:
    cases = read(file)
    assert sum(bool(case.sides) for case in cases) * 2 == len(cases)
    assert len({case.id for case in cases}) == len(cases)


def test_the_two_halves_share_no_question() -> None:
    fitting, testing = halves(read(DEVELOPMENT))
    assert not {case.question for case in fitting} & {case.question for case in testing}
    assert len(fitting) == len(testing) == 160


def test_a_line_that_is_no_case_is_named(tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(json.dumps({"id": "a"}) + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"cases.jsonl:1"):
        read(file)
