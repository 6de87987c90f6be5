"""Builds the jobs of a home from its settings, over the calls of its gateway."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

from fusion import wire
from fusion.contract import Embedder, Scope
from fusion.gateway.parts import DEFAULT
from fusion.gateway.shepherding import cosines_by, scratch_of, shepherd_of
from fusion.gateway.workspace import readable_workspace, workspace_of
from fusion.gateway.workspace_jobs import (
    WorkspaceCalls,
    distill_limits,
    distill_sources,
    extract_sources,
    feed_sources,
    reflect_sources,
)
from fusion.ingest.harvest import Harvested
from fusion.journal.prefix import Window
from fusion.settings import JobSettings
from fusion.upkeep import (
    checks,
    consolidation,
    distill,
    episodes,
    extract,
    feed,
    grade,
    layers,
    lifecycle,
    proposals,
    receipts,
    reflect,
    shepherd,
    stable_prefix,
    vectors,
)
from fusion.upkeep.job import Job, JobContext
from fusion.upkeep.runner import Runner
from fusion.upkeep.schedule import Schedule, parse, zone_of


class JobCalls(WorkspaceCalls, Protocol):
    """The parts and calls of a gateway that jobs are made of."""

    @property
    def embedder(self) -> Embedder | None: ...
    def check(self, tenant: str) -> Awaitable[Mapping[str, str]]: ...
    def settle(self, tenant: str) -> Awaitable[None]: ...
    def backends(self, tenant: str) -> Awaitable[Sequence[wire.BackendState]]: ...
    def statements_waiting(self, tenant: str) -> Awaitable[int]: ...
    def compare_statements(self, tenant: str) -> Awaitable[int]: ...
    def harvest_episodes(self, tenant: str) -> Awaitable[Harvested]: ...
    def expire_episodes(self, tenant: str, *, dry_run: bool) -> Awaitable[Mapping[str, int]]: ...
    def prune_receipts(self, tenant: str, *, dry_run: bool) -> Awaitable[int]: ...
    def tend_proposals(self, tenant: str, *, dry_run: bool) -> Awaitable[Mapping[str, int]]: ...
    def read_by_second(
        self, tenant: str, before: int | None = None, *, dry_run: bool = False
    ) -> Awaitable[vectors.Portion | None]: ...
    def prefix_windows(self, tenant: str) -> Awaitable[Sequence[Window]]: ...
    def observe_prefix(
        self, tenant: str, window: Window, *, dry_run: bool = False, use_model: bool = True
    ) -> Awaitable[stable_prefix.Compressed]: ...
    def reflect_prefix(self, tenant: str, window: Window, *, dry_run: bool = False) -> Awaitable[int]: ...
    def run_lifecycle(
        self, request: lifecycle.LifecycleRequest, progress: lifecycle.Progress
    ) -> Awaitable[lifecycle.Report]: ...
    def layers_waiting(self, tenant: str) -> Awaitable[int]: ...
    def write_next_layers(self, tenant: str, before: int | None = None) -> Awaitable[layers.Done | None]: ...
    def grade(
        self, request: grade.GradeRequest, progress: lifecycle.Progress, left_s: Callable[[], float]
    ) -> Awaitable[grade.GradeReport]: ...


def jobs_of(gateway: JobCalls, other_tenants: Callable[[], Awaitable[list[str]]]) -> Runner:
    """The jobs of a home; ``gateway`` is that of its owner."""
    settings = gateway.settings.jobs
    zone = zone_of(settings.zone)

    async def tenants() -> list[str]:
        return [DEFAULT, *await other_tenants()]

    fed = feed_sources(gateway)
    writes = gateway.settings.workspace.write

    def planned(chosen: JobSettings, schedule: Schedule | None = None, *, on: bool = True) -> dict[str, Any]:
        """When a job runs; ``on``: whether the settings let it do anything, without which it has no schedule."""
        return {
            "schedule": None if not on else parse(chosen.schedule, zone) if chosen.schedule else schedule,
            "budget": timedelta(seconds=chosen.budget_s),
            "budget_tokens": chosen.budget_tokens,
            "dry_run": chosen.dry_run,
            "catch_up": chosen.catch_up,
        }

    async def run_lifecycle(tenant: str, dry_run: bool, progress: lifecycle.Progress) -> Mapping[str, Any]:
        whole = Scope(tenant, audience="private")
        return asdict(await gateway.run_lifecycle(lifecycle.LifecycleRequest(whole, dry_run), progress))

    async def run_grade(tenant: str, context: JobContext) -> Mapping[str, Any]:
        asked = grade.GradeRequest(Scope(tenant, audience="private"), context.dry_run)
        return asdict(await gateway.grade(asked, context.report, lambda: context.left_s))

    async def harvest(tenant: str) -> Mapping[str, int]:
        return asdict(await gateway.harvest_episodes(tenant))

    async def expire(tenant: str, dry_run: bool) -> Mapping[str, int]:
        return await gateway.expire_episodes(tenant, dry_run=dry_run)

    async def prune(tenant: str, dry_run: bool) -> int:
        return await gateway.prune_receipts(tenant, dry_run=dry_run)

    async def tend(tenant: str, dry_run: bool) -> Mapping[str, int]:
        return await gateway.tend_proposals(tenant, dry_run=dry_run)

    jobs = (
        Job(
            checks.NAME,
            checks.DOES,
            tenants,
            checks.step(gateway.check),
            **planned(settings.checks, checks.schedule(gateway.settings.checks.every_hours)),
        ),
        Job(
            consolidation.NAME,
            consolidation.DOES,
            tenants,
            consolidation.step(gateway.statements_waiting, gateway.compare_statements),
            **planned(settings.consolidation),
        ),
        Job(
            distill.NAME,
            distill.DOES,
            distill.steps,
            distill.step(workspace_of(gateway.settings), distill_sources(gateway), distill_limits(gateway.settings)),
            **planned(settings.distill, on=writes),
        ),
        Job(
            episodes.NAME,
            episodes.DOES,
            tenants,
            episodes.step(harvest, expire),
            **planned(settings.episodes),
        ),
        Job(
            extract.NAME,
            extract.DOES,
            extract.steps,
            extract.step(
                workspace_of(gateway.settings),
                extract_sources(gateway),
                extract.Limits(settings.extract.raw_days, settings.extract.max_chars),
                zone,
            ),
            **planned(settings.extract, on=writes),
        ),
        Job(
            feed.NAME,
            feed.DOES,
            fed.steps,
            feed.step(readable_workspace(gateway.settings), fed),
            **planned(settings.feed, on=any(one.takes_files for one in fed.backends.values())),
        ),
        Job(
            grade.NAME,
            grade.DOES,
            tenants,
            grade.step(run_grade),
            **planned(settings.grade, on=settings.grade.scorer != "off"),
        ),
        Job(
            layers.NAME,
            layers.DOES,
            tenants,
            layers.step(gateway.layers_waiting, gateway.write_next_layers),
            **planned(settings.layers, on=gateway.settings.packs.layers_by_model),
        ),
        Job(
            lifecycle.NAME,
            lifecycle.DOES,
            tenants,
            lifecycle.step(run_lifecycle),
            **planned(settings.lifecycle),
        ),
        Job(
            stable_prefix.NAME,
            stable_prefix.DOES,
            tenants,
            stable_prefix.step(gateway.prefix_windows, gateway.observe_prefix),
            **planned(settings.observe),
        ),
        Job(proposals.NAME, proposals.DOES, tenants, proposals.step(tend), **planned(settings.proposals)),
        Job(receipts.NAME, receipts.DOES, tenants, receipts.step(prune), **planned(settings.receipts)),
        Job(
            reflect.NAME,
            reflect.DOES,
            reflect.steps,
            reflect.step(workspace_of(gateway.settings), reflect_sources(gateway), zone),
            **planned(settings.reflect, on=writes),
        ),
        Job(
            stable_prefix.REFLECT_NAME,
            stable_prefix.REFLECT_DOES,
            tenants,
            stable_prefix.reflect_step(gateway.prefix_windows, gateway.reflect_prefix),
            **planned(settings.reflect_prefix),
        ),
        Job(
            shepherd.NAME,
            shepherd.DOES,
            _steps_of_shepherd,
            shepherd.step(
                shepherd_of(gateway.settings),
                cosines_by(gateway.embedder),
                scratch_of(gateway.settings),
            ),
            **planned(settings.shepherd, on=writes),
        ),
        Job(
            vectors.NAME,
            vectors.DOES,
            tenants,
            vectors.step(partial(_vectors_pending, gateway), gateway.settle, gateway.read_by_second),
            **planned(settings.vectors),
        ),
    )
    owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
    return Runner(jobs, gateway.journal, owner, timedelta(seconds=settings.lease_s), gateway.journal.clock)


async def _steps_of_shepherd() -> Sequence[str]:
    return shepherd.STEPS


async def _vectors_pending(gateway: JobCalls, tenant: str) -> int:
    return sum(state["vectors_pending"] for state in await gateway.backends(tenant))
