"""`fusion status --layers`: the layers of memory for each agent on this host."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fusion.doors.cli import app
from fusion.doors.cli.layers import LAYERS, NOT_THERE, Known, agents_with_sessions, board
from fusion.doors.http.openapi import examples
from fusion.trust import allow
from tests.doors.fakes import SMALL

RUN: dict[str, Any] = {"status": "done", "began": "2026-03-14T03:30:00Z"}


def job(name: str, schedule: str = "every 3 hours", **fields: Any) -> Any:
    return {"name": name, "schedule": schedule, "paused": False, "progress": None, "last": None, **fields}


def status(*adapters: str, **fields: Any) -> Any:
    row = examples()["status"]["reply"]["backends"][0]
    rows = [{**row, "name": one.partition(":")[0], "adapter": f"adapters.{one}", "items": 7} for one in adapters]
    return {**examples()["status"]["reply"], "backends": rows, "notes": [], "agents": {}, **fields}


@pytest.mark.feature("`fusion status --layers` shows the nine layers of memory for each agent, with state and last run")
def test_the_board_has_the_layers_of_each_instance() -> None:
    jobs = [job("extract", last=RUN), job("shepherd", paused=True), job("reflect", "off"), job("distill")]
    found = board(
        status("markdown:Markdown", "mem0.backend:Mem0", "triples:Triples", agents={"eva": 3, "max": 5}),
        jobs,
        "box",
        Known("max"),
    )
    assert found["instances"] == ["eva@box", "max@box"]
    states = {one["layer"]: one["instances"]["max@box"] for one in found["layers"]}
    assert states == {
        "Extract": "done",
        "Distill": "waiting",
        "Shepherd": "paused",
        "Reflections": "off",
        "Vector SQLite": NOT_THERE,
        "QMD": "ready",
        "Mem0 + Qdrant": "ready",
        "Cognee": "ready",
        "Memory Fusion": "ok",
    }
    assert found["layers"][0]["last"] == "2026-03-14T03:30:00Z"
    assert found["layers"][0]["instances"]["eva@box"] == NOT_THERE  # the jobs look after the workspace of max alone
    assert found["layers"][7]["part"] == "backend triples"


def test_a_layers_own_system_is_shown_before_the_one_that_does_its_work() -> None:
    found = board(status("markdown:Markdown", "qmd:Qmd", incidents=["one"]), [job("shepherd")], "box")
    assert found["instances"] == ["box"]
    assert found["layers"][5]["part"] == "backend qmd"
    assert found["layers"][2]["detail"] == "every 3 hours, 1 incident"
    assert found["layers"][0]["instances"] == {"box": NOT_THERE}  # a server of an earlier version has no such job


def test_the_command_prints_the_board(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "fusion.toml").write_text(SMALL)
    arguments = ["status", "--layers", "--home", str(home), "--direct"]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.output
    assert all(layer.name in shown.stdout for layer in LAYERS)
    found = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert [one["number"] for one in found["layers"]] == [*range(1, 10)]


def test_agents_are_counted_by_name(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "fusion.toml").write_text(SMALL)
    for agent in ("max", "max", "eva"):
        text = f"The harbour of {agent} is in Brest"
        CliRunner().invoke(app, ["remember", text, "--agent", agent, "--home", str(home), "--direct"])
    found = json.loads(CliRunner().invoke(app, ["status", "--home", str(home), "--direct", "--json"]).stdout)
    assert found["agents"].keys() == {"eva", "max"}


@pytest.mark.feature(
    "… an instance for each agent on each host that has run its jobs", of="`fusion status --layers` shows"
)
def test_the_board_knows_several_hosts() -> None:
    """The home of a shared disk was served on two computers; the stores of the other one are not known here."""
    earlier = {**RUN, "status": "failed", "began": "2026-03-13T03:30:00Z"}
    jobs = [
        job("extract", last=RUN, hosts={"box": RUN, "laptop": earlier}),
        job("distill", last=RUN, hosts={"laptop": RUN}),
    ]
    found = board(status("qmd:Qmd", agents={"eva": 3}), jobs, "box", Known("max", "/home/ada/max", ["max", "kim"]))
    assert found["instances"] == ["eva@box", "kim@box", "max@box", "max@laptop"]
    extract, distill, qmd = found["layers"][0], found["layers"][1], found["layers"][5]
    assert extract["instances"] == {"eva@box": "-", "kim@box": "-", "max@box": "done", "max@laptop": "failed"}
    assert extract["runs"]["max@laptop"] == "2026-03-13T03:30:00Z"
    assert (distill["instances"]["max@box"], distill["instances"]["max@laptop"]) == ("waiting", "done")
    assert (qmd["instances"]["max@box"], qmd["instances"]["max@laptop"]) == ("ready", NOT_THERE)
    assert found["about"]["max@laptop"] == {
        "agent": "max", "host": "laptop", "here": False, "memories": 0,
        "maintained": True, "workspace": "/home/ada/max", "sessions": True,
    }  # fmt: skip
    assert found["about"]["eva@box"]["memories"] == 3


def test_cognee_has_the_last_run_of_its_feed() -> None:
    found = board(status("cognee:Cognee"), [job("feed", last=RUN)], "box")
    cognee = found["layers"][7]
    assert (cognee["last"], cognee["detail"]) == (RUN["began"], "7 memories, fed: done")
    triples = board(status("triples:Triples"), [job("feed", last=RUN)], "box")["layers"][7]
    assert triples["last"] is None, "the graph of our own is not fed by it"


def test_agents_are_known_by_their_sessions(tmp_path: Path) -> None:
    for name in ("max", "eva"):
        (tmp_path / "agents" / name / "sessions").mkdir(parents=True)
    (tmp_path / "agents" / "none").mkdir()
    (tmp_path / "kim" / "sessions").mkdir(parents=True)
    paths = [tmp_path / "agents", tmp_path / "kim" / "sessions", tmp_path / "missing"]
    assert agents_with_sessions(paths) == ["eva", "kim", "max"]


def test_the_board_of_a_home_names_its_agents_workspace_and_runs(tmp_path: Path) -> None:
    """As the command prints it after a run of a job."""
    home, agent = tmp_path / "home", (tmp_path / "agent").resolve()
    home.mkdir()
    agent.mkdir()
    (tmp_path / "agents" / "eva" / "sessions").mkdir(parents=True)
    sessions = f'[sessions]\npaths = ["{tmp_path / "agents"}"]\n'
    workspace = f'[workspace]\nwrite = true\nroot_folder = "{agent}"\nagent_id = "max"\n'
    (home / "fusion.toml").write_text(SMALL + workspace + sessions)
    allow(home)
    place = ["--home", str(home), "--direct"]
    assert CliRunner().invoke(app, ["jobs", "run", "shepherd", *place]).exit_code == 0
    shown = CliRunner().invoke(app, ["status", "--layers", *place])
    host = socket.gethostname()
    assert f"max@{host}: 0 memories, workspace {agent}" in " ".join(shown.stdout.split())
    assert f"eva@{host}: 0 memories, its sessions are followed" in " ".join(shown.stdout.split())
    found = json.loads(CliRunner().invoke(app, ["status", "--layers", "--json", *place]).stdout)
    assert found["layers"][2]["instances"] == {f"eva@{host}": NOT_THERE, f"max@{host}": "done"}
    assert found["layers"][2]["runs"][f"max@{host}"] is not None
