"""`fusion pack`, and `fusion mem pack`, which prints JSON by default, as openclaw-mem does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from fusion.doors.cli import app
from fusion.doors.cli.pack import nothing_recalled

NOTES = """
backends_only = true
[embedder]
adapter = ""
[backends.notes]
adapter = "adapters.markdown:Markdown"
"""
"""settings whose one backend keeps its memories between two commands"""
PATIENT = ("--timeout-ms", "60000")
"""a question waits for its backends, however busy the machine is"""
QUESTION = "where does the bookings database move?"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    (home / "fusion.toml").write_text(NOTES)
    return home


def run(home: Path, *arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, [*arguments, "--home", str(home), "--direct"], input=stdin)


def remembered(home: Path, text: str) -> str:
    ref: str = json.loads(run(home, "remember", text, "--json").stdout)["memories"][0]["ref"]
    return ref


@pytest.mark.row(
    "A122", "`fusion pack` prints the bundle alone, `fusion mem pack --query … --budget-tokens n` the pack"
)
def test_pack_prints_the_bundle_alone(home: Path) -> None:
    ref = remembered(home, "We decided to move the bookings database to Postgres")
    shown = run(home, "pack", *QUESTION.split(), *PATIENT)
    assert shown.exit_code == 0, shown.stderr
    assert shown.stdout.splitlines()[1] == f"- [obs:{ref}] We decided to move the bookings database to Postgres"
    assert len(shown.stdout.splitlines()) == 3
    assert shown.stderr == ""
    made = json.loads(run(home, "mem", "pack", "--query", QUESTION, "--budget-tokens", "300", *PATIENT).stdout)
    assert made["meta"]["budgetTokens"] == 300
    assert [item["recordRef"] for item in made["items"]] == [f"obs:{ref}"]


def test_pack_takes_a_tail_as_text_as_file_and_on_stdin(home: Path, tmp_path: Path) -> None:
    turns = tmp_path / "turns.txt"
    turns.write_text("".join(f"user: turn {n}\n" for n in range(100_000)) + "user: The last turn\n")
    asked = ("mem", "pack", "--no-json", "--query", QUESTION)
    by_text = run(home, *asked, "--tail-text", "user: The last turn")
    by_file = run(home, *asked, "--tail-file", str(turns), "--tail-max-items", "1")
    by_stdin = run(home, *asked, "--tail-file", "-", stdin="user: The last turn\n")
    for shown in (by_text, by_file, by_stdin):
        assert shown.stdout.splitlines()[1] == "- [tail:1] user: The last turn", shown.stderr
        assert "nothing was recalled: no memory is here yet" in shown.stderr


def test_a_pack_of_episodes_alone_does_not_say_that_nothing_was_recalled() -> None:
    made: dict[str, Any] = {"receipt": {"abstained": "nothing cleared the floor"}, "items": [{"recordRef": "tail:1"}]}
    assert nothing_recalled(made) == "nothing was recalled: nothing cleared the floor"
    made["items"] = [{"recordRef": "ep:1"}]
    assert nothing_recalled(made) == "no memory was recalled: nothing cleared the floor"


@pytest.mark.row("A136", "`fusion pack --trace` prints the trace on stderr, and with --json in the pack")
def test_pack_prints_a_trace(home: Path) -> None:
    ref = remembered(home, "We decided to move the bookings database to Postgres")
    trace = json.loads(run(home, "pack", QUESTION, "--trace", *PATIENT).stderr)
    assert [row["id"] for row in trace["candidates"]] == [f"obs:{ref}"]
    assert (
        json.loads(run(home, "pack", QUESTION, "--trace", "--json", *PATIENT).stdout)["trace"]["kind"] == trace["kind"]
    )


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "there are no words in it"),
        (("--query", " "), "there are no words in it"),
        (("x", "--tail-file", "nowhere.txt"), "there is no file"),
        (("x", "--tail-file", "a", "--tail-text", "b"), "give one of the two"),
        (("x", "--budget-tokens", "20"), "--budget-tokens: 20 has no room"),
        (("x", "--layer", "L9"), "L9"),
        (("x", "--lane", "lukewarm"), "lane"),
    ],
)
def test_pack_refuses_what_it_cannot_do(home: Path, arguments: tuple[str, ...], why: str) -> None:
    shown = run(home, "pack", *arguments)
    assert shown.exit_code == 2
    assert why in " ".join(shown.stderr.split())
