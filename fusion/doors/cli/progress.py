"""Progress on stderr: a bar with an estimate on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from fusion.doors import terminal

Advance = Callable[[int], None]
LINE_S = 10.0
"""seconds between two lines of progress where there is no terminal"""


@contextmanager
def bar(title: str, total: int, *, quiet: bool = False, transient: bool = False) -> Iterator[Advance]:
    """Yields a function that advances by a number of steps. ``quiet`` prints nothing, ``transient`` removes the bar."""
    console = terminal.console(stderr=True)
    if quiet or not console.is_terminal:
        yield (lambda steps: None) if quiet else Lines(title, total).advance
        return
    with drawn(console, transient=transient) as progress:
        task = progress.add_task(title, total=total)
        yield lambda steps: progress.advance(task, steps)


def bars(quiet: bool) -> Progress:
    """Bars for a terminal, of bytes or of an unknown total; they are removed at the end."""
    return drawn(terminal.console(stderr=True, quiet=quiet), quiet=quiet, counted=False, transient=True)


def spoken_in_lines(progress: Progress) -> bool:
    """Whether progress is printed in lines, because there is no terminal for these bars."""
    return progress.disable and not progress.console.is_terminal and not progress.console.quiet


def drawn(console: Console, *, quiet: bool = False, counted: bool = True, transient: bool = False) -> Progress:
    """Bars for a terminal, with a count or share, the time passed and the time left."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn() if counted else TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    return _in_place(console, *columns, disable=quiet or not console.is_terminal, transient=transient)


def spinner(title: str, quiet: bool) -> Progress:
    """A spinner for a terminal, which ``with`` starts and removes."""
    console = terminal.console(stderr=True, quiet=quiet)
    hidden = quiet or not console.is_terminal
    shown = _in_place(console, SpinnerColumn(), TextColumn("{task.description}"), disable=hidden, transient=True)
    shown.add_task(title, total=None)
    return shown


def _in_place(console: Console, *columns: ProgressColumn, disable: bool, transient: bool) -> Progress:
    """Rich would redirect stdout and stderr to this console: lines for a file would go to the terminal instead, and
    escape sequences of others would come back as colours."""
    return Progress(
        *columns,
        console=console,
        disable=disable,
        transient=transient,
        redirect_stdout=False,
        redirect_stderr=False,
    )


def on_stderr(line: str) -> None:
    """Prints a line on stderr at once."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


class Lines:
    """Progress in lines, at most one in `LINE_S` seconds, and none for what is done sooner."""

    def __init__(
        self,
        title: str,
        total: int,
        say: Callable[[str], None] = on_stderr,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._title, self._total, self._say, self._clock = title, total, say, clock
        self._done = 0
        self._began = self._said = clock()

    def advance(self, steps: int) -> None:
        self._done += steps
        now = self._clock()
        if now - self._said < LINE_S:
            return
        self._said, took = now, now - self._began
        left = f", about {_minutes(took * (self._total - self._done) / self._done)} left" if self._done else ""
        self._say(f"{self._title}: {self._done:,} of {self._total:,} after {_minutes(took)}{left}")


def _minutes(seconds: float) -> str:
    """Minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
