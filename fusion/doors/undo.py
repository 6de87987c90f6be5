"""`fusion undo`: show what an ingest added, ask, and take it back in pages with a bar."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from fusion.doors import show, terminal
from fusion.doors.progress import bar
from fusion.errors import BadInput

if TYPE_CHECKING:
    from fusion import wire
    from fusion.client import AsyncClient

PAGE = 500


async def undo(
    client: AsyncClient, batch: str | None, scope: Mapping[str, Any], *, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Takes back what one ingest added, by default the last one. Raises NotFound where there is no such ingest."""
    preview = await client.undo(batch, dry_run=True, **scope)
    if as_json and not (dry_run or yes):
        raise BadInput("with --json nobody is asked: look with --dry-run first, then add --yes")
    if not as_json:
        show.to_forget(preview["found"])
        more = preview["left"] - len(preview["found"])
        _say(f"…and {more:,} more." if more > 0 else "")
    if dry_run:
        _print(preview) if as_json else _say(f"{_memories(preview['left'])} of {preview['batch']} would be taken back.")
        return
    if not yes and not typer.confirm(f"Take back {_memories(preview['left'])} of ingest {preview['batch']}?"):
        raise typer.Exit(1)
    undone = await _in_pages(client, preview, scope, quiet=as_json)
    if as_json:
        _print({**preview, "dry_run": False, "undone": undone, "left": 0})
    else:
        _say(f"{_memories(undone)} taken back; the backends delete them in the background.")
        _say(
            "`fusion ingest` of the same files remembers them again. So does the next start of the server, for a "
            "folder that is in `paths` of [notes]: take it out there to keep them away."
        )


def _memories(count: int) -> str:
    return "1 memory" if count == 1 else f"{count:,} memories"


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
        show.batches(reply)


def _say(line: str) -> None:
    if line:
        sys.stdout.write(line + "\n")


def _print(content: Mapping[str, object]) -> None:
    sys.stdout.write(terminal.json_line(content))
