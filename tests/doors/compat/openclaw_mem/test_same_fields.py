"""The commands of openclaw-mem 2.0.0 and of `fusion mem` on the same small data: ours print every field that theirs do.

A field of theirs is in ours with the same type of JSON; ours may have more. What theirs leaves null may have any type.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from fusion.doors.cli import app

pytest.importorskip("openclaw_mem", reason="make setup installs openclaw-context-pack, which is openclaw-mem")

NOTES = """
backends_only = true
[embedder]
adapter = ""
[backends.notes]
adapter = "adapters.markdown:Markdown"
deadline_ms = 60000
"""
EVENT = ("--scope", "aurora", "--session-id", "s1", "--agent-id", "codex", "--type", "tool.result")
GC = ("episodes", "gc", "--scope", "aurora", "--json")
FACT = ("--subject", "entity:aurora", "--predicate", "uses", "--object", "PostgreSQL")
FACT_ID = "the id of the asserted fact"
SAID_BY = ("--valid-from", "2026-01-01", "--source-ref", "obs:1", "--assertion-ref", "receipt:1")
DAY: Mapping[str, tuple[str, ...]] = {
    "store": ("store", "Aurora uses PostgreSQL 16.", "--importance", "0.9", "--no-file-write", "--json"),
    "search": ("search", "PostgreSQL", "--json"),
    "recall": ("recall", "PostgreSQL", "--json"),
    "timeline": ("timeline", "1", "--json"),
    "get": ("get", "1", "--json"),
    "pack": ("pack", "--query", "PostgreSQL", "--trace"),
    "graph-aware": ("pack", "--query", "PostgreSQL", "--graph-aware"),
    "artifacts": ("pack", "--query", "PostgreSQL", "--pack-artifacts", "on", "--pack-artifact-min-bytes", "64"),
    "with graph": ("search", "PostgreSQL", "--graph", "--json"),
    "status": ("status", "--json"),
    "profile": ("profile", "--json"),
    "export": ("capsule", "export-canonical", "--dry-run", "--json"),
    "ingest": ("ingest", "--file", "in.jsonl", "--json"),
    "harvest": ("harvest", "--source", "out.jsonl", "--no-embed", "--no-update-index", "--json"),
    "triage": ("triage", "--keywords", "redis", "--json"),
    "append": ("episodes", "append", *EVENT, "--summary", "psql says 16.2", "--refs-json", '{"a": "b"}', "--json"),
    "query": ("episodes", "query", "--scope", "aurora", "--json"),
    "episodes": ("episodes", "search", "psql", "--scope", "aurora", "--trace", "--json"),
    "replay": ("episodes", "replay", "s1", "--scope", "aurora", "--json"),
    "redact": ("episodes", "redact", "--session-id", "s1", "--scope", "aurora", "--json"),
    "gc by policy": (*GC, "--policy", "ops.alert=forever", "--policy", "tool.result=1", "--now-ts-ms", "9999999999999"),
    "gc": ("episodes", "gc", "--scope", "aurora", "--json"),
    "assert": ("graph", "fact", "assert", *FACT, *SAID_BY),
    "current": ("graph", "fact", "current", "--subject", "entity:aurora"),
    "facts": ("graph", "fact", "timeline", "--subject", "entity:aurora"),
    "lint": ("graph", "fact", "lint"),
    "fact pack": ("graph", "fact", "pack", "--subject", "entity:aurora"),
    "registry": ("graph", "fact", "registry"),
    "stale": ("graph", "fact", "stale"),
    "propose": ("graph", "fact", "propose", "--text", "entity:aurora uses Redis.", "--source-ref", "obs:1"),
    "route": ("graph", "fact", "route", "What does entity:aurora use?"),
    "no route": ("graph", "fact", "route", "What is new?"),
    "unknown route": ("graph", "fact", "route", "What does entity:nowhere use?"),
    "invalidate": ("graph", "fact", "invalidate", "--fact-id", FACT_ID, *SAID_BY[2:]),
}
"""one command of each group, in an order in which the later ones find what the earlier ones stored"""
ADDED: Mapping[str, str] = {
    "graph-aware": "graph_aware_pack",
    "artifacts": "pack_artifact",
    "with graph": "graph",
}
"""commands whose flag adds a member, which alone is compared"""
LINE = '{"kind": "tool", "tool_name": "redis-cli", "summary": "Redis answers PONG."}\n'
OTHERWISE: Mapping[str, str] = {
    "search[].lang": "the language of a memory is null unless its caller named it",
    "timeline[].lang": "the same",
    "get[].lang": "the same",
    "pack.items[].lang": "the same",
    "recall.results[].lang": "the same",
    "search[].query_lang": "the language of a question is not guessed",
    "recall.retrieval.query_lang": "the same",
    "pack.query_lang": "the same",
    "search[].score_components.": "other signals make a score here: GET /v1/receipts has them",
    "recall.results[].score_components.": "the same",
    "pack.items[].score_components": "the same; the trace has the scores of each candidate",
    "pack.items[].final_score": "the same",
    "pack.vector_backend_selection.fallback_reason": "there is no fallback",
    "pack.trace.candidates[].score_components": "the same",
    "pack.trace.timing": "a pack has other stages here",
    "pack.trace.extensions": "they describe mechanisms of openclaw-mem",
    "pack.trace.refreshed_refs": "output.refreshedRecordRefs says it",
    "pack.trace.quota_hits": "a pack has no quotas here",
    "pack.lifecycle_write.": "the use of memories is counted in the journal, not in their rows",
    "status.backend.entries": "their names are those of our backends",
    "status.runtime": "it describes files of OpenClaw",
    "profile.importance.avg_score": "the importance of a memory is in its row, and the labels are counted",
    "profile.lang_distribution": "its names are languages, and ours says unknown unless the caller named one",
    "stale.deprecated": "openclaw-mem has another command for it, which we do not",
    "artifacts.storePath": "there is no store of artifacts",
    "artifacts.receipt.": "the same",
    "invalidate.invalidation.source_resolutions[].digest": "a source is named by its ref, which does not change",
    "assert.source_resolutions[].digest": "a source is named by its ref, which does not change",
    "lint.deprecated": "the same",
}
"""fields that ours lacks or has in another type, by their beginnings, and why"""

WRONG: Mapping[str, tuple[str, ...]] = {
    "empty query": ("search", "", "--json"),
    "empty question": ("recall", "", "--json"),
    "empty text": ("store", "", "--json"),
    "no number": ("search", "x", "--limit", "many", "--json"),
    "no ids": ("timeline", "--json"),
    "no such command": ("forgive", "--json"),
    "no such mode": ("triage", "--mode", "loud", "--json"),
    "no query": ("pack", "--query", ""),
    "unknown type": ("episodes", "append", *EVENT[:-1], "tool.opinion", "--summary", "x", "--json"),
    "unknown type of a policy": ("episodes", "gc", "--scope", "aurora", "--policy", "tool.opinion=3", "--json"),
    "no scope": ("episodes", "query", "--json"),
    "unknown predicate": ("graph", "fact", "assert", *FACT[:2], "--predicate", "likes", *FACT[4:], *SAID_BY),
    "no subject": ("graph", "fact", "current", "--subject", ""),
    "no such fact": ("graph", "fact", "invalidate", "--fact-id", "fact_0", *SAID_BY[2:]),
}
"""commands that fail, each in another way"""

Printed = tuple[Any, Any]


def theirs(folder: Path, *arguments: str) -> Any:
    """What openclaw-mem prints; its files are below ``folder``."""
    return json.loads(run_theirs(folder, *arguments).stdout)


def run_theirs(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    command = [sys.executable, "-m", "openclaw_mem", *arguments]
    return subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=False)


def ours(home: Path, *arguments: str) -> Any:
    done = run_ours(home, *arguments)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def run_ours(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["mem", *arguments, "--home", str(home), "--direct"])


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Printed]:
    """What each command of `DAY` printed, theirs and ours."""
    folder = tmp_path_factory.mktemp("openclaw-mem")
    home = folder / "home"
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(NOTES)
    found: dict[str, Printed] = {}
    for name, given in DAY.items():
        facts = [one["fact"]["id"] for one in found.get("assert", ({"fact": {"id": ""}},) * 2)]
        printed = theirs(folder, *_named(folder, given, facts[0]))
        shown = ours(home, *_named(folder, given, facts[1]))
        found[name] = (printed[ADDED[name]], shown[ADDED[name]]) if name in ADDED else (printed, shown)
    return found


def _named(folder: Path, given: Sequence[str], fact: str) -> list[str]:
    """The arguments of a command, with the id of the fact that was asserted; the file that they name is there."""
    for name in given:
        if name.endswith(".jsonl"):
            (folder / name).write_text(LINE)
    return [str(folder / word) if word.endswith(".jsonl") else fact if word == FACT_ID else word for word in given]


def lacking(theirs: Any, ours: Any, where: str) -> Iterator[str]:
    """The fields of theirs that ours lacks or has in another type. Of a list, the first member is compared."""
    if theirs is None:
        return
    if kind(theirs) != kind(ours):
        yield f"{where} is {kind(ours)}, not {kind(theirs)}"
    elif isinstance(theirs, dict):
        for name, value in theirs.items():
            if name in ours:
                yield from lacking(value, ours[name], f"{where}.{name}")
            else:
                yield f"{where}.{name} is missing"
    elif isinstance(theirs, list) and theirs:
        if ours:
            yield from lacking(theirs[0], ours[0], f"{where}[]")
        else:
            yield f"{where}[] is missing"


def kind(value: Any) -> str:
    """The type of a value of JSON, which has one for all numbers."""
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


@pytest.mark.slow
@pytest.mark.feature("`fusion mem` prints the fields that openclaw-mem 2.0.0 prints, command by command")
@pytest.mark.parametrize("name", DAY)
def test_ours_has_every_field_of_theirs(day: Mapping[str, Printed], name: str) -> None:
    printed, shown = day[name]
    missing = [one for one in lacking(printed, shown, name) if not one.startswith(tuple(OTHERWISE))]
    assert missing == []


@pytest.mark.slow
@pytest.mark.parametrize("where", OTHERWISE)
def test_every_exception_is_needed(day: Mapping[str, Printed], where: str) -> None:
    assert any(one.startswith(where) for name, both in day.items() for one in lacking(*both, name))


@pytest.mark.slow
@pytest.mark.feature("`fusion mem` fails with openclaw-mem's exit code, and with --json its error and hint on stdout")
@pytest.mark.parametrize("name", WRONG)
def test_ours_fails_as_theirs(tmp_path: Path, name: str) -> None:
    """Where its parser refuses, theirs prints nothing on stdout; ours prints the same object for every error."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(NOTES)
    failed, refused = run_theirs(tmp_path, *WRONG[name]), run_ours(home, *WRONG[name])
    assert refused.exit_code == failed.returncode
    assert refused.stderr == ""
    said = json.loads(refused.stdout)
    assert (said["ok"], type(said["error"]), type(said["hint"])) == (False, str, str)
    printed = json.loads(failed.stdout or "{}")
    assert printed.get("kind") == (said.get("kind") if printed else None)
