"""`fusion jobs`: lists the jobs of a home, runs and pauses them, shows their log, and installs timers that run them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from fusion.doors.cli.command import Target, command
from fusion.doors.cli.list_first import ListFirst
from fusion.doors.cli.options import Cursor
from fusion.errors import BadInput

if TYPE_CHECKING:
    from fusion.client import AsyncClient
    from fusion.doors.cli.timers import Kind

JobName = Annotated[str, typer.Argument(help="The name of a job: `fusion jobs` lists them.", metavar="JOB")]


app = typer.Typer(
    cls=ListFirst,
    help="List, run, pause and schedule a home's upkeep.",
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@command()
async def listed(*, target: Target) -> None:
    """List the jobs: when each runs next, and how its last run ended."""
    async with target.client() as client:
        found = await client.jobs()
    from fusion.doors.cli import render

    target.show(found, render.jobs)


@command()
async def run(
    *,
    job: Annotated[str, typer.Argument(help="The name of a job; with --due, all that are due.", metavar="[JOB]")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what it would do; change nothing.")] = False,
    due: Annotated[bool, typer.Option("--due", help="Run it only if its schedule says so. For timers.")] = False,
    target: Target,
) -> None:
    """Run a job now, and show its receipt.

    The server runs it: it goes on if you interrupt this command. Exit code 1 if the run failed.
    """
    if not job and not due:
        raise BadInput("name a job, or add --due for all that are due; `fusion jobs` lists them")
    if dry_run and due:
        raise BadInput("--dry-run and --due do not go together: a dry run is not a run of the schedule")
    from fusion.doors.cli import render

    async with target.client() as client:
        names = [job] if job else [one["name"] for one in (await client.jobs())["jobs"]]
        ran = [await _run(client, name, dry_run=dry_run, due=due, quiet=target.as_json) for name in names]
    runs = [one for one in ran if one is not None]
    target.show({"runs": runs}, lambda _: render.ran(runs))
    if any(one["status"] == "failed" for one in runs):
        raise typer.Exit(1)


async def _run(client: AsyncClient, job: str, *, dry_run: bool, due: bool, quiet: bool) -> Any:
    """The run of a job, with a bar on a terminal; None if the job was not due."""
    from fusion.client import calls
    from fusion.doors.cli.progress import bars

    found = None
    with bars(quiet) as shown:
        bar = shown.add_task(job, total=None)
        async for part in client.stream(calls.run_job(job, dry_run=dry_run, due=due)):
            if "progress" in part:
                now = part["progress"]
                name = f"{job} {now['note']}" if now.get("note") else job
                shown.update(bar, description=name, completed=now["done"], total=now["total"])
            else:
                found = part["result"]["run"]
    return found


@command()
async def pause(*, job: JobName, target: Target) -> None:
    """Stop running a job by its schedule."""
    async with target.client() as client:
        found = await client.pause_job(job)
    target.show(found, f"{job} is paused. It still runs on request; `fusion jobs resume {job}` ends the pause.")


@command()
async def resume(*, job: JobName, target: Target) -> None:
    """Run a paused job by its schedule again."""
    async with target.client() as client:
        found = await client.resume_job(job)
    from fusion.doors.cli import render

    following = "never: its schedule is off" if found["next"] is None else render.minute(found["next"])
    target.show(found, f"{job} runs by its schedule again, next: {following}.")


@command()
async def log(
    *,
    job: Annotated[str, typer.Argument(help="Only runs of this job.", metavar="[JOB]")] = "",
    limit: Annotated[int, typer.Option(min=1, max=100, help="Number of runs on a page.")] = 20,
    cursor: Cursor = None,
    target: Target,
) -> None:
    """List the runs of jobs, the latest first."""
    async with target.client() as client:
        page = await client.job_log(job or None, limit=limit, cursor=cursor)
    from fusion.doors.cli import render

    target.show(page, render.job_log)


@command(without=["direct"])
async def install(
    *,
    systemd: Annotated[bool, typer.Option("--systemd", help="Units for systemd, in ~/.config/systemd/user.")] = False,
    launchd: Annotated[bool, typer.Option("--launchd", help="Agents for macOS, in ~/Library/LaunchAgents.")] = False,
    cron: Annotated[bool, typer.Option("--cron", help="Lines in your crontab.")] = False,
    compose: Annotated[bool, typer.Option("--compose", help="A service for compose, in a file here.")] = False,
    uninstall: Annotated[bool, typer.Option("--uninstall", help="Remove the timers of this home.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the files; write nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Replace files without asking.")] = False,
    target: Target,
) -> None:
    """Write timers for this user that run the jobs when no server is up at night.

    They call `fusion jobs run JOB --due`, which starts the server if none runs. Nothing is written as root, and no
    secret is in the files. Run it again after you change a schedule.
    """
    from fusion.doors.cli import install as installing

    chosen: dict[Kind, bool] = {"systemd": systemd, "launchd": launchd, "cron": cron, "compose": compose}
    kinds = [kind for kind, on in chosen.items() if on]
    if len(kinds) != 1:
        raise BadInput(f"choose one of {', '.join(f'--{kind}' for kind in chosen)}")
    jobs = None
    if not uninstall:
        async with target.client() as client:
            jobs = (await client.jobs())["jobs"]
    plan = installing.plan(kinds[0], jobs, target, dry_run=dry_run)
    installing.carry_out(plan, dry_run=dry_run, yes=yes, as_json=target.as_json)


for name, function in {
    "list": listed,
    "run": run,
    "pause": pause,
    "resume": resume,
    "log": log,
    "install": install,
}.items():
    app.command(name)(function)
