"""Lines of observations: `fusion mem ingest` and `fusion mem harvest`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from fusion.doors.cli.command import Owner, Target, command
from fusion.errors import BadInput


@command()
async def ingest(
    *,
    file: Annotated[Path | None, typer.Option(help="A file of JSONL; without one, standard input is read.")] = None,
    owner: Owner,
    target: Target,
) -> None:
    """Take observations of openclaw-mem into the episodes, one a line.

    A line that is none is counted, and the exit code is 1 then; the others are stored.
    """
    from fusion.contract import Scope
    from fusion.doors.compat.openclaw_mem.ingest import ingested

    if file is not None and not file.is_file():
        raise BadInput(f"--file: there is no file {file}")
    scope = Scope(user_id=owner.user, agent_id=owner.agent, session_id=owner.session)
    async with target.client() as client:
        if file is None:
            done = await ingested(client, scope, sys.stdin.buffer, "stdin")
        else:
            with file.open("rb") as lines:
                done = await ingested(client, scope, lines, file.name)
    target.show(
        done, f"{done['inserted']:,} stored, {done['duplicates']:,} known, {done['rejected']:,} rejected{_first(done)}"
    )
    if done["rejected"]:
        raise typer.Exit(1)


@command()
async def harvest(
    *,
    source: Annotated[
        Path | None, typer.Option(help="The file of JSONL; by default that of OpenClaw's plugin.")
    ] = None,
    archive_dir: Annotated[Path | None, typer.Option(help="Where it goes; without a folder it is deleted.")] = None,
    owner: Owner,
    target: Target,
) -> None:
    """Take in a file of observations, and then move it to a folder or delete it.

    `fusion mem ingest --file` leaves the file alone, and `\\[episodes] paths` follows files by itself.
    """
    from fusion.contract import Scope
    from fusion.doors.compat.openclaw_mem.ingest import SOURCE, harvested

    scope = Scope(user_id=owner.user, agent_id=owner.agent, session_id=owner.session)
    async with target.client() as client:
        done = await harvested(client, scope, (source or SOURCE).expanduser(), archive_dir)
    kept = (
        f"; kept, with lines that are no observations: {', '.join(done['kept'])}{_first(done)}" if done["kept"] else ""
    )
    target.show(done, f"{done['ingested']:,} stored of {done['total_seen']:,}{kept}")
    if done["kept"]:
        raise typer.Exit(1)


def _first(done: Mapping[str, Any]) -> str:
    """Where the first line is that was rejected, and why; --json lists more."""
    return "".join(f"; line {one['line']}: {one['reason']}" for one in done["rejections"][:1])
