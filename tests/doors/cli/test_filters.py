"""The filters of `fusion memories`, and the lists of `fusion receipt` and `fusion status --growth`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fusion.doors.cli import app
from tests.doors.fakes import SMALL

MEMORIES = (
    {
        "text": "The mill is closed in March.",
        "kind": "fact",
        "trust": "untrusted",
        "origin": "tool",
        "tags": ["opening"],
        "at": "2026-03-01T00:00:00Z",
        "importance": 0.9,
        "session_id": "s1",
        "source": "mail:1",
    },
    {"text": "The harbour opens in April.", "kind": "note", "at": "2026-04-01T00:00:00Z", "importance": 0.2},
)
MILL, HARBOUR = ["m1"], ["m2"]
FLAGS: Mapping[str, tuple[list[str], list[str]]] = {
    "words": (["--find", "clos mill"], MILL),
    "words that begin with a dash": (["--find", "-x"], []),
    "kind": (["--kind", "note"], HARBOUR),
    "trust": (["--trust", "untrusted"], MILL),
    "origin": (["--origin", "tool"], MILL),
    "state": (["--state", "archived"], []),
    "project": (["--in-project", "elsewhere"], []),
    "tag": (["--tag", "opening"], MILL),
    "after": (["--after", "2026-03-15"], HARBOUR),
    "before": (["--before", "2026-03-15"], MILL),
    "importance": (["--min-importance", "0.5"], MILL),
    "backend": (["--backend", "elsewhere"], []),
    "order": (["--order", "oldest"], [*MILL, *HARBOUR]),
    "source": (["--source", "mail:1"], MILL),
    "session": (["--session", "s1"], MILL),
    "two": (["--kind", "fact", "--after", "2026-03-15"], []),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("filters") / "home"
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(SMALL)
    file = home.parent / "memories.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in MEMORIES))
    fusion(home, "ingest", str(file))
    return home


def fusion(home: Path, *arguments: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, [*arguments, "--home", str(home), "--direct", "--json"])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.feature("`fusion memories` lists by words, kind, trust, state, project, tag, time, importance and backend")
@pytest.mark.parametrize(("flags", "refs"), FLAGS.values(), ids=FLAGS)
def test_memories_are_listed_by_each_filter(home: Path, flags: list[str], refs: list[str]) -> None:
    assert [one["ref"] for one in fusion(home, "memories", *flags)["memories"]] == refs


def test_filter_of_a_wrong_value_is_named(home: Path) -> None:
    for flags, said in ((["--kind", "poem"], "kind"), (["--after", "soon"], "after"), (["--trust", "much"], "trust")):
        done = CliRunner().invoke(app, ["memories", *flags, "--home", str(home), "--direct"])
        assert done.exit_code == 2
        assert said in done.output


@pytest.mark.feature("`fusion receipt` without an id lists what was answered, by user and session")
def test_receipts_are_listed(home: Path) -> None:
    first = fusion(home, "fuse", "when is the mill closed?", "--session", "s1")
    second = fusion(home, "fuse", "when does the harbour open?")
    assert [one["receipt_id"] for one in fusion(home, "receipt")["receipts"]] == [
        second["receipt_id"],
        first["receipt_id"],
    ]
    [one] = fusion(home, "receipt", "--session", "s1")["receipts"]
    assert one["receipt_id"] == first["receipt_id"]
    page = CliRunner().invoke(app, ["receipt", "--limit", "1", "--home", str(home), "--direct"]).stdout
    assert second["receipt_id"] in page
    assert "More: --cursor" in page
    assert fusion(home, "receipt", first["receipt_id"])["receipt_id"] == first["receipt_id"]


def test_growth_is_shown_day_by_day(home: Path) -> None:
    today = fusion(home, "status", "--growth", "2")["days"][-1]
    assert today["remembered"] == len(MEMORIES)
    table = CliRunner().invoke(app, ["status", "--growth", "2", "--home", str(home), "--direct"]).stdout
    assert today["day"] in table
    both = CliRunner().invoke(app, ["status", "--growth", "2", "--layers", "--home", str(home), "--direct"])
    assert both.exit_code == 2
