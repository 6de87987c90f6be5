"""The command `fusion`: its commands, grouped by what people do.

Heavy packages are imported when a command needs them, so that `fusion --help` and hooks start at once. With ``--json``
a command prints one line of JSON on stdout, and an error as one line of problem details on stderr. Exit codes: 0 done,
1 failed, 2 wrong usage.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import typer

import fusion as package
from fusion.doors.cli.adapter_commands import Commands
from fusion.doors.cli.ask import fuse, receipt, search
from fusion.doors.cli.audit import audit
from fusion.doors.cli.backup import backup, restore
from fusion.doors.cli.connect_host import connect
from fusion.doors.cli.embed_serve import embed_serve
from fusion.doors.cli.items import app as items
from fusion.doors.cli.jobs import app as jobs
from fusion.doors.cli.logs import logs
from fusion.doors.cli.look import backends, decisions, forgotten, get, memories, status
from fusion.doors.cli.manual import man
from fusion.doors.cli.measure import compare, feedback, tune
from fusion.doors.cli.mem import app as mem
from fusion.doors.cli.migrate import migrate
from fusion.doors.cli.models import app as models
from fusion.doors.cli.pack import pack
from fusion.doors.cli.remember import forget, ingest, remember, state, undo, update
from fusion.doors.cli.review import approve, proposals, propose, reject, triage
from fusion.doors.cli.serve import hook, mcp, open_, pause, resume, serve, statusline, stop, token
from fusion.doors.cli.shepherd import app as shepherd
from fusion.doors.cli.tend import allow, doctor, init, lifecycle, repair
from fusion.doors.cli.transfer import export, import_
from fusion.doors.cli.why import why

GROUPS: Mapping[str, Sequence[Callable[..., None]]] = {
    "Ask": (fuse, pack, search, receipt),
    "Remember": (remember, update, ingest, forget, undo, state),
    "Review": (triage, proposals, propose, approve, reject),
    "Look": (memories, get, why, status, backends, decisions, forgotten, audit, man),
    "Tend": (init, doctor, lifecycle, allow, export, import_, backup, restore, migrate, repair),
    "Measure": (compare, feedback, tune),
    "Serve": (serve, embed_serve, open_, stop, logs, token, connect, pause, resume, mcp, hook, statusline),
}
"""the commands as the help groups them, in each group the most used first"""

INNER: Mapping[str, tuple[str, typer.Typer]] = {
    "items": ("Remember", items),
    "jobs": ("Tend", jobs),
    "mem": ("Look", mem),
    "models": ("Tend", models),
    "shepherd": ("Tend", shepherd),
}
"""the commands that have commands of their own, with their groups in the help"""


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"memory-fusion {package.__version__}")
        raise typer.Exit


def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options before the command. The text of the help is in ``made``."""


def made(only: str = "") -> typer.Typer:
    """All commands; or ``only`` one of them, if there is one of this name and it does not look at the others."""
    every = typer.Typer(
        cls=Commands,
        help="Ask all of an agent's memories at once; get one block that fits its prompt.\n\n"
        "New here? `fusion init` finds your notes and sessions and answers a first question.",
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    every.callback()(common)
    for group, commands in GROUPS.items():
        for command in commands:
            name = command.__name__.rstrip("_").replace("_", "-")
            options = (
                {"ignore_unknown_options": True, "allow_extra_args": True} if command in (hook, statusline) else None
            )
            every.command(name, rich_help_panel=group, context_settings=options)(command)
    for name, (group, inner) in INNER.items():
        every.add_typer(inner, name=name, rich_help_panel=group)
    if only != "man":
        one = [command for command in every.registered_commands if command.name == only]
        inside = [inner for inner in every.registered_groups if inner.name == only]
        if one or inside:
            every.registered_commands, every.registered_groups = one, inside
    return every


app = made()


def main() -> None:
    """The console script. It makes the command that it runs alone: all take a sixth of the time of a short one."""
    name = "" if "_FUSION_COMPLETE" in os.environ else "".join(sys.argv[1:2])
    made(name)(prog_name="fusion")
