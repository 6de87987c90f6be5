"""`fusion triage` in a terminal: one item a screen, one key a decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import typer

from fusion.doors.cli import render
from fusion.doors.cli.plural import counted
from fusion.errors import FusionError

if TYPE_CHECKING:
    from fusion import wire
    from fusion.client import AsyncClient

SKIP, UNDO, QUIT = "s", "u", "Q"
"""keys that every item has besides those of its choices"""
LISTED = 100
"""items of one session at most; run it again for more"""

Ask = Callable[[], str]
"""returns the key that was pressed; raises EOFError or KeyboardInterrupt to end"""


async def decide_one_by_one(client: AsyncClient, scope: Mapping[str, Any], ask: Ask) -> int:
    """Show each item and do what its reader decides; returns how many items were decided.

    A decision that fails is reported, and the item is shown again.
    """
    found = await client.triage(**{"limit": LISTED, **scope})
    items, decided, at = found["items"], list[tuple[int, str | None]](), 0
    while at < len(items):
        render.triage_item(items[at], at + 1, len(items))
        try:
            key = ask()
        except (EOFError, KeyboardInterrupt):
            break
        if key == QUIT:
            break
        if key == UNDO:
            place, name = decided[-1] if decided else (at, None)
            if name is not None:
                at = place
                decided.pop()
                await _reported(client.undo_decision(name, **scope), f"{name} is taken back")
            elif decided:
                typer.echo("What was set aside stays aside; the list of it is kept.")
            else:
                typer.echo("There is nothing to undo yet.")
            continue
        if key != SKIP:
            made = await _decided(client, items[at], key, scope)
            if made is None:
                continue
            decided.append((at, made["decision"]))
        at += 1
    typer.echo(f"{counted(len(decided), 'item')} decided, {len(items) - len(decided)} left.")
    return len(decided)


async def _decided(client: AsyncClient, item: wire.TriageItem, key: str, scope: Mapping[str, Any]) -> Any:
    """The reply to the decision that a key made; None for another key, and for one that failed or changed nothing."""
    choice = next((one for one in item["choices"] if one["key"] == key), None)
    if choice is None:
        typer.echo(f"There is no choice {key!r} here.")
        return None
    work = client.decide_triage(item["id"], choice["name"], **scope)
    reply = await _reported(work, f"{item['id']}: {choice['name']}")
    return reply if reply and (reply["decision"] or reply["kept_in"]) else None


async def _reported(work: Any, done: str) -> Any:
    """The reply to a request, after one line about it; None if it failed."""
    try:
        reply = await work
    except FusionError as error:
        typer.echo(f"Not done: {error}")
        return None
    typer.echo(done)
    return reply


def key_pressed() -> str:
    """One key, without a line end. Ctrl-C and Ctrl-D raise KeyboardInterrupt and EOFError."""
    key: str = typer.getchar()
    return key
