"""Ask: all memories at once, one backend alone, or why an answer has what it has."""

from __future__ import annotations

from typing import Annotated

import typer

from fusion.doors.cli.connect import gateway, print_json, require_words, run, say_if_empty, say_if_expanded
from fusion.doors.cli.options import (
    Agent,
    AsOf,
    Budget,
    Config,
    Direct,
    Home,
    Json,
    MaxResults,
    Project,
    Session,
    TimeoutMs,
    User,
    Verbose,
)


def fuse(
    question: Annotated[list[str], typer.Argument(metavar="QUESTION...", help="The question; quotes are not needed.")],
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    project: Project = None,
    as_of: AsOf = None,
    budget: Budget = None,
    max_results: MaxResults = None,
    backend: Annotated[list[str] | None, typer.Option(help="Ask only this backend. Repeatable.")] = None,
    recipe: Annotated[str | None, typer.Option(help="default, hook, deep, seed003, or a recipe of your own.")] = None,
    timeout_ms: TimeoutMs = None,
    verbose: Verbose = False,
    explain: Annotated[bool, typer.Option("--explain", help="Like -v, with what was left out and why.")] = False,
    home: Home = None,
    config: Config = None,
    direct: Direct = False,
    as_json: Json = False,
) -> None:
    """Ask all memories; print one block for a prompt.

    -v also shows how each backend answered, and why each memory is in the block.
    """
    require_words(question, "fusion fuse what did we decide about the database")

    async def work() -> None:
        async with gateway(home, config, direct=direct) as client:
            fused = await client.fuse(
                " ".join(question),
                user_id=user,
                agent_id=agent,
                session_id=session,
                project=project,
                as_of=as_of,
                budget_chars=budget,
                max_results=max_results,
                backends=backend or None,
                recipe=recipe,
                timeout_ms=timeout_ms,
                explain=explain or (verbose and not as_json),
            )
            if as_json:
                print_json(fused)
                return
            from fusion.doors.cli import render

            render.fused(fused, reasons=verbose or explain, left_out=explain)
            if not fused["memories"]:
                await say_if_empty(client, home, config)
                say_if_expanded(question)

    run(work(), as_json)


def search(
    backend: Annotated[str, typer.Argument(help="A backend; `fusion backends` lists them.")],
    query: Annotated[
        list[str], typer.Argument(metavar="QUERY...", help="The words to look for; quotes are not needed.")
    ],
    limit: Annotated[int, typer.Option(min=1, max=100, help="Number of hits.")] = 10,
    verbose: Verbose = False,
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    home: Home = None,
    config: Config = None,
    direct: Direct = False,
    as_json: Json = False,
) -> None:
    """Ask one backend; print its own hits.

    `fusion get` and `fusion forget` take their refs.
    """
    require_words(query, f"fusion search {backend} database")

    async def work() -> None:
        async with gateway(home, config, direct=direct) as client:
            scope = {"user_id": user, "agent_id": agent, "session_id": session}
            found = await client.search(backend, " ".join(query), limit=limit, **scope)
            if as_json:
                print_json(found)
                return
            from fusion.doors.cli import render

            render.found(found, native=verbose)
            if not found["hits"]:
                await say_if_empty(client, home, config)
                say_if_expanded(query)

    run(work(), as_json)


def receipt(
    receipt_id: Annotated[str, typer.Argument(help="The receipt that an answer named.")],
    home: Home = None,
    config: Config = None,
    direct: Direct = False,
    as_json: Json = False,
) -> None:
    """Show why each candidate of an answer was used or left out."""

    async def work() -> None:
        async with gateway(home, config, direct=direct) as client:
            found = await client.receipt(receipt_id)
        if as_json:
            print_json(found)
        else:
            from fusion.doors.cli import render

            render.receipt(found)

    run(work(), as_json)
