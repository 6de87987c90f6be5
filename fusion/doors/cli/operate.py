"""Operating: a home set up, served, stopped, looked at; and the doors for agents."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fusion.doors.cli.connect import (
    existing,
    fail,
    friendly,
    gateway,
    home_of,
    print_json,
    run,
    say_if_new,
    settings_of,
    typed,
)
from fusion.doors.cli.options import Agent, Config, Direct, Home, Json, Project, Session, User
from fusion.doors.cli.usage import USAGE
from fusion.errors import BadInput, NotFound, SettingsError


def init(
    home: Home = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing; take what is sensible.")] = False,
    scan: Annotated[list[Path] | None, typer.Option(help="Look in this folder, too; may be given again.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only look and show; write nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write fusion.toml anew; the old one is kept.")] = False,
    as_json: Json = False,
) -> None:
    """Find notes, sessions and servers here; set a home up; answer a first question."""
    with friendly(as_json):
        from fusion.doors.cli.init import Asking, Unanswered
        from fusion.doors.cli.init import init as set_up
        from fusion.home import locate_home

        located = locate_home(home)
        asking = Asking(
            home=located.path,
            named=located.named,
            user=Path.home(),
            cwd=Path.cwd(),
            scan=scan or (),
            yes=yes,
            dry_run=dry_run,
            force=force,
            quiet=as_json,
            ask=typed if sys.stdin.isatty() and not as_json else None,
        )
        for folder in asking.scan:
            if not folder.is_dir():
                raise NotFound(f"--scan {folder}: there is no such folder")
        try:
            told = set_up(asking, lambda: gateway(asking.home, None, new=True))
        except Unanswered as why:
            fail(SettingsError(str(why)), as_json, code=USAGE)
        if as_json:
            print_json(told)


def allow(
    home: Home = None,
    config: Config = None,
    variable: Annotated[
        list[str] | None, typer.Option(help="Let its settings send the key in this environment variable; again, too.")
    ] = None,
    file: Annotated[
        list[str] | None, typer.Option(help="Let its settings send the key in this file; again, too.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing; allow what is shown.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show; allow nothing.")] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Take it back: the home is not opened any more.")] = False,
    as_json: Json = False,
) -> None:
    """Show what a home would load, reach and read; allow it. A home that you did not make is only data until then."""
    with friendly(as_json):
        from fusion.doors.cli.allow import agree, lines, view
        from fusion.doors.cli.connect import located_home
        from fusion.trust import revoke as forget_home

        located = located_home(home, config)
        if revoke:
            known = forget_home(located.path)
            told = "is not allowed any more" if known else "was not recorded"
            print_json({"home": str(located.path), "revoked": known}) if as_json else print(f"{located.path} {told}.")
            return
        found = view(located.path, config, named=located.named)
        if not as_json:
            print("\n".join(lines(found)))
        asked = not (yes or dry_run)
        if asked and (as_json or not sys.stdin.isatty()):
            fail(
                SettingsError("there is no terminal to ask on: pass --yes to allow what is shown"), as_json, code=USAGE
            )
        given = {"variables": variable or (), "files": file or ()}
        done = not dry_run and agree(found, **given, ask=typed if asked else None)
        if as_json:
            print_json({**found.as_json(), "allowed": done or not found.why, "dry_run": dry_run})
        elif not dry_run:
            print(
                "Allowed. It is asked again when its settings, recipes or adapters change." if done else "Not allowed."
            )
    if not (done or dry_run):
        raise typer.Exit(1)


def serve(
    home: Home = None,
    config: Config = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on. Other than loopback wants an API key.")
    ] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="0 takes a free one.")] = None,
    idle_exit: Annotated[
        float | None, typer.Option(min=0, help="Leave after so many seconds without a request.")
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Let every user and program of this computer in; on loopback only.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Serve a home until told to stop."""
    with friendly(as_json):
        from fusion.doors.http.serve import serve as run

        settings = settings_of(home, config)
        say_if_new(settings.home, home)
        given = {"host": host, "port": port, "idle_exit_s": idle_exit}
        changes: dict[str, object] = {name: value for name, value in given.items() if value is not None}
        if no_token:
            changes["open_to_local_users"] = True
        settings = settings.model_copy(update={"server": settings.server.model_copy(update=changes)})

        def ready(url: str) -> None:
            if as_json:
                print_json({"url": url, "home": str(settings.home)})
            else:
                print(f"memory-fusion serves {settings.home} on {url}", file=sys.stderr, flush=True)

        run(settings, on_ready=ready)


def token(home: Home = None, config: Config = None, as_json: Json = False) -> None:
    """Print the token that requests to a home's server need: -H "authorization: Bearer $(fusion token)"."""
    with friendly(as_json):
        from fusion.trust import make_home
        from fusion.trust.token import home_token

        folder = home_of(home, config)
        if not folder.is_dir():
            raise NotFound(f"There is no home {folder}. To make one: fusion init")
        found = home_token(make_home(folder))
        if as_json:
            print_json({"home": str(folder), "token": found})
        else:
            print(found)


