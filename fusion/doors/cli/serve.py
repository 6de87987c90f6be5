"""Serve: the server of a home, its token, and the doors for agents."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from fusion.doors.cli.connect import friendly, home_of, print_json, say_if_new, settings_of
from fusion.doors.cli.options import Agent, Config, Home, Json, Project, Session, User
from fusion.errors import NotFound


def serve(
    home: Home = None,
    config: Config = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on. An address other than loopback needs an API key.")
    ] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = None,
    idle_exit: Annotated[
        float | None, typer.Option(min=0, help="Exit after this many seconds without a request.")
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Let every user and program on this computer in. Loopback only.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run the server of a home in this terminal.

    Other commands start a server by themselves.
    """
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


def stop(home: Home = None, config: Config = None, as_json: Json = False) -> None:
    """Stop the server of a home.

    It finishes what it is doing first.
    """
    with friendly(as_json):
        from fusion.client import stop_server

        folder = home_of(home, config)
        record = stop_server(folder)
        if as_json:
            print_json({"home": str(folder), "stopped": record is not None})
        else:
            print(f"Stopped the server of {folder}." if record else f"No server runs for {folder}.")


def token(home: Home = None, config: Config = None, as_json: Json = False) -> None:
    """Print the token that requests to the server need.

    curl -H "authorization: Bearer $(fusion token)" …
    """
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


def mcp(
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    project: Project = None,
    audience: Annotated[str | None, typer.Option(help="private or group: who reads the answers.")] = None,
    home: Home = None,
    config: Config = None,
) -> None:
    """Serve the memory tools to an MCP client on stdin and stdout.

    The client cannot change the options given here.
    """
    with friendly(as_json=False):
        import asyncio

        from fusion.doors.cli.connect import is_named, located_home
        from fusion.doors.http.schemas import Scoped, in_query
        from fusion.doors.mcp.server import serve_stdio

        given = {"user_id": user, "agent_id": agent, "session_id": session, "project": project, "audience": audience}
        fixed = {name: value for name, value in given.items() if value is not None}
        in_query(Scoped, list(fixed.items()))
        asyncio.run(serve_stdio(located_home(home, config), config, fixed, create=not is_named(home)))


def hook(context: typer.Context) -> None:
    """Run a hook of Claude Code.

    Hooks: user-prompt-submit, session-start, stop, pre-compact, session-end.
    Reads JSON on stdin, prints JSON, and always exits with 0. Options: --home FOLDER, --user USER_ID.
    """
    from fusion.doors.hooks import main

    main(context.args)
