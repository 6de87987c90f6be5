"""`fusion forget`: a look, a question, and then what was looked at."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from fusion.contract import Scope
from fusion.doors.cli import app, render
from fusion.gateway.gateway import Gateway
from tests.patience import load

SMALL = """
backends_only = true
[embedder]
adapter = ""
[backends.memory]
adapter = "adapters.cortex:Cortex"
"""
"""one backend that keeps what it was told, no model"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home whose 25 letters of Nadia's came from "mail", and one note."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "fusion.toml").write_text(SMALL)
    letters = tmp_path / "letters.jsonl"
    rows = [{"text": f"letter {n} about the harbour", "source": "mail", "revision": str(n)} for n in range(25)]
    rows.append({"text": "a note about the lighthouse", "source": "notes", "revision": "1"})
    letters.write_text("".join(json.dumps(row) + "\n" for row in rows))
    told(home, "ingest", letters, "--user", "nadia")
    return home


def run(home: Path, *arguments: object, answer: str | None = None) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments), "--home", str(home), "--direct"], input=answer)


def told(home: Path, *arguments: object, code: int = 0) -> dict[str, Any]:
    result = run(home, *arguments, "--json")
    assert result.exit_code == code, result.stderr
    found: dict[str, Any] = json.loads(result.stdout if code == 0 else result.stderr)
    return found


def kept(home: Path) -> list[str]:
    return [memory["text"] for memory in told(home, "memories", "--limit", 100)["memories"]]


@pytest.mark.feature("`fusion forget` previews what it would forget, and asks")
def test_it_shows_what_is_meant_and_asks(home: Path) -> None:
    """The first of many, and how many there are; no is an exit code of 1, and nothing was forgotten."""
    result = run(home, "forget", "--source", "mail", answer="n\n")
    assert result.exit_code == 1
    assert "letter 0 about the harbour" in result.stdout
    assert "letter 24" not in result.stdout
    assert "…and 5 more." in result.stdout
    assert "Forget 25 everywhere? It cannot be undone." in result.stdout
    assert len(kept(home)) == 26


def test_yes_forgets_all_of_it_and_says_what_became_of_it(home: Path) -> None:
    """Several requests, one line where all of it is deleted; everything else stays."""
    result = run(home, "forget", "--source", "mail", answer="y\n")
    assert result.exit_code == 0, result.stderr
    assert "25 memories forgotten." in result.stdout
    assert result.stdout.endswith("Deleted in memory; each was asked again and does not return it.\n")
    assert kept(home) == ["a note about the lighthouse"]
    assert "Nothing was forgotten" in run(home, "forgotten", "--user", "omar").stdout
    audited = run(home, "forgotten", "--limit", "2").stdout
    assert audited.count("memory deleted") == 2
    assert "More: --cursor c" in audited


def test_a_dry_run_only_shows(home: Path) -> None:
    """On the screen and as one line; by a question, the likeliest first."""
    assert "25 would be forgotten." in run(home, "forget", "--source", "mail", "--dry-run").stdout
    reply = told(home, "forget", "--query", "lighthouse", "--dry-run")
    assert [one["text"] for one in reply["found"]] == ["a note about the lighthouse"]
    assert (reply["dry_run"], reply["receipts"]) == (True, [])
    assert len(kept(home)) == 26


def test_programs_say_yes_beforehand(home: Path) -> None:
    """With --json nobody can be asked: criteria want --yes, refs are plain enough."""
    refused = told(home, "forget", "--query", "lighthouse", code=2)
    assert "--dry-run first, then add --yes" in refused["detail"]
    reply = told(home, "forget", "--query", "lighthouse", "--yes")
    assert [one["backends"] for one in reply["receipts"]] == [{"memory": "deleted"}]
    assert [one["text"] for one in reply["found"]] == [""]
    ref = told(home, "memories", "--limit", 1)["memories"][0]["ref"]
    reply = told(home, "forget", ref, "m999")
    assert ([one["ref"] for one in reply["receipts"]], reply["missing"]) == ([ref], ["m999"])


