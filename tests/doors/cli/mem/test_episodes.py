"""`fusion mem episodes`: append, query, search, replay, redact, gc and export."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fusion.doors.cli import app
from tests.doors.cli.mem.test_status import mem

OWNER = ("--session", "s1", "--agent", "main", "--scope", "bookings")


def append(home: Path, text: str, *more: str) -> dict[str, str]:
    shown = mem(home, "episodes", "append", text, *OWNER, *(more or ("--type", "ops.decision")), "--json")
    assert shown.exit_code == 0, shown.stderr
    found: dict[str, str] = json.loads(shown.stdout)
    return found


@pytest.mark.row("A140", "`fusion mem episodes` appends, lists, searches, replays, redacts and deletes episodes")
def test_episodes_at_the_command_line(tmp_path: Path) -> None:
    home = tmp_path / "home"
    kept = append(home, "Retry the migration at night", "--type", "ops.decision", "--event-id", "d1")
    assert (kept["ref"], kept["status"]) == ("ep:1", "stored")
    append(home, "", "--type", "tool.result", "--tool", "Bash", "--payload-json", '{"stdout": "3 passed"}')
    listed = mem(home, "episodes", "query", "--scope", "bookings").stdout.splitlines()
    assert [line.split("  ")[-1] for line in listed] == ["Retry the migration at night", "stdout: 3 passed"]
    found = mem(home, "episodes", "search", "migration", "--scope", "bookings", "--json")
    assert [one["ref"] for one in json.loads(found.stdout)["episodes"]] == ["ep:1"]
    replayed = json.loads(mem(home, "episodes", "replay", "s1", "--include-payload", "--json").stdout)
    assert replayed["episodes"][1]["payload"] == {"stdout": "3 passed"}
    assert mem(home, "episodes", "redact", "ep:2", *OWNER, "--dry-run").stdout == "would redact 1\n"
    assert mem(home, "episodes", "redact", "ep:2", *OWNER).stdout == "redacted 1\n"
    assert mem(home, "episodes", "gc", "--dry-run").stdout == "would delete 0\n"
    refused = mem(home, "episodes", "query")
    assert refused.exit_code == 2
    assert "say whose it is" in refused.stderr


def test_get_shows_an_episode_with_its_payload(tmp_path: Path) -> None:
    home = tmp_path / "home"
    append(home, "", "--type", "tool.result", "--tool", "Bash", "--payload-json", '{"stdout": "3 \\u001b[31mpassed"}')
    shown = CliRunner().invoke(app, ["get", "EP:1", "--home", str(home), "--direct"])
    assert shown.exit_code == 0, shown.stderr
    assert '{"stdout": "3 ' in shown.stdout
    assert "\x1b" not in shown.stdout
    assert "of         agent_id main, session_id s1, project bookings" in shown.stdout
    assert "trust      untrusted" in shown.stdout
    graded = mem(home, "episodes", "grade", "ep:1", "high", "--why", "it broke")
    assert graded.stdout == "ep:1  must_remember, before: unknown\n", graded.stderr
    shown = CliRunner().invoke(app, ["get", "ep:1", "--home", str(home), "--direct"])
    assert "importance must_remember, 0.8, manual, owner, " in shown.stdout
    missing = CliRunner().invoke(app, ["get", "ep:1", "--user", "omar", "--home", str(home), "--direct"])
    assert missing.exit_code == 2
    assert "there is no episode 'ep:1' here" in missing.stderr


@pytest.mark.row("A151", "episodes are exported as {observationId, kind, text, ts}, with the latest of each agent")
def test_episodes_are_exported_the_same_each_time(tmp_path: Path) -> None:
    home, to = tmp_path / "home", tmp_path / "out"
    append(home, "Retry at night", "--type", "ops.decision", "--event-id", "d1", "--ts", "2026-03-14T09:30:00Z")
    append(
        home,
        "",
        "--type",
        "tool.result",
        "--payload-json",
        '{"n": 3}',
        "--event-id",
        "r1",
        "--ts",
        "2026-03-14T10:00:00Z",
    )
    printed = mem(home, "episodes", "export", "--scope", "bookings").stdout.splitlines()
    assert [json.loads(line) for line in printed] == [
        {"observationId": "d1", "kind": "ops.decision", "text": "Retry at night", "ts": "2026-03-14T09:30:00+00:00"},
        {"observationId": "r1", "kind": "tool.result", "text": '{"n": 3}', "ts": "2026-03-14T10:00:00+00:00"},
    ]
    for _ in range(2):
        assert mem(home, "episodes", "export", "--scope", "bookings", "--to", str(to)).exit_code == 0
        assert (to / "main" / "observations.jsonl").read_text().splitlines() == printed
        assert ((to / "main").stat().st_mode & 0o777, (to / "main" / "latest.json").stat().st_mode & 0o777) == (
            0o700,
            0o600,
        )
        assert json.loads((to / "main" / "latest.json").read_text()) == json.loads(printed[-1])


def test_an_agent_cannot_lead_an_export_out_of_its_folder(tmp_path: Path) -> None:
    home = tmp_path / "home"
    shown = mem(home, "episodes", "append", "x", "--type", "ops.alert", "--agent", "../../evil")
    assert shown.exit_code == 0, shown.stderr
    refused = mem(home, "episodes", "export", "--all-users", "--to", str(tmp_path / "out"))
    assert refused.exit_code == 2
    assert "cannot be the name of a folder" in refused.stderr
    assert not (tmp_path / "evil").exists()
