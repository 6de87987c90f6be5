"""Importance: `fusion mem grade`."""

from __future__ import annotations

from typing import Annotated

import typer

from fusion import wire
from fusion.doors.cli.command import Owner, Target, command


@command()
async def grade(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count; change nothing.")] = False,
    scorer: Annotated[
        str | None, typer.Option(help="heuristic-v1, or off to count only; default: as in fusion.toml.")
    ] = None,
    owner: Owner,
    target: Target,
) -> None:
    """Give memories without an importance one by rules.

    What has an importance is left as it is. `fusion undo --run` takes a run back.
    """
    async with target.client() as client:
        report = await client.grade(dry_run=dry_run, scorer=scorer, **owner.ids())
    target.show(report, _worded(report))


def _worded(report: wire.GradeReport) -> str:
    done = "would get" if report["dry_run"] else "got"
    labels = ", ".join(f"{count:,} {label}" for label, count in report["label_counts"].items())
    skipped = f"{report['skipped_existing']:,} had one, {report['skipped_disabled']:,} are not graded"
    lines = [
        f"{report['graded_filled']:,} of {report['total_seen']:,} memories {done} an importance; {skipped}.",
        f"{'Then' if report['dry_run'] else 'Now'}: {labels}.",
    ]
    if report["scorer_errors"]:
        lines.append(f"! {report['scorer_errors']:,} could not be graded; the log of the server names them.")
    if report["unfinished"]:
        lines.append("! The time was up; run it again to go on.")
    if report["run"]:
        lines.append(f"To take all of them back: fusion undo --run {report['run']}")
    return "\n".join(lines)
