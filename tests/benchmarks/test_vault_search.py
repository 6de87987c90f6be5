"""Our own vault, by kind of question."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.datasets import DataError
from benchmarks.vault_search import DATA, figures, read


@pytest.mark.feature("figures: a test vault by kind of question: hybrid, words alone and vectors alone")
def test_the_vault_that_comes_with_the_project() -> None:
    """Sixty questions at least, of six kinds and more, about files that are there, in names that are in NFC."""
    asked = read(DATA / "questions.json")
    files = {path.relative_to(DATA / "notes").as_posix() for path in (DATA / "notes").rglob("*.md")}
    assert len(asked) >= 60
    assert {"keyword", "paraphrase", "date", "cjk", "code", "typo"} <= set(Counter(one.kind for one in asked))
    assert {name for one in asked for name in one.files} <= files
    assert all(one.files for one in asked)
    assert all(unicodedata.is_normalized("NFC", name) for name in files)


def test_hit_rate_and_reciprocal_rank_by_hand() -> None:
    """Ranks 1, 2, none and 6: two of four within five; (1 + 1/2 + 0 + 1/6)/4 = .4167."""
    assert figures([1, 2, None, 6]) == {"hit_at_5": 0.5, "mrr": 0.4167}


@pytest.mark.parametrize("text", ["{}", "[]", '[{"query": "x"}]', "not JSON"])
def test_a_file_without_questions_is_refused(tmp_path: Path, text: str) -> None:
    """…are refused, with what is wrong."""
    (tmp_path / "q.json").write_text(text)
    with pytest.raises(DataError):
        read(tmp_path / "q.json")


def test_a_folder_without_its_questions_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They belong together; the exit code is 2."""
    assert main(["vault", "--data", str(tmp_path)]) == 2
    assert "--queries" in capsys.readouterr().err


@pytest.mark.model
def test_hybrid_finds_what_either_half_finds(capsys: pytest.CaptureFixture[str]) -> None:
    """Over all questions hybrid has more than either half alone; the last line is JSON."""
    assert main(["vault", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    share = {way: one["hit_at_5"] for way, one in found["all"].items()}
    assert share["hybrid (convex)"] > max(share["words alone"], share["vectors alone"])
