"""The job `consolidation`: compares statements that were never compared with earlier ones.

The background compares each new statement at once. Left over are those of a home from before it did, those that were
imported, and those that wait since the embedder failed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fusion.upkeep.job import JobContext

NAME = "consolidation"
DOES = "Compare statements that were never compared: merge those that say the same, and find conflicts."


def step(
    waiting: Callable[[str], Awaitable[int]], compare: Callable[[str], Awaitable[int]]
) -> Callable[[JobContext, str], Awaitable[None]]:
    """The step for one tenant.

    ``waiting`` returns how many statements wait; ``compare`` compares some of them and returns how many still do.
    """

    async def run(context: JobContext, tenant: str) -> None:
        before = left = await waiting(tenant)
        while left and context.left_s and not context.dry_run:
            still = await compare(tenant)
            if still >= left:  # there is no embedder
                break
            left = still
            context.report(before - left, before)
        context.add({"waiting": before, "compared": before - left})

    return run
