"""The job `receipts`: deletes receipts that are older than the settings keep them, also of a home that is not asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fusion.upkeep.job import JobContext

NAME = "receipts"
DOES = "Delete receipts that are older than [receipts] keep_days."


def step(prune: Callable[[str, bool], Awaitable[int]]) -> Callable[[JobContext, str], Awaitable[None]]:
    """The step for one tenant; ``prune`` takes ``dry_run`` and returns how many receipts are too old."""

    async def run(context: JobContext, tenant: str) -> None:
        context.add({"deleted": await prune(tenant, context.dry_run)})

    return run