def stop(home: Home = None, config: Config = None, as_json: Json = False) -> None:
    """Stop the server of a home, when it has finished what it is doing."""
    with friendly(as_json):
        from fusion.client import stop_server

        folder = home_of(home, config)
        record = stop_server(folder)
        if as_json:
            print_json({"home": str(folder), "stopped": record is not None})
        else:
            print(f"Stopped the server of {folder}." if record else f"No server runs for {folder}.")


def repair(
    home: Home = None,
    config: Config = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Make a lost or damaged journal anew from what is left of it and from the stores. The old file is kept."""

    async def work() -> None:
        from dataclasses import asdict

        from fusion.doors.cli import render
        from fusion.errors import HomeLocked
        from fusion.gateway.repair import repair as repaired
        from fusion.home import explain_lock, owner

        settings = settings_of(existing(home, config), config)
        if holder := owner(settings.home):
            raise HomeLocked(explain_lock(settings.home, holder, "Stop it first, then repair again"))
        found = await repaired(settings, dry_run=True)
        needed = any(one.needed for one in found)
        if needed and not dry_run:
            if not yes and as_json:
                raise BadInput("with --json nobody is asked: look with --dry-run first, then add --yes")
            if not yes:
                render.repairs(found, done=False)
                if not typer.confirm("Make the journal anew so?"):
                    raise typer.Exit(1)
            found = await repaired(settings, dry_run=False)
        if as_json:
            tenants = [{**asdict(one), "needed": one.needed} for one in found]
            print_json({"home": str(settings.home), "dry_run": dry_run, "needed": needed, "tenants": tenants})
        else:
            render.repairs(found, done=needed and not dry_run)

    run(work(), as_json)


def backends(home: Home = None, config: Config = None, direct: Direct = False, as_json: Json = False) -> None:
    """Every backend: how it is, and what it holds."""

    async def ask() -> None:
        async with gateway(home, config, direct=direct) as client:
            found = await client.backends()
        if as_json:
            print_json(found)
        else:
            from fusion.doors.cli import render

            render.backends(found)

    run(ask(), as_json)


def doctor(home: Home = None, config: Config = None, as_json: Json = False) -> None:
    """What is wrong with a home, and the command that fixes it. Changes nothing."""
    with friendly(as_json):
        from fusion.doors.cli.doctor import examine, healthy, report
        from fusion.home import locate_home

        # A configuration that cannot be read is a finding, and must not keep the home from being found.
        located = locate_home(home)
        folder = located.path
        found = examine(folder, config, named=located.named)
        if as_json:
            print_json(report(found, folder))
        else:
            from fusion.doors.cli import render

            render.findings(found)
    if not healthy(found):
        raise typer.Exit(1)


def status(home: Home = None, config: Config = None, direct: Direct = False, as_json: Json = False) -> None:
    """The home at a glance: stores, breakers, backlog, sizes."""

    async def ask() -> None:
        async with gateway(home, config, direct=direct) as client:
            found = await client.status()
        if as_json:
            print_json(found)
        else:
            from fusion.doors.cli import render
            from fusion.home import read_record
            from fusion.trust.survey import repository_of

            folder = home_of(home, config)
            record = None if direct else read_record(folder)
            render.status(found, folder, record.url if record else None)
            if repository := repository_of(folder / "fusion.toml"):
                print(f"\nIts fusion.toml is under version control in {repository}: a pull that changes it asks again.")

    run(ask(), as_json)


def hook(context: typer.Context) -> None:
    """Run a hook of Claude Code: user-prompt-submit, session-start, stop, pre-compact or session-end.

    Reads its JSON on stdin, prints its JSON, and always exits with 0. Options: --home FOLDER, --user USER_ID.
    """
    from fusion.doors.hooks import main

    main(context.args)


def mcp(
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    project: Project = None,
    audience: Annotated[str | None, typer.Option(help="private or group: where the answers will be read.")] = None,
    home: Home = None,
    config: Config = None,
) -> None:
    """Serve the memory tools to an MCP client, on stdin and stdout. What is given here the client cannot change."""
    with friendly(as_json=False):
        import asyncio

        from fusion.doors.cli.connect import is_named, located_home
        from fusion.doors.http.schemas import Scoped, in_query
        from fusion.doors.mcp.server import serve_stdio

        given = {"user_id": user, "agent_id": agent, "session_id": session, "project": project, "audience": audience}
        fixed = {name: value for name, value in given.items() if value is not None}
        in_query(Scoped, list(fixed.items()))
        asyncio.run(serve_stdio(located_home(home, config), config, fixed, create=not is_named(home)))
