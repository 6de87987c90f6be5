"""What a text or memories state, for review: `fusion mem extract`."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from fusion.doors.cli.command import Owner, Target, command
from fusion.doors.cli.connect import refs_of


@command()
async def extract(
    *,
    text: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT...]", help="A text; -: read it from standard input.")
    ] = None,
    ref: Annotated[list[str] | None, typer.Option(help="Read this memory: m1z. Repeatable.")] = None,
    document: Annotated[str | None, typer.Option(help="Read the memories of this conversation or file.")] = None,
    after: Annotated[str | None, typer.Option(help="Read memories from this time on: 2026-01-31.")] = None,
    before: Annotated[str | None, typer.Option(help="Read memories before this time.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="Memories that are read at most.")] = 50,
    speaker: Annotated[str | None, typer.Option(help="Who says the text.")] = None,
    by: Annotated[str, typer.Option(help="rules, or model: the language model of \\[model].")] = "rules",
    propose: Annotated[bool, typer.Option("--propose", help="Queue the candidates as proposals.")] = False,
    owner: Owner,
    target: Target,
) -> None:
    """Show the statements in a text or in memories; store nothing.

    Each candidate cites the memories that state it. --propose queues them for a decision.
    """
    from fusion.doors.cli import render

    said = " ".join(text or ())
    if said == "-":
        said = sys.stdin.read()
    asked: dict[str, Any] = {
        "speaker": speaker,
        "refs": list(refs_of(ref)) if ref else None,
        "document": document,
        "after": after,
        "before": before,
        "limit": limit,
        "by": by,
        "propose": propose,
    }
    async with target.client() as client:
        reply = await client.extract(said or None, **{**asked, **owner.ids()})
    target.show(reply, render.extracted)
