"""`fusion undo`: show what an ingest added, ask, and take it back in pages with a bar."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from fusion.doors import terminal
from fusion.doors.cli import render
from fusion.doors.cli.plural import counted
from fusion.doors.cli.progress import bar
from fusion.errors import BadInput

if TYPE_CHECKING:
    from fusion import wire
    from fusion.client import AsyncClient

PAGE = 500
LISTED = 100
"""ingests, and what was forgotten last, that are looked through"""


async def undo(
    client: AsyncClient, batch: str | None, scope: Mapping[str, Any], *, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Takes back what one ingest added, by default the last one. Raises NotFound where there is no such ingest.

    With ``yes``, the last one is not taken back when a later one was: BadInput, which names it. Whoever gives the same
    command twice may mean one ingest.
    """
    preview = await client.undo(batch, dry_run=True, **scope)
    row = next(
        (one for one in (await client.batches(limit=LISTED, **scope))["batches"] if one["id"] == preview["batch"]), None
    )
    what = named(preview, row)
    undone_since = batch is None and row is not None and await _undone_since(client, row, scope)
    if undone_since and yes and not dry_run:
        raise BadInput(
            f"the last ingest was taken back before. The one before it is {what}. To take that back as well: "
            f"fusion undo {preview['batch']}"
        )
    if as_json and not (dry_run or yes):
        raise BadInput("with --json nobody is asked: look with --dry-run first, then add --yes")
    if not as_json:
        render.to_forget(preview["found"])
        more = preview["left"] - len(preview["found"])
        _say(f"…and {more:,} more." if more > 0 else "")
    if dry_run:
        _print(preview) if as_json else _say(f"Would be taken back: {what}.")
        return
    if not as_json:
        _say(f"A later ingest was taken back before. This one is {what}." if undone_since else f"Ingest {what}.")
    if not yes and not typer.confirm(f"Take back {counted(preview['left'], 'memory')}?"):
        raise typer.Exit(1)
    undone = await _in_pages(client, preview, scope, quiet=as_json)
    if as_json:
        _print({**preview, "dry_run": False, "undone": undone, "left": 0})
    else:
        _say(
            f"{counted(undone, 'memory')} of {preview['batch']} taken back; the backends delete them in the background."
        )
        _say(
            "`fusion ingest` of the same files remembers them again. So does the next start of the server, for a "
            "folder that is in `paths` of [notes]: take it out there to keep them away."
        )


def named(preview: wire.Undone, row: wire.Batch | None) -> str:
    """An ingest by its id, its time, its files and how much it added."""
    memories = counted(preview["left"], "memory")
    if row is None:
        return f"{preview['batch']}: {memories}"
    files = row["first"] if row["first"] == row["last"] else f"{row['first']} … {row['last']}"
    return f"{preview['batch']} of {row['at'][:16].replace('T', ' ')} UTC: {memories}" + (
        f" from {files}" if files else ""
    )


async def _undone_since(client: AsyncClient, row: wire.Batch, scope: Mapping[str, Any]) -> bool:
    """Whether an ingest was taken back after this one was made."""
    page = await client.forgotten(limit=LISTED, user_id=scope.get("user_id"))
    began = datetime.fromisoformat(row["at"])
    return any(one["by"] == "undo" and datetime.fromisoformat(one["at"]) > began for one in page["forgotten"])


async def _in_pages(client: AsyncClient, preview: wire.Undone, scope: Mapping[str, Any], *, quiet: bool) -> int:
    undone, left = 0, preview["left"]
    with bar("taking back", left, quiet=quiet or left <= PAGE, transient=True) as advance:
        while left:
            page = await client.undo(preview["batch"], limit=PAGE, **scope)
            undone, left = undone + page["undone"], page["left"]
            advance(page["undone"])
    return undone


async def listed(client: AsyncClient, scope: Mapping[str, Any], *, as_json: bool) -> None:
    """Prints the ingests that can be undone."""
    reply = await client.batches(**scope)
    if as_json:
        _print(reply)
    else:
        render.batches(reply)


def _say(line: str) -> None:
    if line:
        sys.stdout.write(line + "\n")


def _print(content: Mapping[str, object]) -> None:
    sys.stdout.write(terminal.json_line(content))
