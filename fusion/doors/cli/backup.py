"""`fusion backup` and `fusion restore`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fusion.doors.cli.command import Target, command
from fusion.doors.cli.connect import existing, home_of
from fusion.errors import BadInput


@command(without=["direct"])
def backup(
    *,
    to: Annotated[Path, typer.Argument(help="A new folder, or a new file that ends with .tar or .tar.gz.")],
    verify: Annotated[bool, typer.Option("--verify", help="Only check the backup that is there.")] = False,
    target: Target,
) -> None:
    """Back up a home, while it is served, and verify the backup.

    It has the journal, the receipts, the access log, the settings and the recipes of all tenants, the baseline of
    MEMORY.md, and the copies by which changes of files are undone.
    A restored home fills its stores from the journal.
    """
    from fusion.doors.cli import render
    from fusion.gateway.backup import as_json, back_up, note
    from fusion.gateway.backup import verify as checked

    if verify:
        made = checked(to)
    else:
        made = back_up(home := existing(target.home, target.config), to)
        note(home, "backup", made)
    target.show({"backup": str(to), **as_json(made)}, lambda _: render.backed_up(to, made, verified=verify))


@command(without=["direct", "config"])
def restore(
    *,
    source: Annotated[Path, typer.Argument(help="A backup: a folder or an archive.", metavar="BACKUP")],
    force: Annotated[bool, typer.Option("--force", help="Replace the home, which is kept next to it.")] = False,
    target: Target,
) -> None:
    """Restore a backup into a new home, or in the place of one.

    The home must not be served; a server of another home goes on meanwhile.
    """
    from fusion.doors.cli import render
    from fusion.gateway.backup import as_json, note
    from fusion.gateway.backup import restore as restored
    from fusion.trust import why_refused

    if target.home is None:
        raise BadInput("name the folder to restore into: --home FOLDER")
    home = target.home.expanduser().absolute()
    if home.exists() and any(home.iterdir()):
        home = home_of(home, None)
    done = restored(source, home, force=force)
    note(home, "restore", done.backup)
    refused = why_refused(home, named=True)
    result = {"home": done.home, "lost": dict(done.lost), "kept_as": done.kept_as, "backup": as_json(done.backup)}
    target.show(result, lambda _: render.restored(done, refused=bool(refused)))
