"""Explain one memory: where it is from, what became of it, and what it was used for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fusion.doors.cli.command import Owner, Target, command
from fusion.doors.cli.connect import refs_of
from fusion.doors.cli.plural import counted
from fusion.doors.cli.render.answers import contradiction
from fusion.errors import BadInput

if TYPE_CHECKING:
    from fusion import wire


@command()
async def why(
    *,
    ref: Annotated[list[str], typer.Argument(help="The ref of a memory, as a block or a pack cites it.")],
    limit: Annotated[int, typer.Option(min=1, max=100, help="The most blocks and packs to list.")] = 20,
    owner: Owner,
    target: Target,
) -> None:
    """Show what a memory was used for, and what became of it.

    The blocks and packs with it, and why; its origin, its copies, and every change of its state.
    """
    if len(ref) > 1:
        raise BadInput(f"why explains one memory by its ref. To ask: fusion fuse why {' '.join(ref)}")
    async with target.client() as client:
        found = await client.why("".join(refs_of(ref)), limit=limit, **owner.ids())
    target.show(found, _print)


def _print(found: wire.Why) -> None:
    print(f"{found['recordRef']} is {found['status']}")
    gone = found["forgotten"]
    if gone is not None:
        backends = ", ".join(f"{name} {outcome}" for name, outcome in gone["backends"].items()) or "no backend had it"
        print(f"forgotten   {_minute(gone['at'])} by {gone['by']}: {backends}")
        return
    origin = found["provenance"]
    if origin is not None:
        place = origin["document"] and f"{origin['document']}:{origin['position']}"
        parts = (origin["source"], place, origin["speaker"], f"origin {origin['origin']}", f"trust {origin['trust']}")
        recorded = _minute(origin["recorded_at"]) if origin["recorded_at"] else "by its backend"
        print(f"comes from  {', '.join(filter(None, parts))}, recorded {recorded}")
        if origin["derived_from"]:
            print(f"derived     from {', '.join(origin['derived_from'])}")
    for label, other in (("replaces", found["supersedes"]), ("replaced by", found["superseded_by"])):
        if other:
            print(f"{label:<11} {other}")
    print(f"copies      {', '.join(f'{name} {state}' for name, state in found['copies'].items()) or 'none'}")
    for fact in found["facts"]:
        print(f"states      {fact['subject']} – {fact['predicate']} – {fact['object']}")
    if found["layers"]:
        print(f"layers      by {', '.join(found['layers'].values())}")
    print(f"included    in {counted(found['included'], 'answer')}")
    for one in found["inclusions"]:
        print(f"  {_minute(one['at'])} {one['kind']} {one['receipt_id']}: {one['why']}")
    for row in found["contradictions"]:
        print(f"  in {row['receipt_id']}: {contradiction(row)}")
    for change in found["changes"]:
        fields = ", ".join(
            f"{name} {part['before'].get(name)} → {value}"
            for part in change["changes"]
            for name, value in part["after"].items()
            if name != "grade"
        )
        undone = f"; undone by {change['undone_by']}" if change["undone_by"] else ""
        reason = " ".join(change["why"].split())
        print(f"{change['id']:<11} {_minute(change['at'])} {change['who']}: {reason} ({fields}){undone}")


def _minute(at: str) -> str:
    """A time of a reply, to the minute."""
    return f"{at[:16].replace('T', ' ')} UTC"
