"""`fusion status --layers`: the layers of memory for each agent on this host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fusion.doors.cli import app
from fusion.doors.cli.layers import LAYERS, NOT_THERE, board
from fusion.doors.http.openapi import examples
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
        "max",
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
