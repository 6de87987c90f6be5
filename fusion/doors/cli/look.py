"""Look: what is remembered, what was forgotten, and how the backends are."""

from __future__ import annotations

from typing import Annotated

import typer

from fusion.doors.cli.connect import gateway, home_of, print_json, refs_of, run
from fusion.doors.cli.options import Agent, Config, Cursor, Direct, Home, Json, PageSize, Session, User


def memories(
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    document: Annotated[str | None, typer.Option(help="Only memories of this conversation or file.")] = None,
    source: Annotated[str | None, typer.Option(help="Only memories with this source.")] = None,
    limit: PageSize = 20,
    cursor: Cursor = None,
    home: Home = None,
    config: Config = None,
    direct: Direct = False,
    as_json: Json = False,
) -> None:
    """List memories, newest first."""

    async def work() -> None:
        async with gateway(home, config, direct=direct) as client:
            page = await client.memories(
                limit=limit,
                cursor=cursor,
                document=document,
                source=source,
                user_id=user,
                agent_id=agent,
                session_id=session,
            )
        if as_json:
            print_json(page)
        else:
            from fusion.doors.cli import render

            render.memories(page)

    run(work(), as_json)


def get(
    ref: Annotated[str, typer.Argument(help="The ref of a memory, as a block cites it: m1z.")],
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    home: Home = None,
    config: Config = None,
    direct: Direct = False,
    as_json: Json = False,
) -> None:
    """Show one memory in full.

    Its text, its place in a file or conversation, its owner, and the backends that hold it.
    """

    async def work() -> None:
        async with gateway(home, config, direct=direct) as client:
            memory = await client.memory("".join(refs_of([ref])), user_id=user, agent_id=agent, session_id=session)
        if as_json:
            print_json(memory)
        else:
            from fusion.doors.cli import render

            render.memory(memory)

    run(work(), as_json)


def forgotten(
    limit: PageSize = 20,
    cursor: Cursor = None,
    user: User = None,
    home: Home = None,
    config: Config = None,
    direct: Direct = False,
    as_json: Json = False,
) -> None:
    """List what was forgotten, and whether each backend deleted it.

    Shows refs only: the texts are gone.
    """

    async def work() -> None:
        async with gateway(home, config, direct=direct) as client:
            page = await client.forgotten(limit=limit, cursor=cursor, user_id=user)
        if as_json:
            print_json(page)
        else:
            from fusion.doors.cli import render

            render.audit(page)

    run(work(), as_json)


def status(home: Home = None, config: Config = None, direct: Direct = False, as_json: Json = False) -> None:
    """Show the state of a home: backends, queues, sizes."""

    async def work() -> None:
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

    run(work(), as_json)


def backends(home: Home = None, config: Config = None, direct: Direct = False, as_json: Json = False) -> None:
    """Show whether each backend works, and how much it holds."""

    async def work() -> None:
        async with gateway(home, config, direct=direct) as client:
            found = await client.backends()
        if as_json:
            print_json(found)
        else:
            from fusion.doors.cli import render

            render.backends(found)

    run(work(), as_json)
