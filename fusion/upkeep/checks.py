"""The job `checks`: looks for damage in the journal and the stores of every tenant, and repairs derived data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta

from fusion.upkeep.job import JobContext
from fusion.upkeep.schedule import Every

NAME = "checks"
DOES = "Look for damage in the journal and the stores, and rebuild damaged indexes."


def schedule(every_hours: float) -> Every | None:
    """The schedule of ``[checks] every_hours``."""
    return Every(timedelta(hours=every_hours)) if every_hours else None


def step(check: Callable[[str], Awaitable[Mapping[str, str]]]) -> Callable[[JobContext, str], Awaitable[None]]:
    """The step for one tenant; ``check`` returns its faults by store. A dry run checks nothing, since that repairs."""

    async def run(context: JobContext, tenant: str) -> None:
        faults = {} if context.dry_run else await check(tenant)
        context.add({"checked": int(not context.dry_run), "damaged": len(faults)})
        if faults:
            context.result.setdefault("faults", {})[tenant] = dict(faults)

    return run
