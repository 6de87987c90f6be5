"""Some days of simulated time, tried as a user would: every door gives the same memories after each step."""

from __future__ import annotations

import json

import pytest

from benchmarks.__main__ import main
from benchmarks.day import STEPS


@pytest.mark.feature(
    "days of simulated turns: remember, contradict, reword, expire, archive, undo, forget; after each step `/fuse`, "
    "the recall of the cortex, MCP and the hook agree"
)
@pytest.mark.model
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_door_agrees_after_each_step_of_some_days(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["day"]) == 0
    *printed, last = capsys.readouterr().out.splitlines()
    figures = json.loads(last)
    assert figures["disagreements"] == []
    assert figures["steps"] > len(STEPS)
    assert sum(line.endswith("every door agrees") for line in printed) == figures["steps"]
