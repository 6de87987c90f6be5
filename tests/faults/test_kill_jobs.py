"""A server that is killed while it runs a job: the next one continues, once the lease has run out."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from fusion.client import Client
from fusion.contract import Scope
from fusion.errors import FusionError, JobRunning
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.trust import allow
from fusion.trust.token import home_token

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = """
backends_only = true
[embedder]
adapter = ""
[jobs]
lease_s = 1
[backends.one]
adapter = "tests.faults.upkept:Upkept"
"""


@contextmanager
def server(home: Path, hold: Path) -> Iterator[tuple[subprocess.Popen[str], Client]]:
    """A server in its own process, and a client of it."""
    command = [sys.executable, "-m", "fusion", "serve", "--home", str(home), "--port", "0", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "UPKEPT_HOLD": str(hold)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            with Client(json.loads(process.stdout.readline())["url"], api_key=home_token(home)) as client:
                yield process, client
        finally:
            process.terminate()


async def add_tenant(home: Path) -> None:
    """A second tenant, so that a run has two steps."""
    os.environ["UPKEPT_HOLD"] = str(home / "nothing")
    try:
        async with Gateway.open(home=home) as gateway:
            await gateway.remember([NewMemory("Tea is ready", scope=Scope("acme"))], tenant="acme")
            await gateway.settle("acme")
    finally:
        del os.environ["UPKEPT_HOLD"]


@pytest.mark.feature("kill -9 in the middle of a job: its run is lost, and the next one does what is left")
def test_job_continues_after_its_server_was_killed(tmp_path: Path) -> None:
    home, hold = tmp_path / "home", tmp_path / "hold"
    home.mkdir()
    (home / "fusion.toml").write_text(SETTINGS)
    allow(home)
    asyncio.run(add_tenant(home))
    hold.touch()
    with ThreadPoolExecutor(1) as threads, server(home, hold) as (process, client):
        running = threads.submit(client.run_job, "vectors")
        while not any(job["progress"] and job["progress"]["note"] for job in client.jobs()["jobs"]):
            assert not running.done(), running.exception()
        with pytest.raises(JobRunning, match="vectors is under way"):
            client.run_job("vectors")
        process.kill()
        with pytest.raises(FusionError):
            running.result()
    hold.unlink()
    with server(home, hold) as (_, client):
        run = None
        while run is None:
            try:
                run = client.run_job("vectors")["run"]
            except JobRunning:
                assert client.job_log()["runs"][0]["status"] == "running"
        assert run["receipt"]["steps"] == {"done": 2, "total": 2}
        assert [one["status"] for one in client.job_log()["runs"]] == ["done", "lost"]
