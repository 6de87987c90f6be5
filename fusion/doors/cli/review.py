"""Review: memories are proposed, and somebody decides which of them are stored."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from fusion.doors.cli.command import Owner, Target, command
from fusion.doors.cli.connect import require_words
from fusion.doors.cli.options import Cursor, PageSize

Name = Annotated[str, typer.Argument(metavar="PROPOSAL", help="Its id, as `fusion proposals` prints it: p12.")]
Why = Annotated[str, typer.Option(help="The reason, for the log.")]


@command()
async def propose(
    *,
    text: Annotated[list[str], typer.Argument(metavar="TEXT...", help="What to remember; quotes are not needed.")],
    kind: Annotated[
        str, typer.Option(help="rule, procedure, fact, episode, preference, decision, plan, note, turn.")
    ] = "note",
    importance: Annotated[float | None, typer.Option(help="From 0 to 1.")] = None,
    trust: Annotated[str, typer.Option(help="unknown, untrusted, quarantined.")] = "unknown",
    source: Annotated[str | None, typer.Option(help="Where it comes from.")] = None,
    evidence: Annotated[
        list[str] | None, typer.Option("--from", help="Ref of a memory that it follows from: m1z. Repeatable.")
    ] = None,
    supersedes: Annotated[str | None, typer.Option(help="Ref of the memory that it would replace.")] = None,
    reason: Annotated[str, typer.Option(help="Why it is worth keeping, for whoever decides.")] = "",
    tag: Annotated[list[str] | None, typer.Option(help="A tag. Repeatable.")] = None,
    project: Annotated[str | None, typer.Option(help="The project that it belongs to.")] = None,
    owner: Owner,
    target: Target,
) -> None:
    """Propose a memory; it is stored once somebody approves it."""
    from fusion.doors.cli import render

    require_words(text, "fusion propose The staging database moved to port 5433.")
    given: dict[str, Any] = {"text": " ".join(text), "kind": kind, "importance": importance, "trust": trust}
    given |= {"source": source, "supersedes": supersedes, "reason": reason, "project": project}
    given |= {"derived_from": evidence or None, "tags": tag or None, **owner.ids()}
    async with target.client() as client:
        reply = await client.propose({name: value for name, value in given.items() if value is not None})
    target.show(reply, render.proposed)


@command()
async def proposals(
    *,
    name: Annotated[str | None, typer.Argument(metavar="[PROPOSAL]", help="Show this one in full: p12.")] = None,
    state: Annotated[str, typer.Option(help="open, approved, rejected, expired, any.")] = "open",
    owner: Owner,
    limit: PageSize = 20,
    cursor: Cursor = None,
    target: Target,
) -> None:
    """List proposed memories, or show one of them."""
    from fusion.doors.cli import render

    async with target.client() as client:
        if name is not None:
            target.show(await client.proposal(name, **owner.ids()), render.proposal)
            return
        page = await client.proposals(state=state, limit=limit, cursor=cursor, **owner.ids())
    target.show(page, render.proposals)


@command()
async def approve(
    *,
    name: Name,
    text: Annotated[str | None, typer.Option(help="What the memory says instead.")] = None,
    kind: Annotated[str | None, typer.Option(help="Another kind than the proposed one.")] = None,
    importance: Annotated[float | None, typer.Option(help="From 0 to 1, instead of the proposed one.")] = None,
    trust: Annotated[str | None, typer.Option(help="trusted, unknown, untrusted, quarantined.")] = None,
    why: Why = "",
    owner: Owner,
    target: Target,
) -> None:
    """Store a proposed memory, as it is or edited.

    `fusion undo ID` archives the memory and opens the proposal again.
    """
    from fusion.doors.cli import render

    changes: dict[str, Any] = {"text": text, "kind": kind, "importance": importance, "trust": trust, "why": why}
    async with target.client() as client:
        reply = await client.approve(name, **{**changes, **owner.ids()})
    target.show(reply, render.decided)


@command()
async def reject(*, name: Name, why: Why = "", owner: Owner, target: Target) -> None:
    """Reject a proposed memory; nothing is stored.

    `fusion undo ID` opens it again.
    """
    from fusion.doors.cli import render

    async with target.client() as client:
        reply = await client.reject(name, why=why, **owner.ids())
    target.show(reply, render.decided)


@command()
async def triage(
    *,
    item: Annotated[str | None, typer.Argument(metavar="[ITEM]", help="Decide this item: p12, m1z, conflict:…")] = None,
    choice: Annotated[
        str | None, typer.Argument(metavar="[CHOICE]", help="How: approve, reject, keep:m1z, archive, …")
    ] = None,
    why: Why = "",
    limit: PageSize = 20,
    owner: Owner,
    target: Target,
) -> None:
    """Decide what needs a person, with one key a decision.

    Without a terminal, or with --json, it lists the items. ITEM and CHOICE decide one of them.
    """
    from fusion.doors.cli import render
    from fusion.doors.cli.triage import decide_one_by_one, key_pressed

    if (item is None) != (choice is None):
        raise typer.BadParameter("give an ITEM and a CHOICE, or neither")
    async with target.client() as client:
        if item is not None and choice is not None:
            done = await client.decide_triage(item, choice, why=why, **owner.ids())
            target.show(done, render.triage_decided)
        elif target.as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
            target.show(await client.triage(limit=limit, **owner.ids()), render.triage)
        else:
            await decide_one_by_one(client, owner.ids(), key_pressed)
