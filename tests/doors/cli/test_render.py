"""What commands print: tables on narrow terminals."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from fusion.doors.cli.render.tables import table
from fusion.doors.cli.render.triage import triage
from fusion.gateway.dead_letters import item_of, newest_of
from fusion.store.dead_letters import Listed

AT = datetime(2026, 11, 28, 19, 48, 25, 123456, tzinfo=UTC)


def item(name: str, why: str, text: str) -> Any:
    return {"id": name, "kind": "dead_letters", "why": why, "text": text, "choices": [], "command": "", "sides": []}


@pytest.mark.parametrize("columns", ["60", "80", "200"])
def test_triage_prints_each_id_whole(columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    """People copy it; the other columns have the rest of the width."""
    monkeypatch.setenv("COLUMNS", columns)
    name = item_of([Listed(AT, "a.jsonl:1", "not JSON", {})])
    assert newest_of(name) == AT
    triage({"items": [item(name, "refused " * 20, "from the log " * 20), item("m1z", "y" * 90, "")], "more": False})
    rows = capsys.readouterr().out.splitlines()[2:]
    assert rows[0].startswith(f"{name} ")
    assert max(map(len, rows[:4])) <= int(columns)


def test_table_keeps_a_whole_column(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    table(("", "memory", "text"), [(1, "x" * 40, "long " * 40)], whole=(1,))
    assert "x" * 40 in capsys.readouterr().out
