"""Tend: set a home up, find and fix what is wrong with it, allow it to be opened."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from fusion.doors.cli.command import Owner, Target, command
from fusion.doors.cli.connect import existing, fail, gateway, located_home, print_json, settings_of, typed
from fusion.doors.cli.usage import USAGE
from fusion.errors import NotFound, SettingsError


@command(without=["config", "direct"])
def init(
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; use all that is not large.")] = False,
    scan: Annotated[list[Path] | None, typer.Option(help="Also look in this folder. Repeatable.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what was found; write nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace fusion.toml; the old file is kept.")] = False,
    write_workspace: Annotated[
        bool, typer.Option("--write-workspace", help="Let jobs write to the agent's workspace; --yes does not.")
    ] = False,
    target: Target,
) -> None:
    """Set up a home: find notes and sessions, answer a question.

    Looks on this computer, asks what to use, writes the settings, and reads in what you chose.
    """
    from fusion.doors.cli.init import Asking, Unanswered
    from fusion.doors.cli.init import init as set_up
    from fusion.home import locate_home

    located = locate_home(target.home)
    asking = Asking(
        home=located.path,
        named=located.named,
        user=Path.home(),
        cwd=Path.cwd(),
        scan=scan or (),
        yes=yes,
        dry_run=dry_run,
        force=force,
        write_workspace=write_workspace,
        quiet=target.as_json,
        ask=typed if sys.stdin.isatty() and not target.as_json else None,
    )
    for folder in asking.scan:
        if not folder.is_dir():
            raise NotFound(f"--scan {folder}: there is no such folder")
    try:
        result = set_up(asking, lambda: gateway(asking.home, None, new=True))
    except Unanswered as why:
        fail(SettingsError(str(why)), target.as_json, code=USAGE)
    if target.as_json:
        print_json(result)


@command(without=["direct"])
def doctor(*, target: Target) -> None:
    """Find what is wrong with a home, and the command that fixes it.

    Changes nothing.
    """
    from fusion.doors.cli import render
    from fusion.doors.cli.doctor import examine, healthy, report
    from fusion.home import locate_home

    # A configuration that cannot be read is a finding, and must not keep the home from being found.
    located = locate_home(target.home)
    found = examine(located.path, target.config, named=located.named)
    target.show(report(found, located.path), lambda _: render.findings(found))
    if not healthy(found):
        raise typer.Exit(1)


@command(without=["direct"])
async def repair(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done; change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    target: Target,
) -> None:
    """Rebuild a lost or damaged journal.

    It is rebuilt from what can still be read of it and from the stores. The old file is kept.
    """

    from dataclasses import asdict

    from fusion.doors.cli import render
    from fusion.doors.cli.confirm import confirm, require_answer
    from fusion.errors import HomeLocked
    from fusion.gateway.repair import repair as repaired
    from fusion.home import explain_lock, owner

    settings = settings_of(existing(target.home, target.config), target.config)
    if holder := owner(settings.home):
        raise HomeLocked(explain_lock(settings.home, holder, "Stop it first, then repair again"))
    found = await repaired(settings, dry_run=True)
    needed = any(one.needed for one in found)
    if needed and not dry_run:
        require_answer(yes=yes, as_json=target.as_json)
        if not yes:
            render.repairs(found, done=False)
            confirm("Rebuild the journal like this?")
        found = await repaired(settings, dry_run=False)
    tenants = [{**asdict(one), "needed": one.needed} for one in found]
    report = {"home": str(settings.home), "dry_run": dry_run, "needed": needed, "tenants": tenants}
    target.show(report, lambda _: render.repairs(found, done=needed and not dry_run))


@command()
async def lifecycle(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count; change nothing.")] = False,
    ttl_hours: Annotated[
        float | None, typer.Option(help="After which a memory of the lifetime ttl expires; default: as in fusion.toml.")
    ] = None,
    idle_hours: Annotated[
        float | None, typer.Option(help="Without use, after which a session memory decays; default: as in fusion.toml.")
    ] = None,
    delete_expired: Annotated[
        bool | None,
        typer.Option(
            "--delete-expired/--keep-expired",
            help="Delete what expired, which cannot be undone; default: as in fusion.toml.",
        ),
    ] = None,
    archive_unused: Annotated[
        bool | None,
        typer.Option(
            "--archive-unused/--keep-unused",
            help="Archive what no block needed for long, by priority; default: as in fusion.toml.",
        ),
    ] = None,
    owner: Owner,
    target: Target,
) -> None:
    """Expire, decay, retire and merge memories; resolve conflicts.

    It holds for every backend. `fusion decisions` lists what it decided, and `fusion undo ID` takes a decision back.
    """
    from fusion.client import calls
    from fusion.doors.cli import render
    from fusion.doors.cli.progress import bars

    asked = calls.lifecycle(
        dry_run=dry_run,
        ttl_hours=ttl_hours,
        idle_hours=idle_hours,
        delete_expired=delete_expired,
        archive_unused=archive_unused,
        **owner.ids(),
    )
    report: Any = None
    async with target.client() as client:
        with bars(target.as_json) as shown:
            bar = shown.add_task("lifecycle", total=None)
            async for part in client.stream(asked):
                if "progress" in part:
                    shown.update(bar, completed=part["progress"]["done"], total=part["progress"]["total"])
                else:
                    report = part["result"]
    target.show(report, render.lifecycle)


@command(without=["direct"])
def allow(
    *,
    variable: Annotated[
        list[str] | None,
        typer.Option(help="Allow it to send the key in this environment variable. Repeatable."),
    ] = None,
    file: Annotated[list[str] | None, typer.Option(help="Allow it to send the key in this file. Repeatable.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; allow what is shown.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show it; allow nothing.")] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Stop allowing this home.")] = False,
    target: Target,
) -> None:
    """Show what a home that you did not make would do, and allow it.

    Shows the code it would load, the servers it would reach and the files it would read.
    Until you allow it, nothing in it is opened.
    """
    from fusion.doors.cli.allow import agree, lines, view
    from fusion.trust import revoke as forget_home

    located = located_home(target.home, target.config)
    if revoke:
        known = forget_home(located.path)
        line = f"{located.path} {'is no longer allowed' if known else 'was not allowed'}."
        target.show({"home": str(located.path), "revoked": known}, line)
        return
    found = view(located.path, target.config, named=located.named)
    if not target.as_json:
        print("\n".join(lines(found)))
    asked = not (yes or dry_run)
    if asked and (target.as_json or not sys.stdin.isatty()):
        no_terminal = SettingsError("there is no terminal to ask on: add --yes to allow what is shown")
        fail(no_terminal, target.as_json, code=USAGE)
    given = {"variables": variable or (), "files": file or ()}
    done = not dry_run and agree(found, **given, ask=typed if asked else None)
    if target.as_json:
        print_json({**found.as_json(), "allowed": done or not found.why, "dry_run": dry_run})
    elif not dry_run:
        print("Allowed. It is asked again when its settings, recipes or adapters change." if done else "Not allowed.")
    if not (done or dry_run):
        raise typer.Exit(1)
