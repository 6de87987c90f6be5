"""The steps of each job, over functions as the gateway gives them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any

import pytest

from fusion.ingest.read_in_context import Portion
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
        return {"expired": 2, "dry_run": dry_run, "notes": ["a note"], "archived_by": {"priority": {"P1": 3}}, store: 1}

    run, shown = context(dry_run=True), []
    run.current, run.total = "default/cortex", 2
    run.progress = lambda done, total, note="": shown.append((done, total, note))
    for store in ("default/cortex", "acme/cortex"):
        await lifecycle.step(rules)(run, store)
    archived = {"priority": {"P1": 6}}
    assert run.result == {"expired": 4, "default/cortex": 1, "acme/cortex": 1, "archived_by": archived}
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

    async def read(self, tenant: str, before: int | None = None, *, dry_run: bool = False) -> None:
        """There is no second encoder."""


class Shown:
    """A progress that keeps its notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def __call__(self, done: int, total: int | None, note: str = "") -> None:
        self.notes.append(note)


class Portions:
    """A second encoder that reads two hundred memories, with two new texts each, in 25 seconds."""

    def __init__(self, memories: int) -> None:
        self.memories = memories

    async def __call__(self, tenant: str, before: int | None = None, *, dry_run: bool = False) -> Portion:
        left = self.memories if before is None else before
        if not dry_run:
            await asyncio.sleep(25)
        portion = min(left, 200)
        return Portion(portion, 2 * portion, 0 if dry_run else 2 * portion, left - portion or None)


@pytest.mark.row("A100", "the job `vectors` computes the vectors that memories lack, daily and on request")
def test_vectors_waits_for_them_within_its_budget() -> None:
    async def runs() -> None:
        for takes_s, computed in ((5.0, 7), (None, 0)):
            run, store = context(), Vectors(takes_s)
            await vectors.step(store.pending, store.settle, store.read)(run, "default")
            assert run.result == {"pending": 7, "computed": computed}
        run, store = context(dry_run=True), Vectors(None)
        await vectors.step(store.pending, store.settle, store.read)(run, "default")
        assert run.result == {"pending": 7, "computed": 0}

    in_virtual_time(runs())


@pytest.mark.feature(
    "the job `vectors` has a second encoder read what was stored before it was switched on, newest first"
)
def test_vectors_has_the_second_encoder_read_all_memories_within_its_budget() -> None:
    """450 memories are three portions; of 2,000, those are read that 60 seconds are enough for."""

    async def runs() -> None:
        store = Vectors(0)
        for memories, read in ((450, 900), (2_000, 1_200)):
            run, shown = context(), Shown()
            run.current, run.progress = "default", shown
            await vectors.step(store.pending, store.settle, Portions(memories))(run, "default")
            assert (run.result["unread_by_second"], run.result["read_by_second"]) == (read, read)
            assert shown.notes[:2] == ["default: 200", "default: 400"]
        dry = context(dry_run=True)
        await vectors.step(store.pending, store.settle, Portions(2_000))(dry, "default")
        assert (dry.result["unread_by_second"], dry.result["read_by_second"]) == (4_000, 0)

    in_virtual_time(runs())


async def test_receipts_counts_what_was_deleted() -> None:
    async def prune(tenant: str, dry_run: bool) -> int:
        return 3

    run = context()
    for tenant in ("acme", "default"):
        await receipts.step(prune)(run, tenant)
    assert run.result == {"deleted": 6}
    assert run.now.tzinfo is UTC
