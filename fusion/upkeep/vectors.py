"""The job `vectors`: computes the vectors that are missing, for example since an embedder was down."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from fusion.upkeep.job import JobContext

NAME = "vectors"
DOES = "Compute the vectors that memories still lack."


def step(
    pending: Callable[[str], Awaitable[int]], settle: Callable[[str], Awaitable[None]]
) -> Callable[[JobContext, str], Awaitable[None]]:
    """The step for one tenant.

    ``pending`` returns how many vectors it lacks; ``settle`` returns when they are computed or cannot be.
    """

    async def run(context: JobContext, tenant: str) -> None:
        before = left = await pending(tenant)
        if before and not context.dry_run:
            with suppress(TimeoutError):
                async with asyncio.timeout(context.left_s):
                    await settle(tenant)
            left = await pending(tenant)
        context.add({"pending": before, "computed": before - left})

    return run
