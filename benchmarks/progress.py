"""How far a benchmark is, on stderr; stdout belongs to the figures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console

from fusion.doors.cli.progress import Advance, bar, drawn

__all__ = ["Advance", "bar", "steps"]


@contextmanager
def steps(titles: Sequence[str]) -> Iterator[Callable[[], None]]:
    """Yields what ends a step: the bar goes on with the next one's title. Elsewhere than on a terminal it is a line."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(titles, console)
        return
    with drawn(console) as progress:
        task = progress.add_task(titles[0], total=len(titles))
        coming = iter(titles[1:])
        yield lambda: progress.update(task, advance=1, description=next(coming, "done"))


def _lines(titles: Sequence[str], console: Console) -> Callable[[], None]:
    """What prints the title of a step that has ended, and its seconds."""
    left = iter(enumerate(titles, start=1))
    began = time.monotonic()

    def done() -> None:
        nonlocal began
        number, title = next(left)
        now = time.monotonic()
        console.print(f"{number}/{len(titles)} {title}: {now - began:.0f} s", highlight=False)
        began = now

    return done
