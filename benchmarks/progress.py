"""A bar with an estimate of what is left, on stderr; stdout belongs to the figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

Advance = Callable[[int], None]


@contextmanager
def bar(title: str, total: int) -> Iterator[Advance]:
    """Yields what advances the bar by so many steps. Silent where stderr is no terminal."""
    with _progress() as progress:
        task = progress.add_task(title, total=total)
        yield lambda steps: progress.advance(task, steps)


@contextmanager
def steps(titles: Sequence[str]) -> Iterator[Callable[[], None]]:
    """Yields what ends a step, so that the bar goes on with the next one's title."""
    with _progress() as progress:
        task = progress.add_task(titles[0], total=len(titles))
        coming = iter(titles[1:])
        yield lambda: progress.update(task, advance=1, description=next(coming, "done"))


def _progress() -> Progress:
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console, disable=not console.is_terminal)
