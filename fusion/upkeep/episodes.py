"""The job `episodes`: takes observations into the ledger, and deletes those that are past their days."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from fusion.upkeep.job import JobContext

NAME = "episodes"
DOES = "Take in the observations of [episodes] paths, and delete those that are past their days."

Harvest = Callable[[str], Awaitable[Mapping[str, int]]]
"""takes what a tenant has not harvested yet into its ledger; the counts of what it did"""
Expire = Callable[[str, bool], Awaitable[Mapping[str, int]]]
"""deletes what is past its days, or counts it; takes the tenant and ``dry_run``, and returns the numbers by type"""


def step(harvest: Harvest, expire: Expire) -> Callable[[JobContext, str], Awaitable[None]]:
    """The step for one tenant. A dry run harvests nothing."""

    async def run(context: JobContext, tenant: str) -> None:
        if not context.dry_run:
            context.add(await harvest(tenant))
        expired = await expire(tenant, context.dry_run)
        context.add({"deleted": sum(expired.values()), **{f"deleted_{each}": n for each, n in expired.items()}})

    return run
