"""`fusion mem graph`: facts, the graph, cards and pages from the command line, over a home that it opens itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fusion.doors.cli import app
from tests.doors.fakes import SMALL


def run(home: Path, *arguments: str, settings: str = SMALL) -> Result:
    home.mkdir(exist_ok=True)
    (home / "fusion.toml").write_text(settings)
    return CliRunner().invoke(app, [*arguments, "--home", str(home), "--direct"])


def graph(home: Path, *arguments: str) -> str:
    """What a command prints for people."""
    done = run(home, "mem", "graph", *arguments, *(["--no-json"] if arguments[0] == "fact" else []))
    assert done.exit_code == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("words", [["--help"], ["--json", "--help"], []])
def test_the_group_of_facts_has_a_help(words: list[str]) -> None:
    done = CliRunner().invoke(app, ["mem", "graph", "fact", *words])
    assert "timeline" in done.output
    assert "no such option" not in done.output


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
    first, second = (line.split()[0] for line in lines)
    opened = run(home, "get", first).stdout.splitlines()
    assert opened[0] == lines[0]
    assert opened[1].startswith("asserted in obs:m2 on ")
    assert opened[2] == f"other  {lines[1]}"
    assert json.loads(run(home, "get", f"[{second.upper()}]", "--json").stdout)["id"] == second
    assert graph(home, "fact", "timeline", "--fact", first).splitlines() == lines
    missing = run(home, "get", "fact:0123456789abcdef")
    assert (missing.exit_code, "there is no fact" in missing.stderr) == (2, True)
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
    assert "source_of_truth" in json.loads(done.stdout)["error"]
    shown = run(tmp_path / "home", *"mem graph --no-json fact assert --subject a --predicate likes".split())
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert shown.stderr.startswith("fusion: missing option '--object'")


def test_facts_are_proposed_routed_found_stale_and_invalidated(tmp_path: Path) -> None:
    home = tmp_path / "home"
    run(home, "remember", "The API gateway uses Postgres 16.")
    proposed = graph(home, "fact", "propose", "--text", "entity:api-gateway uses Postgres", "--source-ref", "1")
    assert proposed == (
        "fusion mem graph fact assert --subject api-gateway --predicate uses --object Postgres --source obs:m1\n"
    )
    assert "no current fact" in graph(home, "fact", "route", "what does entity:api-gateway use?")
    run(home, *proposed.split()[1:])
    assert "uses Postgres" in graph(home, "fact", "route", "what does entity:api-gateway use?")
    routed = json.loads(run(home, "mem", "graph", "fact", "route", "what does entity:api-gateway use?").stdout)
    assert (routed["fact_view_used"], routed["subject"]) == (True, "entity:api-gateway")
    fact = routed["pack"]["items"][0]["id"]
    assert graph(home, "fact", "stale") == "no fact is stale\n"
    ended = graph(home, "fact", "invalidate", "--fact-id", fact, "--source-ref", "obs:m1")
    assert f"{fact}  invalidated" in ended
    run(home, *proposed.split()[1:])
    assert run(home, "forget", "m1", "--yes").exit_code == 0
    stale = json.loads(run(home, "mem", "graph", "fact", "stale", "--apply").stdout)
    assert (stale["count"], stale["writes_performed"]) == (1, False)
    assert stale["facts"][0]["reasons"] == ["its source obs:m1 is forgotten"]
    assert "uses  " in graph(home, "fact", "registry")


def test_a_question_is_routed_by_the_name_of_an_entity(tmp_path: Path) -> None:
    settings = f'{SMALL}[backends.triples]\nadapter = "adapters.triples:Triples"\ndeadline_ms = 60000\n'
    told = ("remember", "Project Hjul -> uses -> Postgres 16")
    run(tmp_path / "home", *told, settings=settings)
    fact = ("--subject", "Project Hjul", "--predicate", "status", "--object", "live", "--source", "m1")
    run(tmp_path / "home", "mem", "graph", "fact", "assert", *fact, settings=settings)
    asked = ("mem", "graph", "fact", "route", "How is Project Hjul doing?")
    routed = json.loads(run(tmp_path / "home", *asked, settings=settings).stdout)
    assert (routed["fact_view_used"], routed["subject"]) == (True, "entity:project-hjul")


def test_a_proposal_needs_a_source_that_is_there(tmp_path: Path) -> None:
    done = run(tmp_path / "home", "mem", "graph", "fact", "propose", "--text", "x", "--source-ref", "obs:m9")
    assert (done.exit_code, "m9" in json.loads(done.stdout)["error"]) == (2, True)
    both = ("mem", "graph", "fact", "propose", "--source-ref", "obs:m9", "--text", "x", "--file", "y")
    assert "one of the two" in json.loads(run(tmp_path / "home", *both).stdout)["error"]
