"""`fusion why`: what a memory was used for, and what became of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fusion.doors.cli import app
from fusion.doors.cli.render.answers import contradiction

NOTES = """
backends_only = true
[embedder]
adapter = ""
[backends.notes]
adapter = "adapters.markdown:Markdown"
"""


def run(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--home", str(home), "--direct"])


@pytest.mark.feature(
    "`fusion why REF` shows the answers with a memory, its state changes, and what was forgotten of it"
)
def test_why_shows_uses_changes_and_forgetting(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "fusion.toml").write_text(NOTES)
    ref = json.loads(run(home, "remember", "The bookings database moves.", "--json").stdout)["memories"][0]["ref"]
    receipt = json.loads(run(home, "pack", "bookings database", "--json", "--timeout-ms", "60000").stdout)["receipt"][
        "receipt_id"
    ]
    assert run(home, "state", ref, "--importance", "0.9", "--why", "it\nd9 matters").exit_code == 0
    shown = run(home, "why", f"obs:{ref}")
    assert shown.stdout.startswith(f"obs:{ref} is current\n")
    assert f"pack {receipt}: number 1 with score" in shown.stdout
    assert "owner: it d9 matters (importance None → 0.9)\n" in shown.stdout
    assert json.loads(run(home, "mem", "why", ref, "--json").stdout)["included"] == 1
    assert run(home, "forget", ref, "--yes").exit_code == 0
    assert "is forgotten" in run(home, "why", ref).stdout
    assert run(home, "why", "m7zzz").exit_code == 2


def test_contradiction_names_both_memories_with_their_stores_and_times() -> None:
    row = {
        "on": "value",
        "refs": ["x3k7mq2p9wz", "m1z"],
        "stores": ["zep", "journal"],
        "at": ["2026-03-18T00:00:00+00:00", None],
        "why": "neither is known to be later: both stand",
    }
    assert contradiction(row) == (
        "value: x3k7mq2p9wz (zep, 2026-03-18 00:00 UTC) against m1z (journal, time unknown): "
        "neither is known to be later: both stand"
    )
