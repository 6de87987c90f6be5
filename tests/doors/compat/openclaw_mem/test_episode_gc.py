"""`episodes gc` with days of one's own, in one scope."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from fusion.doors.cli import app
from fusion.doors.compat.openclaw_mem.episode_gc import Policy
from fusion.errors import BadInput
from tests.doors.fakes import SMALL

LATER = str(int((datetime.now(UTC) + timedelta(days=10)).timestamp() * 1000))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(SMALL)
    return home


def episodes(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["mem", "episodes", *arguments, "--home", str(home), "--direct", "--json"])


def printed(home: Path, *arguments: str) -> Any:
    done = episodes(home, *arguments)
    assert done.exit_code == 0, done.stdout
    return json.loads(done.stdout)


@pytest.mark.feature(
    "`episodes gc --policy` deletes what is older in one scope alone, and --now-ts-ms counts from then"
)
def test_days_of_ones_own(home: Path) -> None:
    for scope, kind in (("aurora", "tool.result"), ("aurora", "ops.alert"), ("other", "tool.result")):
        printed(home, "append", f"{scope} {kind}", "--scope", scope, "--type", kind)
    gc = ("gc", "--scope", "aurora", "--now-ts-ms", LATER, "--policy", "tool.result=7", "--policy", "ops.alert=forever")
    assert printed(home, *gc, "--dry-run")["deleted_by_type"]["tool.result"] == 1
    done = printed(home, *gc)
    assert (done["deleted_total"], done["now_ts_ms"], done["scope"]) == (1, int(LATER), "aurora")
    assert done["policy_days"] | {"tool.result": 7, "ops.alert": None} == done["policy_days"]
    assert [one["type"] for one in printed(home, "query", "--scope", "aurora")["items"]] == ["ops.alert"]
    assert len(printed(home, "query", "--scope", "other")["items"]) == 1
    assert printed(home, *gc)["deleted_total"] == 0


@pytest.mark.parametrize(
    "policy", ["tool.opinion=3", "tool.result", "tool.result=-1", "tool.result=nan", "tool.result=1e9"]
)
def test_a_wrong_policy_is_refused(home: Path, policy: str) -> None:
    done = episodes(home, "gc", "--scope", "aurora", "--policy", policy)
    assert done.exit_code == 2
    assert json.loads(done.stdout)["error"].startswith("--policy: ")


def test_without_a_scope_nothing_is_deleted(home: Path) -> None:
    done = episodes(home, "gc", "--policy", "tool.result=0")
    assert (done.exit_code, "--scope" in json.loads(done.stdout)["error"]) == (2, True)


def test_a_time_that_is_none_is_refused() -> None:
    with pytest.raises(BadInput, match="--now"):
        Policy.of({}, (), "soon")
