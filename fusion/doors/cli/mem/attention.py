"""What needs attention: `fusion mem triage`. What waits for a person is decided with `fusion triage`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from fusion.doors.cli.command import Owner, Target, command
from fusion.doors.cli.mem.rows import ledger_of
from fusion.doors.terminal import plain

ATTENTION = 10
"""exit code if something new needs attention"""
STATE = "openclaw-mem-triage.json"
"""the file of a home that names what was reported"""


@command()
async def triage(
    *,
    mode: Annotated[
        Literal["heartbeat", "observations", "cron-errors", "tasks"],
        typer.Option(help="What to look at: heartbeat is all of it, and what waits for a person."),
    ] = "heartbeat",
    since_minutes: Annotated[int, typer.Option(min=0, max=5_000_000, help="How far back, for observations.")] = 60,
    tasks_since_minutes: Annotated[int, typer.Option(min=0, max=5_000_000, help="How far back, for tasks.")] = 1440,
    limit: Annotated[int, typer.Option(min=1, max=200, help="The most matches of each kind.")] = 10,
    keywords: Annotated[str | None, typer.Option(help="Words of observations to report: error,failed.")] = None,
    importance_min: Annotated[float, typer.Option(min=0, max=1, help="The least importance of a task.")] = 0.7,
    state_path: Annotated[Path | None, typer.Option(help="The file of what was reported; one in the home.")] = None,
    no_dedupe: Annotated[bool, typer.Option("--no-dedupe", help="Also report what was reported before.")] = False,
    owner: Owner,
    target: Target,
) -> None:
    """Report what is new and needs attention. Exit code 10 if something is, 0 if all is quiet."""
    from fusion.doors.compat.openclaw_mem.triage import KEYWORDS, Asked
    from fusion.doors.compat.openclaw_mem.triage import triage as found

    words = [word.strip().casefold() for word in (keywords or "").split(",") if word.strip()]
    state = None if no_dedupe else (state_path or target.folder() / STATE)
    asked = Asked(mode, since_minutes, tasks_since_minutes, limit, words or KEYWORDS, importance_min, state)
    async with target.client() as client:
        shown = await found(ledger_of(client, owner.ids()), asked)
    lines = [
        plain(f"{name}  {one.get('recordRef') or one['id']}  {one.get('summary') or one.get('why')}")
        for name in ("observations", "cron", "tasks", "review")
        for one in shown[name]["matches"]
    ]
    target.show(shown, "\n".join(lines) or "nothing new needs attention")
    if shown["needs_attention"]:
        raise typer.Exit(ATTENTION)
