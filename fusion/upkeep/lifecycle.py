"""The job `lifecycle`: expires, decays, merges and retires memories, in every store that has these rules."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fusion.upkeep.job import JobContext

NAME = "lifecycle"
DOES = "Expire, decay, merge and retire memories, and resolve conflicts; nothing is deleted."
VERB = "lifecycle"
"""the verb of a backend that has these rules"""

Lifecycle = Callable[[str, bool, Callable[[int, int | None], None]], Awaitable[Mapping[str, Any]]]
"""runs the rules in the store that a step names; takes ``dry_run`` and the progress, and returns counts"""


def step(lifecycle: Lifecycle) -> Callable[[JobContext, str], Awaitable[None]]:
    """The step for one store of one tenant."""

    async def run(context: JobContext, store: str) -> None:
        context.add(await lifecycle(store, context.dry_run, context.report))

    return run
