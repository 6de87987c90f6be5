"""Prints tables and lines. Markup in texts is printed literally."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fusion.doors import terminal

if TYPE_CHECKING:
    from fusion import wire

FINE = {"ok", "empty", "ready", "closed", "deleted", "absent"}
LINE_CHARS = 2000
"""maximum characters of a text in a row of a table; no terminal is wider"""
LEAST_COLUMNS = 60
"""minimum width of a table: in a narrower one, Rich leaves columns out and breaks a date into single characters"""
FEW_NAMES = 5
"""maximum names on one line"""


def table(
    titles: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Sequence[int] = (),
    whole: Sequence[int] = (),
) -> None:
    """Prints a table as wide as the terminal, and at least `LEAST_COLUMNS` wide.

    People copy the first column and those that are ``whole``, so these neither wrap nor shrink.
    """
    lines = [[cell if isinstance(cell, Text) else Text(str(cell)) for cell in row] for row in rows]
    console = new_console()
    console.width = max(console.width, LEAST_COLUMNS)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column, title in enumerate(titles):
        kept = column == 0 or column in whole
        table.add_column(
            title,
            justify="right" if column in right else "left",
            overflow="fold",
            no_wrap=kept,
            min_width=max((row[column].cell_len for row in lines if column < len(row)), default=0) if kept else None,
        )
    for row in lines:
        table.add_row(*row)
    if console.is_terminal:
        console.print(table)
    else:  # piped output is compared and pasted: no blanks at the ends of lines
        with console.capture() as printed:
            console.print(table)
        say("\n".join(line.rstrip() for line in printed.get().splitlines()))
    console.print()


def new_console(*, stderr: bool = False) -> Console:
    """A Rich console that prints texts as they are."""
    return terminal.console(highlight=False, markup=False, emoji=False, stderr=stderr)


def say(line: str) -> None:
    """Prints a line as it is, neither wrapped nor marked up."""
    sys.stdout.write(line + "\n")


def warn(line: str) -> None:
    """Prints a remark on stderr, because programs read stdout."""
    sys.stderr.write(f"fusion: {' '.join(line.split())}\n")


def one_line(text: str) -> Text:
    """A text as one line, which a table clips at the end of the terminal."""
    return Text(" ".join(text[:LINE_CHARS].split()), no_wrap=True, overflow="ellipsis")


def status_text(status: str) -> Text:
    return Text(status, "green" if status in FINE else "yellow" if status in ("skipped", "disabled") else "red")


def state_text(row: wire.BackendState) -> Text:
    """The status of a backend; one that answers but is degraded is not called ready."""
    return status_text("degraded" if row["degraded"] and row["status"] in FINE else row["status"])


def first_few(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - FEW_NAMES:,} more" if len(names) > FEW_NAMES else ""
    return ", ".join(names[:FEW_NAMES]) + more


def kinds(counts: Mapping[str, int]) -> list[str]:
    """Numbers of files that are not read, by kind."""
    return [f"{count:,} {kind}" for kind, count in counts.items()]


def size(count: int) -> str:
    """Bytes as people read them: 512 B, 4.1 kB, 18 MB."""
    number, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):  # noqa: B007 — used after the loop
        if number < 1000:
            break
        number /= 1000
    return f"{number:.0f} {unit}" if unit == "B" or number >= 10 else f"{number:.1f} {unit}"
