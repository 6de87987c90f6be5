"""The jobs of a whole home: what each does there, for every tenant, and who may run them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from fusion.contract import Scope
from fusion.errors import BadInput, SettingsError, StoreDamaged
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.settings import Settings
from fusion.upkeep.schedule import parse
from tests.gateway.helpers import NADIA, remember, small
from tests.patience import load

ACME = Scope("acme", user_id="nadia", audience="private")


def with_jobs(settings: Settings, **jobs: Any) -> Settings:
    return settings.model_copy(update={"jobs": settings.jobs.model_copy(update=jobs)})


def cortex(home: Path) -> Settings:
    backends = {"cortex": {"adapter": "adapters.cortex:Cortex"}, "memory": {"adapter": "adapters.inmemory:InMemory"}}
    return load(home=home, backends_only=True, embedder={"adapter": ""}, backends=backends)


async def told_by_acme(gateway: Gateway) -> None:
    await gateway.remember([NewMemory("The harbour is in Lyon", scope=ACME)], tenant="acme")
    await gateway.settle("acme")


@pytest.mark.feature(
    "the jobs of a home: checks, consolidation, lifecycle, receipts and vectors, for the owner and every tenant"
)
async def test_jobs_work_on_every_tenant(home: Path) -> None:
    async with Gateway.open(cortex(home)) as gateway:
        await remember(gateway, "The harbour is in Brest")
        await told_by_acme(gateway)
        views = {view.name: view for view in await gateway.jobs().views()}
        assert {name: view.schedule for name, view in views.items()} == {
            "checks": "every 6 hours",
            "consolidation": "30 2 * * *",
            "distill": "off",
            "episodes": "every 1 hour",
            "extract": "off",
            "feed": "off",
            "grade": "off",
            "layers": "off",
            "lifecycle": "0 3 * * *",
            "observe": "every 1 hour",
            "proposals": "every 1 hour",
            "receipts": "30 3 * * *",
            "reflect": "off",
            "reflect-prefix": "40 3 * * *",
            "shepherd": "off",
            "vectors": "0 4 * * *",
        }
        assert all(gateway.settings.jobs.of(name).catch_up for name in views)
        for name in ("checks", "consolidation", "proposals", "receipts", "vectors"):
            run = await gateway.jobs().run(name)
            assert (run.status, run.receipt["steps"]) == ("done", {"done": 2, "total": 2})
        run = await gateway.jobs().run("lifecycle")
        assert (run.status, run.receipt["steps"]) == ("done", {"done": 2, "total": 2})
        assert run.receipt["result"]["scanned"] == 2


def rows_of(folder: Path) -> list[str]:
    """Every row of the databases in a folder."""
    rows = []
    for file in sorted(folder.glob("*.sqlite")):
        with closing(sqlite3.connect(file)) as db:
            rows += list(db.iterdump())
    return rows


async def test_dry_run_of_lifecycle_changes_nothing(home: Path) -> None:
    """It counts what a run then does."""
    async with Gateway.open(cortex(home)) as gateway:
        for session in ("s1", "s2"):
            scope = replace(NADIA, session_id=session)
            await remember(gateway, "Nadia decided that we move the bookings database to Postgres", scope=scope)
        before = rows_of(home / "backends" / "cortex")
        assert before
        run = await gateway.jobs().run("lifecycle", dry_run=True)
        assert (run.dry_run, run.receipt["result"]["scanned"]) == (True, 2)
        assert rows_of(home / "backends" / "cortex") == before
        done = await gateway.jobs().run("lifecycle")
        assert done.receipt["result"] == run.receipt["result"]
        changed = {name for name, count in done.receipt["result"].items() if name != "scanned" and count}
        assert (rows_of(home / "backends" / "cortex") == before) == (not changed)


@pytest.mark.feature("expired receipts are deleted at night, also of a tenant that nobody asks any more")
async def test_receipts_job_deletes_expired_receipts(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        await remember(gateway, "The harbour is in Brest")
        await gateway.fuse("where is the harbour?", scope=NADIA)
        await gateway.receipts.flush()
        with closing(sqlite3.connect(home / "receipts.sqlite")) as db, db:
            db.execute("update receipt set at = 1")
        assert (await gateway.jobs().run("receipts", dry_run=True)).receipt["result"] == {"deleted": 1}
        assert (await gateway.jobs().run("receipts")).receipt["result"] == {"deleted": 1}
        with closing(sqlite3.connect(home / "receipts.sqlite")) as db:
            assert db.execute("select count(*) from receipt").fetchone() == (0,)


@pytest.mark.feature("`[jobs]` sets the zone, schedule, budget, catch-up and dry run of each job")
async def test_settings_reach_the_jobs(home: Path) -> None:
    chosen = {"schedule": "0 3 * * *", "budget_s": 5, "budget_tokens": 7, "catch_up": False, "dry_run": True}
    jobs = {"zone": "Asia/Tokyo", "lease_s": 9, "receipts": chosen, "checks": {"schedule": "0 5 * * *"}}
    backends = {"memory": {"adapter": "adapters.inmemory:InMemory"}}
    settings = load(home=home, backends_only=True, embedder={"adapter": ""}, backends=backends, jobs=jobs)
    async with Gateway.open(settings) as gateway:
        runner = gateway.jobs()
        job = runner.job("receipts")
        assert (job.budget, job.budget_tokens, job.catch_up, job.dry_run) == (timedelta(seconds=5), 7, False, True)
        assert job.schedule == parse("0 3 * * *", ZoneInfo("Asia/Tokyo"))
        assert str(runner.job("checks").schedule) == "0 5 * * *", "the job's own schedule comes before [checks]"
        assert runner.lease == timedelta(seconds=9)


@pytest.mark.parametrize(
    ("jobs", "said"),
    [
        ({"receipts": {"schedule": "sometimes"}}, "'sometimes' is no schedule"),
        ({"receipts": {"schedule": ""}}, "'' is no schedule"),
        ({"zone": "Mars/Base"}, "there is no such time zone"),
        ({"recipts": {"schedule": "off"}}, "receipts"),
    ],
)
def test_wrong_settings_of_jobs_name_the_fix(home: Path, jobs: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        load(home=home, jobs=jobs)


@pytest.mark.feature("only the owner of a home runs, pauses and lists its jobs")
async def test_tenants_have_no_jobs(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        with pytest.raises(BadInput, match="need a key of the tenant default"):
            gateway.jobs("acme")


async def test_paused_job_stays_paused_after_a_restart(home: Path) -> None:
    settings = small(home)
    async with Gateway.open(settings) as gateway:
        await gateway.jobs().set_paused("receipts", True)
    async with Gateway.open(settings) as gateway:
        paused = {view.name: view.paused for view in await gateway.jobs().views()}
    assert [name for name, is_paused in paused.items() if is_paused] == ["receipts"]


async def test_home_with_a_damaged_journal_runs_no_jobs(home: Path) -> None:
    settings = with_jobs(small(home), start_after_s=0.0)
    async with Gateway.open(settings) as gateway:
        await remember(gateway, "The harbour is in Brest")
    content = bytearray((home / "journal.sqlite").read_bytes())
    content[8192:16384] = b"\xff" * 8192
    (home / "journal.sqlite").write_bytes(content)
    async with Gateway.open(settings) as gateway:
        with pytest.raises(StoreDamaged):
            await gateway.jobs().run("receipts")
