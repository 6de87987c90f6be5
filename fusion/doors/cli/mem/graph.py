"""The graph: the commands of `fusion mem graph`."""

from __future__ import annotations

import typer

from fusion.doors.cli.mem.facts import app as facts

app = typer.Typer(
    help="Facts with their validity, and the graph of memories.", no_args_is_help=True, add_completion=False
)
app.add_typer(facts, name="fact")
