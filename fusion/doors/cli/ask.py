"""Ask: all memories at once, one backend alone, or why an answer has what it has."""

from __future__ import annotations

from typing import Annotated

import typer

from fusion.doors.cli.command import Owner, Target, command
from fusion.doors.cli.connect import require_words, say_if_empty, say_if_expanded
from fusion.doors.cli.options import (
    AllUsers,
    AskerAgent,
    AskerChannel,
    AskerSession,
    AsOf,
    Budget,
    BudgetTokens,
    Cursor,
    Format,
    MaxItems,
    MaxResults,
    Project,
    TimeoutMs,
    Timezone,
    WhereOption,
)
from fusion.doors.cli.where import where_of
from fusion.lib.moment import local_zone


@command()
async def fuse(
    *,
    question: Annotated[list[str], typer.Argument(metavar="QUESTION...", help="The question; quotes are not needed.")],
    owner: Owner,
    all_users: AllUsers = False,
    project: Project = None,
    as_of: AsOf = None,
    timezone: Timezone = None,
    where: WhereOption = None,
    budget: Budget = None,
    budget_tokens: BudgetTokens = None,
    max_results: MaxResults = None,
    max_items: MaxItems = None,
    block_format: Format = None,
    backend: Annotated[list[str] | None, typer.Option(help="Ask only this backend. Repeatable.")] = None,
    recipe: Annotated[
        str | None, typer.Option(help="default, hook, deep, seed000 to seed004, or a recipe of your own.")
    ] = None,
    timeout_ms: TimeoutMs = None,
    gate: Annotated[
        bool | None, typer.Option("--gate/--no-gate", help="no-gate: answer whatever the prompt is.")
    ] = None,
    fill: Annotated[
        bool | None, typer.Option("--fill/--no-fill", help="Fill the block; otherwise leave out what adds little.")
    ] = None,
    asker_agent: AskerAgent = None,
    asker_session: AskerSession = None,
    asker_channel: AskerChannel = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the reasons, too.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Like -v, with what was left out and why.")] = False,
    target: Target,
) -> None:
    """Ask all memories; print one block for a prompt.

    -v also shows how each backend answered, and why each memory is in the block.
    """
    require_words(question, "fusion fuse what did we decide about the database")
    asker = {"agent_id": asker_agent, "session_id": asker_session, "channel": asker_channel}
    async with target.client() as client:
        fused = await client.fuse(
            " ".join(question),
            **owner.ids(),
            all_users=all_users or None,
            project=project,
            as_of=as_of,
            timezone=timezone or local_zone(),
            where=where_of(where),
            budget_chars=budget,
            budget_tokens=budget_tokens,
            max_results=max_results,
            max_items=max_items,
            format=block_format,
            backends=backend or None,
            recipe=recipe,
            timeout_ms=timeout_ms,
            fill=fill,
            gate=gate,
            explain=explain or (verbose and not target.as_json),
            asker=asker if any(asker.values()) else None,
        )
        from fusion.doors.cli import render

        target.show(fused, lambda answer: render.fused(answer, reasons=verbose or explain, left_out=explain))
        if not fused["memories"] and not target.as_json:
            await say_if_empty(client, target.folder())
            say_if_expanded(question)


@command()
async def search(
    *,
    backend: Annotated[str, typer.Argument(help="A backend; `fusion backends` lists them.")],
    query: Annotated[
        list[str], typer.Argument(metavar="QUERY...", help="The words to look for; quotes are not needed.")
    ],
    limit: Annotated[int, typer.Option(min=1, max=100, help="Number of hits.")] = 10,
    where: WhereOption = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the backend's own ids, too.")] = False,
    owner: Owner,
    all_users: AllUsers = False,
    target: Target,
) -> None:
    """Ask one backend; print its own hits.

    `fusion get` and `fusion forget` take their refs.
    """
    require_words(query, f"fusion search {backend} database")
    async with target.client() as client:
        found = await client.search(
            backend, " ".join(query), where=where_of(where), limit=limit, all_users=all_users or None, **owner.ids()
        )
        from fusion.doors.cli import render

        target.show(found, lambda answer: render.found(answer, native=verbose))
        if not found["hits"] and not target.as_json:
            await say_if_empty(client, target.folder())
            say_if_expanded(query)


@command()
async def receipt(
    *,
    receipt_id: Annotated[
        str | None, typer.Argument(metavar="RECEIPT", help="The receipt that an answer named; without it, a list.")
    ] = None,
    owner: Owner,
    all_users: AllUsers = False,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Number of receipts on a page of the list.")] = 20,
    cursor: Cursor = None,
    target: Target,
) -> None:
    """Show why each candidate of an answer was used or left out.

    Without a RECEIPT it lists what was answered, newest first: of a user, an agent or a session.
    """
    from fusion.doors.cli import render

    async with target.client() as client:
        if receipt_id is not None:
            target.show(await client.receipt(receipt_id, user_id=owner.user), render.receipt)
            return
        page = await client.receipts(limit=limit, cursor=cursor, all_users=all_users or None, **owner.ids())
    target.show(page, render.receipts)
