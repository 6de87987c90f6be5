"""The stable prefix: `fusion mem prefix`."""

from __future__ import annotations

from typing import Annotated

import typer

from fusion import wire
from fusion.doors.cli.command import Owner, Target, command
from fusion.doors.cli.options import AllUsers
from fusion.doors.cli.plural import counted


@command()
async def prefix(
    *,
    owner: Owner,
    all_users: AllUsers = False,
    text: Annotated[bool, typer.Option("--text", help="Print the text alone, as it goes into a prompt.")] = False,
    target: Target,
) -> None:
    """Show the stable prefix: what an agent's sessions said, compressed, and the last turns word for word.

    It changes rarely, so the prompt caches of providers keep it. `--agent NAME` shows that of all sessions of an agent,
    `--session ID` that of one session.
    """
    async with target.client() as client:
        found = await client.prefix(**owner.ids(), all_users=all_users or None)
    target.show(found, found["text"] if text else _shown(found))


def _shown(found: wire.Prefix) -> str:
    rate = found["prefix_hit_rate"]
    turns = counted(found["turns"], "turn")
    hits = "no turn counted yet" if rate is None else f"prefix_hit_rate {rate:.3f} over {turns}"
    sizes = f"{found['tokens']:,} tokens, the first {found['stable_chars']:,} characters stable"
    lines = [f"version {found['version']}, {counted(found['rewrites'], 'rewrite')}; {sizes}; {hits}"]
    if found["left_out"]:
        left_out = counted(found["left_out"], "turn")
        lines.append(f"not shown: {left_out}, until `fusion jobs run observe` compresses the raw buffer")
    return "\n".join([found["text"] or "nothing was said here yet", "", *lines])
