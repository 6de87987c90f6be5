"""Builds the jobs of a home from its settings, over the calls of its gateway."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

from fusion import wire
from fusion.contract import Scope
from fusion.errors import BadInput
from fusion.extension import Verb
from fusion.gateway.extensions import verbs_of
from fusion.gateway.parts import DEFAULT
from fusion.journal import Journal
from fusion.recall.gather import GuardedBackend
from fusion.settings import JobSettings, Settings
from fusion.upkeep import checks, lifecycle, receipts, vectors
from fusion.upkeep.job import Job
from fusion.upkeep.runner import Runner
from fusion.upkeep.schedule import Schedule, parse, zone_of


class JobCalls(Protocol):
    """The parts and calls of a gateway that jobs are made of."""

    @property
    def settings(self) -> Settings: ...
    @property
    def guarded(self) -> Mapping[str, GuardedBackend]: ...
    @property
    def journal(self) -> Journal: ...
    def check(self, tenant: str) -> Awaitable[Mapping[str, str]]: ...
    def settle(self, tenant: str) -> Awaitable[None]: ...
    def backends(self, tenant: str) -> Awaitable[Sequence[wire.BackendState]]: ...
    def prune_receipts(self, tenant: str, *, dry_run: bool) -> Awaitable[int]: ...
    def verb(self, backend: str, name: str) -> type[Verb]: ...
    def do(
        self,
        backend: str,
        verb: Verb,
        scope: Scope,
        line: Callable[[str], Awaitable[None]],
        progress: Callable[[int, int | None], None],
    ) -> Awaitable[object]: ...


def jobs_of(gateway: JobCalls, other_tenants: Callable[[], list[str]]) -> Runner:
    """The jobs of a home; ``gateway`` is that of its owner."""
    settings = gateway.settings.jobs
    zone = zone_of(settings.zone)

    async def tenants() -> list[str]:
        return [DEFAULT, *await asyncio.to_thread(other_tenants)]

    async def stores() -> list[str]:
        names = _with_lifecycle(gateway)
        return [f"{tenant}/{name}" for tenant in await tenants() for name in names]

    def planned(chosen: JobSettings, schedule: Schedule | None = None) -> dict[str, Any]:
        return {
            "schedule": parse(chosen.schedule, zone) if chosen.schedule else schedule,
            "budget": timedelta(seconds=chosen.budget_s),
            "budget_tokens": chosen.budget_tokens,
            "dry_run": chosen.dry_run,
            "catch_up": chosen.catch_up,
        }

    async def prune(tenant: str, dry_run: bool) -> int:
        return await gateway.prune_receipts(tenant, dry_run=dry_run)

    jobs = (
        Job(
            checks.NAME,
            checks.DOES,
            tenants,
            checks.step(gateway.check),
            **planned(settings.checks, checks.schedule(gateway.settings.checks.every_hours)),
        ),
        Job(
            lifecycle.NAME,
            lifecycle.DOES,
            stores,
            lifecycle.step(partial(_run_lifecycle, gateway)),
            **planned(settings.lifecycle),
        ),
        Job(receipts.NAME, receipts.DOES, tenants, receipts.step(prune), **planned(settings.receipts)),
        Job(
            vectors.NAME,
            vectors.DOES,
            tenants,
            vectors.step(partial(_vectors_pending, gateway), gateway.settle),
            **planned(settings.vectors),
        ),
    )
    owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
    return Runner(jobs, gateway.journal, owner, timedelta(seconds=settings.lease_s))


def _with_lifecycle(gateway: JobCalls) -> list[str]:
    """The backends with rules of their own for the age of memories."""
    return [
        name
        for name, guarded in gateway.guarded.items()
        if guarded.disabled is None and lifecycle.VERB in verbs_of(gateway.settings.backends[name].adapter)
    ]


async def _run_lifecycle(
    gateway: JobCalls, store: str, dry_run: bool, progress: Callable[[int, int | None], None]
) -> Mapping[str, Any]:
    """The counts of one run of the rules in the store that ``tenant/backend`` names."""
    tenant, _, backend = store.rpartition("/")
    verb: Any = gateway.verb(backend, lifecycle.VERB)
    result = await gateway.do(backend, verb(dry_run=dry_run), Scope(tenant, audience="private"), _no_lines, progress)
    return asdict(result) if is_dataclass(result) and not isinstance(result, type) else dict(result)  # type: ignore[call-overload]


async def _no_lines(line: str) -> None:
    raise BadInput("A job prints no lines.")


async def _vectors_pending(gateway: JobCalls, tenant: str) -> int:
    return sum(state["vectors_pending"] for state in await gateway.backends(tenant))
