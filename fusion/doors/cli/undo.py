"""`fusion undo`: shows what an ingest added, asks, and takes it back in pages with a bar."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from fusion.doors.cli.confirm import confirm, preview, require_answer
from fusion.doors.cli.connect import print_json
from fusion.doors.cli.plural import counted
from fusion.doors.cli.progress import bar
from fusion.errors import BadInput
from fusion.journal.versions import is_update

if TYPE_CHECKING:
    from fusion import wire
    from fusion.client import AsyncClient

PAGE = 500
"""maximum memories in one request; between two requests the bar moves"""
SHOWN = 10
"""maximum refs that are current again, in the line that names them"""
LISTED = 100
"""maximum ingests, and forgotten memories, that are searched; the newest first"""


async def undo_batch(
    client: AsyncClient, batch: str | None, scope: Mapping[str, Any], *, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Takes back what one ingest added, by default the last one. Raises NotFound for an unknown ingest.

    Raises BadInput where ``yes`` and the default meet an ingest that is older than one that was taken back already:
    somebody who runs the same command twice may want to take back one ingest only.
    """
    found = await client.undo(batch, dry_run=True, **scope)
    row = next(
        (one for one in (await client.batches(limit=LISTED, **scope))["batches"] if one["id"] == found["batch"]), None
    )
    name = described(found, row)
    undone_since = batch is None and row is not None and await _undone_since(client, row, scope)
    if undone_since and yes and not dry_run:
        raise BadInput(
            f"the last ingest was taken back before. The one before it is {name}. To take that back as well: "
            f"fusion undo {found['batch']}"
        )
    if not dry_run:
        require_answer(yes=yes, as_json=as_json)
    if not as_json:
        preview(found["found"], found["left"])
    if dry_run:
        print_json(found) if as_json else print(f"Would be taken back: {name}.")
        return
    if not as_json:
        what = "Update" if is_update(found["batch"]) else "Ingest"
        print(f"A later ingest was taken back before. This one is {name}." if undone_since else f"{what} {name}.")
    if not yes:
        confirm(f"Take back {counted(found['left'], 'memory')}?")
    undone, restored = await _undo_pages(client, found, scope, quiet=as_json)
    if as_json:
        print_json({**found, "dry_run": False, "undone": undone, "left": 0, "restored": restored})
        return
    print(f"{counted(undone, 'memory')} of {found['batch']} taken back; the backends delete them in the background.")
    if restored:
        more = f" and {len(restored) - SHOWN} more" if len(restored) > SHOWN else ""
        print(f"Current again: {', '.join(restored[:SHOWN])}{more}.")
    if is_update(found["batch"]):
        return
    print(
        "`fusion ingest` of the same files remembers them again. So does the next start of the server, for a "
        "folder that is in `paths` of [notes]: take it out there to keep them away."
    )


def described(found: wire.Undone, row: wire.Batch | None) -> str:
    """An ingest by its id, its time, its files and the number of memories that it added."""
    memories = counted(found["left"], "memory")
    if row is None:
        return f"{found['batch']}: {memories}"
    files = row["first"] if row["first"] == row["last"] else f"{row['first']} … {row['last']}"
    began = row["at"][:16].replace("T", " ")
    return f"{found['batch']} of {began} UTC: {memories}" + (f" from {files}" if files else "")


async def _undone_since(client: AsyncClient, row: wire.Batch, scope: Mapping[str, Any]) -> bool:
    """Whether an ingest was taken back after this one was made."""
    page = await client.forgotten(limit=LISTED, user_id=scope.get("user_id"))
    began = datetime.fromisoformat(row["at"])
    return any(one["by"] == "undo" and datetime.fromisoformat(one["at"]) > began for one in page["forgotten"])


async def _undo_pages(
    client: AsyncClient, found: wire.Undone, scope: Mapping[str, Any], *, quiet: bool
) -> tuple[int, list[str]]:
    """How many memories were taken back, and the refs that are current again."""
    undone, left, restored = 0, found["left"], list[str]()
    with bar("taking back", left, quiet=quiet or left <= PAGE, transient=True) as advance:
        while left:
            page = await client.undo(found["batch"], limit=PAGE, **scope)
            undone, left = undone + page["undone"], page["left"]
            restored += page.get("restored", ())  # a server of an earlier version does not say
            advance(page["undone"])
    return undone, restored
