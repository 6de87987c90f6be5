"""The job `vectors` computes missing vectors, for example after an embedder was down.

With a second encoder, it also encodes the memories that were stored before that was switched on, newest first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

from fusion.upkeep.job import JobContext

NAME = "vectors"
DOES = "Compute the vectors that memories still lack."


class Portion(Protocol):
    """Some stored memories, and how many of their texts the second encoder had not read and has read now.

    The next portion begins ``before`` this number; None: there is none.
    """

    @property
    def memories(self) -> int: ...
    @property
    def unread(self) -> int: ...
    @property
    def read(self) -> int: ...
    @property
    def before(self) -> int | None: ...


class ReadsPortions(Protocol):
    """Has the second encoder read the next memories of a tenant, or only counts; None without such an encoder."""

    def __call__(
        self, tenant: str, before: int | None = None, *, dry_run: bool = False
    ) -> Awaitable[Portion | None]: ...


def step(
    pending: Callable[[str], Awaitable[int]], settle: Callable[[str], Awaitable[None]], read: ReadsPortions
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
        await _read_all(context, tenant, read)

    return run


async def _read_all(context: JobContext, tenant: str, read: ReadsPortions) -> None:
    """Portion after portion, until all are read or the budget is used up."""
    done, before, begun = 0, None, False
    while context.left_s and not (begun and before is None):
        portion = await read(tenant, before, dry_run=context.dry_run)
        if portion is None:
            return
        context.add({"unread_by_second": portion.unread, "read_by_second": portion.read})
        done, before, begun = done + portion.memories, portion.before, True
        context.report(done, None)
