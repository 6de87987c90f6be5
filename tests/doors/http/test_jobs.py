"""The routes of jobs, over a runner whose one job records its steps."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256

import pytest

from fusion.client import AsyncClient, Client
from fusion.client.calls import run_job
from fusion.errors import BadInput, JobRunning, NotFound
from fusion.settings import KeySettings, ServerSettings, Settings
from tests.doors.contract import Checked
from tests.doors.fakes import FakeFusion, app_over, serving, until


@asynccontextmanager
async def client_of(fusion: FakeFusion, settings: Settings | None = None, key: str = "") -> AsyncIterator[AsyncClient]:
    transport = Checked(app_over(fusion, settings))
    async with AsyncClient.over(transport, api_key=key or None) as client:
        yield client


@pytest.mark.feature("jobs by HTTP and by both clients: list, run with progress, pause, resume, log")
async def test_jobs_are_listed_run_and_paused() -> None:
    fusion = FakeFusion()
    async with client_of(fusion) as client:
        (job,) = (await client.jobs())["jobs"]
        assert (job["name"], job["schedule"], job["last"]) == ("tidy", "0 0 29 2 *", None)
        run = (await client.run_job("tidy"))["run"]
        assert run is not None
        assert (run["status"], run["started_by"], run["receipt"]["result"]) == ("done", "request", {"steps": 1})
        assert (await client.run_job("tidy", due=True))["run"] is None
        assert (await client.pause_job("tidy"))["paused"]
        assert (await client.resume_job("tidy"))["next"] is not None
        assert [one["dry_run"] for one in (await client.job_log())["runs"]] == [False]
        await client.run_job("tidy", dry_run=True)
        page = await client.job_log("tidy", limit=1)
        assert page["runs"][0]["dry_run"]
        assert len((await client.job_log("tidy", cursor=page["next_cursor"]))["runs"]) == 1
        with pytest.raises(NotFound, match="there is no job 'tidyy'"):
            await client.run_job("tidyy")


async def test_run_reports_its_progress() -> None:
    async with client_of(FakeFusion()) as client:
        parts = [part async for part in client.stream(run_job("tidy"))]
    assert {"progress": {"done": 0, "total": 1, "note": "one"}} in parts
    assert parts[-1]["result"]["run"]["status"] == "done"


@pytest.mark.feature("… a run goes on when its client hangs up", of="jobs by HTTP and by both clients")
async def test_run_goes_on_when_its_client_hangs_up() -> None:
    fusion = FakeFusion()
    fusion.tidy.hold = asyncio.Event()
    async with serving(fusion) as url:
        body = json.dumps({}).encode()
        _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        head = f"POST /v1/jobs/tidy/run HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
        writer.write(f"{head}content-type: application/json\r\n\r\n".encode() + body)
        await until(lambda: bool(fusion.tidy.began))
        writer.close()
        await asyncio.to_thread(_refused, url)
        fusion.tidy.hold.set()
        await until(lambda: bool(fusion.tidy.done))
    assert fusion.tidy.done == ["one"]


def _refused(url: str) -> None:
    with Client(url) as client, pytest.raises(JobRunning, match="tidy is under way"):
        client.run_job("tidy")


@pytest.mark.feature("… a key of another tenant is refused", of="jobs by HTTP and by both clients")
async def test_other_tenants_have_no_jobs() -> None:
    settings = Settings(
        server=ServerSettings(keys=(KeySettings(name="acme", sha256=sha256(b"sk-acme").hexdigest(), tenant="acme"),))
    )
    async with client_of(FakeFusion(), settings, "sk-acme") as client:
        for asked in (client.jobs, client.job_log, lambda: client.run_job("tidy"), lambda: client.pause_job("tidy")):
            with pytest.raises(BadInput, match="tenant default"):
                await asked()
