"""The command line: parse, ask the home's server, print.

Everything heavy is imported when a command needs it, so that `fusion --help` and a hook's call start at once. With
``--json`` a command prints exactly one line of JSON on stdout, and its error as one line of problem details on stderr.
Exit codes: 0 done, 1 failed, 2 wrong usage.
"""

from __future__ import annotations

from typing import Annotated

import typer

import fusion as package
from fusion.doors.cli.adapter_commands import Commands
from fusion.doors.cli.ask import fuse, receipt, search
from fusion.doors.cli.measure import compare, feedback, tune
from fusion.doors.cli.operate import allow, backends, doctor, hook, init, mcp, repair, serve, status, stop, token
from fusion.doors.cli.remember import forget, forgotten, get, ingest, memories, remember, undo

app = typer.Typer(
    cls=Commands,
    help="Ask all of an agent's memories at once; get one block that fits its prompt.\n\n"
    "New here? `fusion init` finds your notes and sessions and answers a first question.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """The console script."""
    app(prog_name="fusion")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"memory-fusion {package.__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """What every command has; the help's own words stand with ``app``."""


for command in (
    init,
    allow,
    serve,
    stop,
    token,
    fuse,
    compare,
    feedback,
    tune,
    search,
    remember,
    memories,
    get,
    forget,
    forgotten,
    undo,
    backends,
    doctor,
    repair,
    status,
    receipt,
    ingest,
):
    app.command()(command)
app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})(hook)
app.command()(mcp)
