"""Asking: one block of all memories, one backend's own answer, and why something was in a block or out of it."""

from __future__ import annotations

from typing import Annotated

import typer

from fusion.doors.cli.asking import gateway, print_json, run, say_if_empty
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
)


def fuse(
    question: Annotated[str, typer.Argument(help="What to recall.")],
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    project: Project = None,
    as_of: AsOf = None,
    budget: Budget = None,
    max_results: MaxResults = None,
    backend: Annotated[list[str] | None, typer.Option(help="Ask only this backend; may be given again.")] = None,
    recipe: Annotated[str | None, typer.Option(help="default, hook, deep, seed003, or one of yours.")] = None,
    timeout_ms: TimeoutMs = None,
    explain: Annotated[bool, typer.Option("--explain", help="Also what was left out, and why.")] = False,
    home: Home = None,
    config: Config = None,
    direct: Direct = False,
    as_json: Json = False,
) -> None:
    """Ask all memories; print one block, and why each memory is in it."""

    async def ask() -> None:
        async with gateway(home, config, direct=direct) as client:
            fused = await client.fuse(
                question,
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
                explain=explain or not as_json,
            )
            if as_json:
                print_json(fused)
                return
            from fusion.doors import show

            show.fused(fused, left_out=explain)
            if not fused["memories"]:
                await say_if_empty(client, home, config)

    run(ask(), as_json)


def search(
    backend: Annotated[str, typer.Argument(help="Which backend; `fusion backends` lists them.")],
    query: Annotated[str, typer.Argument(help="What to look for.")],
    limit: Annotated[int, typer.Option(min=1, max=100)] = 10,
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    home: Home = None,
    config: Config = None,
    direct: Direct = False,
    as_json: Json = False,
) -> None:
    """Ask one backend; print its raw hits."""

    async def ask() -> None:
        async with gateway(home, config, direct=direct) as client:
            scope = {"user_id": user, "agent_id": agent, "session_id": session}
            found = await client.search(backend, query, limit=limit, **scope)
            if as_json:
                print_json(found)
                return
            from fusion.doors import show

            show.found(found)
            if not found["hits"]:
                await say_if_empty(client, home, config)

    run(ask(), as_json)


def receipt(
    receipt_id: Annotated[str, typer.Argument(help="As the answer named it.")],
    home: Home = None,
    config: Config = None,
    direct: Direct = False,
    as_json: Json = False,
) -> None:
    """Why each candidate of an answer was in the block, or out of it."""

    async def ask() -> None:
        async with gateway(home, config, direct=direct) as client:
            found = await client.receipt(receipt_id)
        if as_json:
            print_json(found)
        else:
            from fusion.doors import show

            show.receipt(found)

    run(ask(), as_json)
