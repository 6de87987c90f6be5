"""The steps of each job, over functions as the gateway gives them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any

from fusion.upkeep import checks, lifecycle, receipts, vectors
from fusion.upkeep.job import JobContext
from tests.upkeep.helpers import BEGAN, in_virtual_time


def context(*, dry_run: bool = False) -> JobContext:
    return JobContext(BEGAN, dry_run, 60.0)


class Damaged:
    """A check that finds damage in one tenant."""

    def __init__(self) -> None:
        self.checked: list[str] = []

    async def __call__(self, tenant: str) -> Mapping[str, str]:
        self.checked.append(tenant)
        return {"cortex": "cortex: its index was damaged"} if tenant == "acme" else {}


async def test_checks_lists_the_damage_by_tenant() -> None:
    run, check = context(), Damaged()
    for tenant in ("acme", "default"):
        await checks.step(check)(run, tenant)
    faults = {"acme": {"cortex": "cortex: its index was damaged"}}
    assert run.result == {"checked": 2, "damaged": 1, "faults": faults}


async def test_dry_run_of_checks_checks_nothing() -> None:
    """A check repairs what it can, so a dry run must not do it."""
    run, check = context(dry_run=True), Damaged()
    await checks.step(check)(run, "acme")
    assert (check.checked, run.result) == ([], {"checked": 0, "damaged": 0})


def test_checks_run_as_often_as_the_settings_of_checks_say() -> None:
    assert str(checks.schedule(6.0)) == "every 6 hours"
    assert checks.schedule(0) is None


async def test_lifecycle_adds_up_the_counts_of_stores() -> None:
    async def rules(store: str, dry_run: bool, progress: Callable[[int, int | None], None]) -> dict[str, Any]:
        progress(5, 10)
        return {"expired": 2, "dry_run": dry_run, "notes": ["a note"], store: 1}

    run, shown = context(dry_run=True), []
    run.current, run.total = "default/cortex", 2
    run.progress = lambda done, total, note="": shown.append((done, total, note))
    for store in ("default/cortex", "acme/cortex"):
        await lifecycle.step(rules)(run, store)
    assert run.result == {"expired": 4, "default/cortex": 1, "acme/cortex": 1}
    assert shown[0] == (0, 2, "default/cortex: 5 of 10")


class Vectors:
    """Vectors that are computed in some seconds, or never."""

    def __init__(self, takes_s: float | None) -> None:
        self.missing, self.takes_s = 7, takes_s

    async def pending(self, tenant: str) -> int:
        return self.missing

    async def settle(self, tenant: str) -> None:
        if self.takes_s is None:
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(self.takes_s or 0)
        self.missing = 0


def test_vectors_waits_for_them_within_its_budget() -> None:
    async def runs() -> None:
        for takes_s, computed in ((5.0, 7), (None, 0)):
            run, store = context(), Vectors(takes_s)
            await vectors.step(store.pending, store.settle)(run, "default")
            assert run.result == {"pending": 7, "computed": computed}
        run, store = context(dry_run=True), Vectors(None)
        await vectors.step(store.pending, store.settle)(run, "default")
        assert run.result == {"pending": 7, "computed": 0}

    in_virtual_time(runs())


async def test_receipts_counts_what_was_deleted() -> None:
    async def prune(tenant: str, dry_run: bool) -> int:
        return 3

    run = context()
    for tenant in ("acme", "default"):
        await receipts.step(prune)(run, tenant)
    assert run.result == {"deleted": 6}
    assert run.now.tzinfo is UTC
