"""`fusion shepherd`: how far MEMORY.md has drifted from its baseline, and the commands that change either.

The baseline is promoted here, and in the inspector that `fusion open` has opened. No tool, no job and no call of a
client does it, so a program with a key for the server cannot.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fusion.doors.cli.command import Target, command
from fusion.errors import BadInput
from fusion.lib.diff import diff_of

if TYPE_CHECKING:
    from fusion.upkeep.shepherd import Baseline, Shepherd

app = typer.Typer(
    help="Keep MEMORY.md from drifting away from a baseline that you approve.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change; change nothing.")]


@command()
async def diff(*, target: Target) -> None:
    """Show how MEMORY.md differs from its baseline, and what the job would do about it."""
    shepherd = _of(target)
    baseline = _required(shepherd)
    lines = diff_of(baseline.text, _text(shepherd), "baseline", "MEMORY.md")
    async with target.client() as client:
        run = (await client.run_job("shepherd", dry_run=True))["run"]
    result: dict[str, Any] = run["receipt"].get("result", {}) if run is not None else {}
    shown: dict[str, Any] = {
        name: result[name] for name in ("drift", "would_be_restored", "would_be_reported") if name in result
    }
    found: dict[str, Any] = {"path": _path(shepherd), "baseline": _about(baseline), "diff": lines, **shown}
    target.show(found, "\n".join([*lines, *shown.values()]))


@command(without=["direct"])
def promote(*, yes: Yes = False, dry_run: DryRun = False, target: Target) -> None:
    """Make MEMORY.md as it is now the baseline, after you have seen what changes.

    Read what is shown: from now on it is what the shepherd protects and brings back.
    """
    shepherd = _of(target)
    earlier = shepherd.baseline(damaged=True)
    read = shepherd.workspace.read("MEMORY.md")
    lines = diff_of("" if earlier is None else earlier.text, read.text, "baseline", "MEMORY.md")
    report = {"path": _path(shepherd), "dry_run": dry_run, "diff": lines, "promoted": None}
    if not lines and earlier is not None:
        target.show({**report, "promoted": _about(earlier)}, "MEMORY.md is the baseline already.")
        return
    if not dry_run:
        _ask("Make this the baseline?", lines, yes=yes, target=target)
        report["promoted"] = _about(shepherd.promote(datetime.now(UTC), read.hash))
    said = "It would be the baseline." if dry_run else f"MEMORY.md of {shepherd.workspace.root} is the baseline now."
    target.show(report, "\n".join([*(lines if dry_run else ()), said]))


@command(without=["direct"])
def undo_promotion(*, yes: Yes = False, dry_run: DryRun = False, target: Target) -> None:
    """Make the baseline before the last promotion the baseline again; MEMORY.md stays as it is."""
    shepherd = _of(target)
    now, earlier = _required(shepherd), shepherd.earlier()
    if earlier is None:
        raise BadInput("this baseline has no earlier one to go back to")
    report: dict[str, Any] = {"path": _path(shepherd), "dry_run": dry_run, "promoted": None}
    if dry_run:
        target.show(report, f"The baseline of {earlier:%Y-%m-%d %H:%M} UTC would hold again.")
        return
    _ask(f"Make the baseline of {earlier:%Y-%m-%d %H:%M} UTC hold again?", [], yes=yes, target=target)
    report["promoted"] = _about(shepherd.undo_promotion(now.hash))
    target.show(report, f"The baseline of {earlier:%Y-%m-%d %H:%M} UTC holds again.")


@command(without=["direct"])
def restore(*, yes: Yes = False, dry_run: DryRun = False, target: Target) -> None:
    """Bring the baseline's lines back into MEMORY.md, also those that were changed by hand; new lines stay.

    The file as it is now is archived first, and `fusion undo` takes the restore back.
    """
    shepherd = _of(target)
    _required(shepherd)
    look = shepherd.look(keep=False)
    if look is None or look.unreadable:
        raise BadInput(look.unreadable if look else "there is no baseline")
    lines = diff_of(look.text, shepherd.restored(look, by_hand_too=True), "MEMORY.md", "restored")
    report: dict[str, Any] = {"path": _path(shepherd), "dry_run": dry_run, "diff": lines, "incident": None}
    if not lines:
        target.show(report, "MEMORY.md has all of its baseline.")
        return
    if dry_run:
        target.show(report, "\n".join(lines))
        return
    _ask("Restore it like this?", lines, yes=yes, target=target)
    done = shepherd.restore_by_hand(look, datetime.now(UTC))
    report["incident"] = asdict(done)
    target.show(report, f"Restored. What it was is in {done.archived}\nTo take it back: fusion undo {done.change}")


@command(without=["direct"])
def incidents(*, target: Target) -> None:
    """List what drifted, when and why, and what was done; the latest first."""
    from fusion.upkeep.shepherd import described

    shepherd = _of(target)
    found = shepherd.incidents()[::-1]
    lines = []
    for one in found:
        lines.append(f"{one.number}  {described(one)}")
        lines += [f"   what it was: {one.archived}; to take it back: fusion undo {one.change}"] if one.change else []
    target.show({"incidents": [asdict(one) for one in found]}, "\n".join(lines) or "No incident so far.")


for function in (diff, promote, undo_promotion, restore, incidents):
    app.command(function.__name__.replace("_", "-"))(function)


def _of(target: Target) -> Shepherd:
    """The shepherd of this home. Raises BadInput where no workspace may be written to."""
    from fusion.gateway.shepherding import required_shepherd

    return required_shepherd(target.settings())


def _required(shepherd: Shepherd) -> Baseline:
    baseline = shepherd.baseline()
    if baseline is None:
        raise BadInput("there is no baseline yet: fusion shepherd promote makes one of MEMORY.md")
    return baseline


def _text(shepherd: Shepherd) -> str:
    return shepherd.workspace.read("MEMORY.md").text


def _path(shepherd: Shepherd) -> str:
    return str(shepherd.workspace.root / "MEMORY.md")


def _about(baseline: Baseline) -> dict[str, str]:
    return {"at": baseline.at.isoformat(), "sha256": baseline.hash}


def _ask(question: str, lines: list[str], *, yes: bool, target: Target) -> None:
    """Show a diff and ask; ends the command after a no."""
    from fusion.doors.cli.confirm import confirm, require_answer

    require_answer(yes=yes, as_json=target.as_json)
    if not target.as_json:
        print("\n".join(lines))
    if not yes:
        confirm(question)
