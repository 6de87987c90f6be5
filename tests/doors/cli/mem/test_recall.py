"""`fusion mem search`, `timeline` and `get`: three steps, each of which says what the next one costs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fusion.doors.cli import app

NOTES = """
backends_only = true
[embedder]
adapter = ""
[backends.notes]
adapter = "adapters.markdown:Markdown"
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    (home / "fusion.toml").write_text(NOTES)
    return home


def run(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--home", str(home), "--direct"])


@pytest.mark.row(
    "A125", "`fusion mem search`, `timeline` and `get` lead from a line to the text, each with the next cost"
)
def test_search_timeline_and_get(home: Path) -> None:
    refs = [
        json.loads(run(home, "remember", text, "--json").stdout)["memories"][0]["ref"]
        for text in ("Tea is at four.", "The bookings database moves to Postgres.", "Rope is in the shed.")
    ]
    found = run(home, "mem", "search", "bookings", "database", "--timeout-ms", "60000")
    assert found.stdout.startswith(f"obs:{refs[1]} ")
    assert "note: The bookings database moves to Postgres. (13 tokens)" in found.stdout
    assert f"next: fusion mem timeline {refs[1]} costs" in found.stderr
    around = run(home, "mem", "timeline", f"obs:{refs[1]}", "--window", "1")
    assert [line.split()[:2] for line in around.stdout.splitlines()][1] == [">", f"obs:{refs[1]}"]
    assert len(around.stdout.splitlines()) == 3
    assert f"next: fusion mem get {' '.join(refs)} costs" in around.stderr
    bounded = run(home, "mem", "timeline", refs[1], "--window", "1", "--budget-tokens", "25")
    assert "more around: raise --budget-tokens" in bounded.stderr
    whole = run(home, "mem", "get", *refs, "m7zzz")
    assert "Rope is in the shed." in whole.stdout
    assert "there is no memory m7zzz here" in whole.stderr
    rows = json.loads(run(home, "mem", "get", *refs, "--json").stdout)
    assert [row["recordRef"] for row in rows] == [f"obs:{ref}" for ref in refs]


def test_search_refuses_a_question_without_words(home: Path) -> None:
    assert run(home, "mem", "search", " ").exit_code == 2
    assert run(home, "mem", "timeline").exit_code == 2