@pytest.mark.feature("… and the preview names each", of="duplicates in the same words")
def test_the_same_words_go_with_it_and_are_named(home: Path) -> None:
    """Two copies, one an agent's, shown once by a question: one ref forgets both and says so before and after."""
    hint = "The wifi password hint is trombone."
    one, two = (told(home, "remember", hint, *agent)["memories"][0]["ref"] for agent in ((), ("--agent", "planner")))
    looked = run(home, "forget", one, "--dry-run").stdout
    assert f"(the same words as {one})" in looked
    assert "2 would be forgotten." in looked
    assert f"2 memories forgotten: {one}, {two} (the same words)." in run(home, "forget", one, "--yes").stdout
    assert "trombone" not in run(home, "fuse", "wifi hint").stdout


async def merge(home: Path, one: str, into: str) -> None:
    """What the comparison of statements decides about two that say nearly the same."""
    async with Gateway.open(load(home=home)) as gateway:
        ids = [(await gateway.journal.find(ref, Scope())).event.event_id for ref in (one, into)]
        await gateway.journal.decide({ids[0]: {"merged_into": ids[1]}}, "consolidate", "they say nearly the same")


@pytest.mark.feature(
    "… and the reply and the preview name it", of="a merged statement is found again when the other one is forgotten"
)
def test_what_is_answered_again_is_named(home: Path) -> None:
    texts = ("The ferry to Kallvik leaves at eight.", "The Kallvik ferry goes at eight o'clock.")
    one, two = (told(home, "remember", text)["memories"][0]["ref"] for text in texts)
    asyncio.run(merge(home, two, one))
    hint = f"{two} says nearly the same and {{}} answered again; forget it too: fusion forget {two}\n"
    assert run(home, "forget", one, "--dry-run").stdout.endswith(hint.format("would be"))
    assert "answered again" not in run(home, "forget", one, two, "--dry-run").stdout
    assert told(home, "forget", one, "--dry-run")["released"] == [two]
    assert hint.format("would be") in run(home, "forget", one, answer="n\n").stdout
    assert run(home, "forget", one, "--yes").stdout.endswith(hint.format("is"))
    assert told(home, "forget", two)["released"] == []


def test_many_memories_that_are_answered_again_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    render.released([f"m{number}" for number in range(1, 12)], dry_run=False)
    assert capsys.readouterr().out == (
        "11 memories say nearly the same and are answered again; fusion decisions lists them\n"
    )


@pytest.mark.feature("… and the reply explains what stays hidden", of="duplicates in the same words")
def test_what_is_hidden_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """If the words are still in a file of the user's own, the output says so; otherwise it says nothing."""
    for became, said in (("hidden", True), ("deleted", False)):
        render.forgettings([{"ref": "m1", "event_id": "e", "backends": {"markdown": became}}], [])
        assert ("it is in a file of yours" in capsys.readouterr().out) is said


@pytest.mark.feature("piped tables have no blanks at line ends")
def test_what_is_piped_has_no_blanks_at_the_ends_of_lines(home: Path) -> None:
    """Tables are compared and pasted."""
    shown = run(home, "forget", "--source", "mail", "--dry-run").stdout.splitlines()
    assert shown[0].startswith("memory")
    assert shown == [line.rstrip() for line in shown]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("forget", "--user", "nadia"), "Say what to forget"),
        (("forget", "m1", "--source", "mail"), "refs cannot be combined"),
        (("forget", "--source", "fax"), "there is nothing like that here"),
        (
            ("forget", "m999"),
            "there is nothing like that here: m999; `fusion forgotten` lists what was forgotten before",
        ),
    ],
)
def test_nothing_and_everything_are_refused(home: Path, arguments: tuple[str, ...], why: str) -> None:
    """With what to write instead, or what was not found."""
    assert why in told(home, *arguments, "--yes", code=2)["detail"]
    assert len(kept(home)) == 26


def test_a_file_is_named_by_its_path(home: Path, tmp_path: Path) -> None:
    """What was ingested from it is meant, however the path is written."""
    note = tmp_path / "old.md"
    note.write_text("# Old\n\nThe harbour office is closed on Mondays.\n")
    told(home, "ingest", note)
    reply = told(home, "forget", "--source", note.parent / "." / "old.md", "--yes")
    assert [one["source"] for one in reply["found"]] == [f"file:{note.resolve()}"]
