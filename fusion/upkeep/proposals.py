"""The job `proposals`: policies decide on proposals that are old enough, the oldest expire, and decided ones go."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from fusion.upkeep.job import JobContext

NAME = "proposals"
DOES = "Let policies decide on open proposals, and let those expire that nobody decided on."


def step(
    tend: Callable[[str, bool], Awaitable[Mapping[str, int]]],
) -> Callable[[JobContext, str], Awaitable[None]]:
    """The step for one tenant; ``tend`` takes ``dry_run``, and returns counts of what it did."""

    async def run(context: JobContext, tenant: str) -> None:
        context.add(await tend(tenant, context.dry_run))

    return run
