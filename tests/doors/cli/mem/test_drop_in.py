"""`fusion mem` as a client of openclaw-mem's command line calls it: names, flags in their places, and JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from fusion.doors.cli import app
from fusion.doors.cli.mem import app as mem_app
from fusion.doors.cli.mem.flags import in_place

NOTES = """
backends_only = true
[embedder]
adapter = ""
[backends.notes]
adapter = "adapters.markdown:Markdown"
"""
AURORA = "Project Aurora uses PostgreSQL 16 in production."
QUESTION = "Which database does project Aurora use?"
FULL_ROW = {"id", "ts", "kind", "summary", "summary_en", "lang", "tool_name", "detail_json"}
COMMANDS: dict[str, set[str]] = {
    "search": {"--limit", "--json"},
    "timeline": {"--window", "--json"},
    "get": {"--json"},
    "pack": {"--query", "--query-en", "--limit", "--budget-tokens", "--tail-text", "--tail-file", "--tail-max-items"}
    | {"--tail-budget-tokens", "--graph-scope", "--pack-trust-policy", "--trace", "--json"},
    "store": {"--text-en", "--lang", "--category", "--importance", "--no-file-write", "--json"},
    "status": {"--json"},
    "profile": {"--recent-limit", "--tool-limit", "--kind-limit", "--json"},
    "export": {"--to", "--yes", "--limit", "--include-detail", "--json"},
    "capsule export-canonical": {"--to", "--dry-run", "--json"},
}
"""commands of openclaw-mem 2.0.0, and their flags that we have"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(NOTES)
    return home


def run(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["mem", *arguments, "--home", str(home), "--direct"])


def printed(home: Path, *arguments: str) -> Any:
    """The JSON that a command prints."""
    found = run(home, *arguments)
    assert found.exit_code == 0, found.stderr
    return json.loads(found.stdout)


@pytest.mark.parametrize(("name", "flags"), COMMANDS.items())
def test_every_command_has_its_flags(name: str, flags: set[str]) -> None:
    command: Any = typer.main.get_command(mem_app)
    for word in name.split():
        command = command.commands[word]
    assert flags - {option for one in command.params for option in one.opts} == set()


@pytest.mark.feature("a script that was written for openclaw-mem's commands works with `fusion mem`")
def test_store_search_timeline_get_and_pack(home: Path) -> None:
    """What one command prints names the record in the next one, as a number or as a ref."""
    kept = printed(home, "--json", "store", AURORA, "--category", "fact", "--importance", "0.9", "--no-file-write")
    assert kept.keys() >= {"ok", "id", "file", "markdownPath", "markdownWriteStatus", "embedded", "kind"}
    assert (kept["ok"], kept["id"], kept["kind"]) == (True, 1, "fact")
    other = printed(home, "store", "Deploys happen on Fridays.", "--category", "decision", "--json")
    [row, *_] = printed(home, "search", QUESTION, "--limit", "5", "--json")
    assert (row["id"], row["summary"], row["kind"]) == (1, AURORA, "fact")
    assert row.keys() >= {"ts", "tool_name", "snippet", "score", "lanes_used", "score_components", "final_score"}
    for named in (str(row["id"]), row["recordRef"], f"obs:{row['id']}"):
        [full] = printed(home, "get", named, "--json")
        assert full.keys() >= FULL_ROW
        assert (full["id"], full["summary"]) == (1, AURORA)
        assert json.loads(full["detail_json"])["importance"]["label"] == "must_remember"
    around = printed(home, "timeline", str(row["id"]), "--window", "1", "--json")
    assert [one["id"] for one in around] == [1, other["id"]]
    pack = printed(home, "pack", "--query", QUESTION, "--budget-tokens", "300", "--trace")
    assert AURORA in pack["bundle_text"]
    assert pack["context_pack"]["schema"] == "openclaw-mem.context-pack.v1"
    assert pack["citations"][0]["recordRef"] == "obs:m1"
    assert pack["trace"]["kind"] == "openclaw-mem.pack.trace.v1"
    bundle = run(home, "pack", "--query", QUESTION, "--no-json")
    assert (bundle.exit_code, AURORA in bundle.stdout) == (0, True)


def test_what_is_not_found_is_an_empty_array(home: Path) -> None:
    assert printed(home, "search", "zzqq", "--json") == []
    assert printed(home, "get", "99", "obs:m404", "--json") == []


