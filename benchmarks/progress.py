"""How far a benchmark is, on stderr; stdout belongs to the figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console

from fusion.doors.cli.progress import Advance, bar, drawn

__all__ = ["Advance", "bar", "steps"]


@contextmanager
def steps(titles: Sequence[str]) -> Iterator[Callable[[], None]]:
    """Yields what ends a step, so that the bar goes on with the next one's title."""
    with drawn(Console(stderr=True)) as progress:
        task = progress.add_task(titles[0], total=len(titles))
        coming = iter(titles[1:])
        yield lambda: progress.update(task, advance=1, description=next(coming, "done"))
