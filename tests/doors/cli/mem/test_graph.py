"""`fusion mem graph`: facts, the graph, cards and pages from the command line, over a home that it opens itself."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from fusion.doors.cli import app
from tests.doors.fakes import SMALL


def run(home: Path, *arguments: str) -> Result:
    home.mkdir(exist_ok=True)
    (home / "fusion.toml").write_text(SMALL)
    return CliRunner().invoke(app, [*arguments, "--home", str(home), "--direct"])


def graph(home: Path, *arguments: str) -> str:
    """What a command prints for people."""
    done = run(home, "mem", "graph", *arguments, *(["--no-json"] if arguments[0] == "fact" else []))
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_a_day_with_facts(tmp_path: Path) -> None:
    home, about = tmp_path / "home", ("--subject", "api-gateway")
    assert run(home, "remember", "The API gateway went live in March.").exit_code == 0
    status = ("--predicate", "status", "--source", "obs:m1")
    made = graph(home, "fact", "assert", *about, *status, "--object", "live", "--valid-from", "2026-03-01")
    assert "active  api-gateway status live  since 2026-03-01  source_capped, from obs:m1" in made
    assert "kept as obs:m2" in made
    graph(home, "fact", "assert", *about, *status, "--object", "retired", "--valid-from", "2026-06-01")
    assert "status live" in graph(home, "fact", "current", *about, "--at", "2026-05-01")
    lines = graph(home, "fact", "timeline", *about).splitlines()
    assert [line.split()[1] for line in lines] == ["superseded", "active"]
    assert "retired" in graph(home, "fact", "pack", *about)
    assert graph(home, "fact", "lint") == "2 facts: 0 errors, 0 warnings\n"
    assert "api-gateway has the status retired" in graph(home, "card", "refresh", "api-gateway")
    assert graph(home, "card", "lint") == "1 cards, 0 stale\n"
    assert "Concept  retired  api-gateway → status → retired" in graph(home, "neighbors", "api-gateway")
    folder = tmp_path / "pages"
    assert "2 pages would be written" in graph(home, "export", str(folder), "--dry-run")
    assert not folder.exists()
    assert "2 pages written" in graph(home, "export", str(folder))
    assert "- **status**: retired (since 2026-06-01; obs:m1)" in (folder / "api-gateway.md").read_text()


def test_lint_fails_where_a_source_is_gone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    run(home, "remember", "The API gateway went live in March.")
    status = ("--subject", "api", "--predicate", "status", "--object", "live", "--source", "m1")
    fact = json.loads(run(home, "mem", "graph", "fact", "assert", *status).stdout)["fact"]
    assert run(home, "forget", "m1", "--yes").exit_code == 0
    done = run(home, "mem", "graph", "fact", "lint", "--no-json")
    assert done.exit_code == 1
    assert f"error  {fact['id']}  sourceless: its source obs:m1 is forgotten" in done.stdout
    assert "not told" in graph(home, "fact", "current", "--subject", "api")


def test_a_wrong_predicate_lists_the_nine(tmp_path: Path) -> None:
    done = run(tmp_path / "home", *"mem graph fact assert --subject a --predicate likes --object b --source m1".split())
    assert done.exit_code == 2
    assert "source_of_truth" in done.stderr