def test_status_and_profile(home: Path) -> None:
    printed(home, "store", AURORA, "--importance", "0.9", "--json")
    status = printed(home, "--json", "status")
    assert (status["kind"], status["count"]) == ("openclaw-mem.status.v1", 1)
    assert status["min_ts"] == status["max_ts"]
    assert status.keys() >= {"ts", "version", "db", "embeddings", "embeddings_en", "backend", "runtime"}
    profile = printed(home, "profile", "--json", "--recent-limit", "5")
    assert (profile["kind"], profile["observations"]["count"]) == ("openclaw-mem.profile.v0", 1)
    assert profile["observations"]["kinds"] == [{"kind": "fact", "count": 1}]
    assert profile["importance"]["label_counts"]["must_remember"] == 1
    assert profile["recent"][0]["summary"] == AURORA


def test_exports(home: Path, tmp_path: Path) -> None:
    printed(home, "store", AURORA, "--json")
    notes = tmp_path / "export.md"
    found = printed(home, "export", "--to", str(notes), "--limit", "5", "--json")
    assert found == {"ok": True, "exported": 1, "to": str(notes), "include_detail": False}
    assert f"fact: {AURORA}" in notes.read_text()
    assert run(home, "export", "--to", str(notes)).exit_code == 2
    plan = printed(home, "capsule", "export-canonical", "--dry-run", "--to", str(tmp_path / "c"), "--json")
    assert plan["manifest"]["source"]["observations_count"] == 1
    assert not (tmp_path / "c").exists()
    made = printed(home, "capsule", "export-canonical", "--to", str(tmp_path / "c"), "--json")
    assert made["verify"]["ok"]
    assert (tmp_path / "c" / made["manifest_path"]).is_file()


@pytest.mark.parametrize(
    "arguments", [("--db", "x.sqlite", "status"), ("status", "--db=x.sqlite"), ("get", "1", "--db", "x")]
)
def test_a_database_file_is_refused_with_what_to_write_instead(home: Path, arguments: tuple[str, ...]) -> None:
    refused = run(home, *arguments)
    assert refused.exit_code != 0
    assert "--home FOLDER" in refused.stderr


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (["--json", "status"], ["status", "--json"]),
        (["status", "--json"], ["status", "--json"]),
        (["--json", "get", "1", "--json"], ["get", "1", "--json"]),
        (["--json", "store", "--", "--json"], ["store", "--json", "--", "--json"]),
        (["--json", "graph", "fact", "lint"], ["graph", "fact", "lint", "--json"]),
        (["pack", "--query", "x"], ["pack", "--query", "x", "--json"]),
        (["pack", "--query", "x", "--no-json"], ["pack", "--query", "x"]),
        (["graph", "--no-json", "fact", "lint"], ["graph", "fact", "lint"]),
        (["graph", "neighbors", "x"], ["graph", "neighbors", "x"]),
        ([], []),
    ],
)
def test_json_before_the_command_moves_to_its_place(given: list[str], read: list[str]) -> None:
    assert in_place(given) == read


@pytest.mark.parametrize(
    "arguments",
    [("search", " "), ("store", AURORA, "--importance", "7"), ("store", AURORA, "--category", "gossip"), ("get",)],
)
def test_wrong_usage_ends_with_2(home: Path, arguments: tuple[str, ...]) -> None:
    refused = run(home, *arguments)
    assert refused.exit_code == 2
    assert refused.stdout == ""


@pytest.mark.feature("openclaw-mem's commands `episodes append` and `episodes query` print its receipts")
def test_episodes(home: Path) -> None:
    event = ["--scope", "aurora", "--session-id", "s1", "--agent-id", "main", "--type", "tool.result"]
    said = ["--summary", "psql says 16.2", "--payload-json", '{"rows": 1}', "--refs-json", '{"obs": "obs:1"}']
    kept = printed(home, "episodes", "append", *event, *said, "--json")
    assert kept["kind"] == "openclaw-mem.episodes.append.v0"
    assert (kept["ok"], kept["event"]["scope"], kept["event"]["session_id"]) == (True, "aurora", "s1")
    found = printed(home, "--json", "episodes", "query", "--scope", "aurora", "--include-payload")
    assert (found["kind"], found["scope"], found["count"]) == ("openclaw-mem.episodes.query.v0", "aurora", 1)
    [item] = found["items"]
    assert (item["event_id"], item["agent_id"]) == (kept["event"]["event_id"], "main")
    assert (item["summary"], item["payload"]) == ("psql says 16.2", {"rows": 1})
    assert printed(home, "episodes", "query", "--global", "--json")["items"] == []
