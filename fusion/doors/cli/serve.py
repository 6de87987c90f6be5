"""Serve: the server of a home, its token, and the doors for agents."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from fusion.doors.cli.command import Owner, Target, command
from fusion.doors.cli.connect import is_named, located_home, print_json, say_if_new
from fusion.doors.cli.options import AllUsers, Project
from fusion.errors import BadInput, NotFound
from fusion.lib.caller import is_reserved

if TYPE_CHECKING:
    from fusion.doors.mcp import ToolSet
    from fusion.settings import Settings

MAX_KEY_NAME_CHARS = 64


@command(without=["direct"])
def serve(
    *,
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
    target: Target,
) -> None:
    """Run the server of a home in this terminal.

    Other commands start a server by themselves.
    """
    from fusion.doors.http.serve import serve as run

    settings = target.settings()
    say_if_new(settings.home, target.home)
    given = {"host": host, "port": port, "idle_exit_s": idle_exit, "open_to_local_users": no_token or None}
    changes = {name: value for name, value in given.items() if value is not None}
    settings = settings.model_copy(update={"server": settings.server.model_copy(update=changes)})

    def ready(url: str) -> None:
        if target.as_json:
            print_json({"url": url, "home": str(settings.home)})
        else:
            print(f"memory-fusion serves {settings.home} on {url}", file=sys.stderr, flush=True)

    run(settings, on_ready=ready)


@command(without=["direct"])
def open_(
    *,
    print_: Annotated[bool, typer.Option("--print", help="Print the address, and open nothing.")] = False,
    api: Annotated[bool, typer.Option("--api", help="The page of the HTTP API instead.")] = False,
    target: Target,
) -> None:
    """Open the inspector in a browser: ask, browse, and see why.

    It is the page of the home's server, which is started if necessary. The address signs the browser in once, within a
    minute. Without a browser it is printed.
    """
    import webbrowser

    from fusion.client import Client, ensure_server
    from fusion.doors.cli.connect import existing
    from fusion.doors.http.openapi import DOCS
    from fusion.doors.inspector.redirect import write_redirect

    home = existing(target.home, target.config)
    record = ensure_server(home, target.config)
    if api:
        path = DOCS
    else:
        with Client.of_home(home, start=False) as client:
            path = client.inspector_link()["path"]
    url = record.url + path
    # Other users of this computer can read the arguments of a browser's process, so it gets a file that leads there.
    opened = not print_ and not target.as_json and webbrowser.open(url if api else write_redirect(home, url).as_uri())
    shown = record.url + path.partition("#")[0]
    target.show({"url": url, "home": str(target.folder())}, f"Opened {shown}" if opened else url)


@command(without=["direct"])
def stop(*, target: Target) -> None:
    """Stop the server of a home.

    It finishes what it is doing first.
    """
    from fusion.client import stop_server

    folder = target.folder()
    stopped = stop_server(folder) is not None
    line = f"Stopped the server of {folder}." if stopped else f"No server runs for {folder}."
    target.show({"home": str(folder), "stopped": stopped}, line)


@command(without=["direct"])
def token(
    *,
    new_key: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Make an API key of this name, with its table for fusion.toml."),
    ] = None,
    target: Target,
) -> None:
    """Print the token that requests to the server need.

    curl -H "authorization: Bearer $(fusion token)" …
    --new-key writes nothing: the key works once its table is in fusion.toml and the server has started again.
    """
    if new_key is not None:
        made = new_api_key(new_key, target.settings())
        target.show(made, f"The key, which is shown once: {made['key']}\n\nAdd to fusion.toml:\n\n{made['table']}")
        return
    from fusion.trust import make_home
    from fusion.trust.token import home_token

    folder = target.folder()
    if not folder.is_dir():
        raise NotFound(f"There is no home {folder}. To make one: fusion init")
    found = home_token(make_home(folder))
    target.show({"home": str(folder), "token": found}, found)


def new_api_key(name: str, settings: Settings) -> dict[str, str]:
    """A new API key, and its table for the settings, which have its hash alone. Raises BadInput for a name."""
    import json
    import secrets
    from hashlib import sha256

    if is_reserved(name):
        raise BadInput(
            f"new_key: {name!r} is reserved: logs call the caller with the home's token owner, and one without a key "
            "anyone. Choose another name, such as the person's or the program's"
        )
    if not name.strip() or not name.isprintable() or len(name) > MAX_KEY_NAME_CHARS:
        raise BadInput(f"new_key: a name has 1 to {MAX_KEY_NAME_CHARS} characters that can be printed")
    if name in {key.name for key in settings.keys}:
        raise BadInput(f"new_key: there is an API key called {name!r} already. Choose another name")
    key = secrets.token_urlsafe(32)
    lines = {"name": name, "sha256": sha256(key.encode()).hexdigest(), "tenant": "default", "role": "writer"}
    table = "\n".join(["[[server.keys]]", *(f"{k} = {json.dumps(v, ensure_ascii=False)}" for k, v in lines.items())])
    return {"name": name, "key": key, "table": table}


@command(without=["direct", "as_json"])
def mcp(
    *,
    owner: Owner,
    project: Project = None,
    audience: Annotated[str | None, typer.Option(help="private or group: who reads the answers.")] = None,
    cortex: Annotated[
        bool, typer.Option("--cortex", help="openclaw-cortex's tools: remember, recall, forget, search, stats.")
    ] = False,
    openclaw_mem: Annotated[
        bool, typer.Option("--openclaw-mem", help="openclaw-mem's tools: mem_search, mem_pack, mem_store and others.")
    ] = False,
    qmd: Annotated[bool, typer.Option("--qmd", help="QMD's tools: query, get, multi_get, status.")] = False,
    all_users: AllUsers = False,
    target: Target,
) -> None:
    """Serve the memory tools to an MCP client on stdin and stdout.

    The client cannot change the options given here.
    """
    from fusion.doors.mcp_stdio.command import serve
    from fusion.doors.schemas import Scoped, in_query

    given = {**owner.ids(), "project": project, "audience": audience}
    fixed = {name: value for name, value in given.items() if value is not None}
    in_query(Scoped, list(fixed.items()))
    home = located_home(target.home, target.config)
    create = not is_named(target.home)
    if cortex + openclaw_mem + qmd > 1:
        raise BadInput("--cortex, --openclaw-mem and --qmd: give one of them")
    tools: ToolSet = "cortex" if cortex else "openclaw-mem" if openclaw_mem else "qmd" if qmd else "fusion"
    everybody = {"all_users": "true"} if all_users else {}
    serve(home, target.config, {**fixed, **everybody}, create=create, tools=tools)


SessionToPause = Annotated[str | None, typer.Option("--session", help="Only this session of the agent.")]


@command(without=["direct"])
def pause(*, session: SessionToPause = None, target: Target) -> None:
    """Stop recall and capture by hooks until `fusion resume`.

    What is said meanwhile is not remembered later either. Tools that a model calls by itself still work.
    """
    _set_paused(target, session, paused=True)


@command(without=["direct"])
def resume(*, session: SessionToPause = None, target: Target) -> None:
    """Let hooks recall and capture again, after `fusion pause`."""
    _set_paused(target, session, paused=False)


def _set_paused(target: Target, session: str | None, *, paused: bool) -> None:
    from fusion.doors.pause import set_paused
    from fusion.trust import make_home

    folder = target.folder()
    if not folder.is_dir():
        raise NotFound(f"There is no home {folder}. To make one: fusion init")
    changed = set_paused(make_home(folder), session, paused=paused)
    what = f"session {session}" if session else "every session"
    done = f"Paused: hooks recall and remember nothing for {what}." if paused else f"Resumed for {what}."
    already = f"It is {'paused' if paused else 'not paused'} for {what} already."
    report = {"home": str(folder), "session": session, "paused": paused, "changed": changed}
    target.show(report, done if changed else already)


def statusline(context: typer.Context) -> None:
    """Print one line about the memory for Claude Code's status line.

    Reads its JSON on stdin, and always exits with 0. Options: --home FOLDER, --user USER_ID.
    """
    from fusion.doors.statusline import main

    main(context.args)


def hook(context: typer.Context) -> None:
    """Run a hook of Claude Code or of openclaw-cortex.

    Claude Code's: user-prompt-submit, session-start, stop, pre-compact, session-end. openclaw-cortex's: pre, post.
    Reads JSON on stdin, prints JSON, and always exits with 0. Options: --home FOLDER, --user USER_ID.
    """
    from fusion.doors.hooks import main

    main(context.args)
