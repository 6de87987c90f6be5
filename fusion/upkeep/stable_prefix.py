"""The jobs of the stable prefix: `observe` compresses raw buffers, and `reflect-prefix` prunes observations.

A read that finds a raw buffer full has it compressed at once, so `observe` is for windows that are not read, and for
those that a fault left full. `reflect-prefix` runs at night, when the providers' prompt caches have expired.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from fusion.journal.prefix import Window
from fusion.upkeep.job import JobContext

NAME = "observe"
DOES = "Compress the raw buffers of stable prefixes that are above their high-water mark."
REFLECT_NAME = "reflect-prefix"
REFLECT_DOES = "Drop the observations of least worth of stable prefixes, so that a day has room for new ones."

Windows = Callable[[str], Awaitable[Sequence[Window]]]
"""the stable prefixes of a tenant"""


class Compressed(Protocol):
    """What was done to one window."""

    @property
    def turns(self) -> int: ...
    @property
    def added(self) -> int: ...
    @property
    def pruned(self) -> int: ...
    @property
    def model_tokens(self) -> int: ...


class Observes(Protocol):
    """Compresses the raw buffer of a window, or only counts."""

    def __call__(
        self, tenant: str, window: Window, *, dry_run: bool = False, use_model: bool = True
    ) -> Awaitable[Compressed]: ...


class Reflects(Protocol):
    """Drops the observations of least worth of a window, or only counts them."""

    def __call__(self, tenant: str, window: Window, *, dry_run: bool = False) -> Awaitable[int]: ...


def step(windows: Windows, observe: Observes) -> Callable[[JobContext, str], Awaitable[None]]:
    """The step of `observe` for one tenant. When the model's tokens are used up, the rules go on."""

    async def run(context: JobContext, tenant: str) -> None:
        found = await windows(tenant)
        for number, window in enumerate(found, start=1):
            if not context.left_s:
                return
            spent = context.result.get("model_tokens", 0)
            may_ask = not context.budget_tokens or spent < context.budget_tokens
            done = await observe(tenant, window, dry_run=context.dry_run, use_model=may_ask)
            context.add(
                {
                    "windows": int(bool(done.turns)),
                    "turns": done.turns,
                    "observations": done.added,
                    "pruned": done.pruned,
                    "model_tokens": done.model_tokens,
                }
            )
            context.report(number, len(found))

    return run


def reflect_step(windows: Windows, reflect: Reflects) -> Callable[[JobContext, str], Awaitable[None]]:
    """The step of `reflect-prefix` for one tenant."""

    async def run(context: JobContext, tenant: str) -> None:
        found = await windows(tenant)
        for number, window in enumerate(found, start=1):
            if not context.left_s:
                return
            pruned = await reflect(tenant, window, dry_run=context.dry_run)
            context.add({"windows": int(bool(pruned)), "pruned": pruned})
            context.report(number, len(found))

    return run
