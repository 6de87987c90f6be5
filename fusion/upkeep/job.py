"""What a job is: a name, its steps, and the context of one run of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from fusion.upkeep.schedule import Schedule


class Progress(Protocol):
    """Reports that ``done`` of ``total`` steps are done (None: unknown), and in ``note`` what is done now."""

    def __call__(self, done: int, total: int | None, note: str = "") -> None: ...


def no_progress(done: int, total: int | None, note: str = "") -> None:
    """Reports nothing."""


@dataclass(slots=True)
class JobContext:
    """One run of a job, as its steps see it. ``budget_tokens`` is what a language model may be sent; 0: no limit."""

    now: datetime
    """when the run began"""
    dry_run: bool
    budget_s: float
    budget_tokens: int = 0
    progress: Progress = no_progress
    done: int = 0
    total: int = 0
    """steps of this run"""
    run: str = ""
    """the name of the run, as `j12`, by which `fusion undo --run` takes its changes of files back"""
    current: str = ""
    """the step that is under way"""
    result: dict[str, Any] = field(default_factory=dict)
    """what the run did so far, for its receipt"""
    _began_s: float = field(default_factory=lambda: asyncio.get_running_loop().time())

    @property
    def took_s(self) -> float:
        """Seconds since the run began; setting the clock does not change them."""
        return asyncio.get_running_loop().time() - self._began_s

    @property
    def left_s(self) -> float:
        """Seconds of the budget that are left."""
        return max(0.0, self.budget_s - self.took_s)

    def report(self, done: int, total: int | None) -> None:
        """Report how far the step that is under way is."""
        self.progress(self.done, self.total, f"{self.current}: {done:,}" + ("" if total is None else f" of {total:,}"))

    def add(self, more: Mapping[str, Any]) -> None:
        """Add the numbers that a step reports to those of the run; other values are left out."""
        for name, value in more.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                self.result[name] = self.result.get(name, 0) + value


@dataclass(frozen=True, slots=True)
class Job:
    """A named job. ``does`` says in one line what it does.

    ``steps`` names its steps, and ``step`` does one; a run does them in the order of their names. Between two steps a
    run may be stopped, and the next one continues there, so a step that was cut short is done again.
    """

    name: str
    does: str
    steps: Callable[[], Awaitable[Sequence[str]]]
    step: Callable[[JobContext, str], Awaitable[None]]
    schedule: Schedule | None = None
    """None: it runs on request only"""
    budget: timedelta = timedelta(minutes=10)
    budget_tokens: int = 0
    dry_run: bool = False
    """whether runs by the schedule only report"""
    catch_up: bool = True
    """whether a slot that passed while no server ran gets a run later"""
