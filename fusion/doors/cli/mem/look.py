"""What there is: `fusion mem status`, and `fusion mem profile`, which counts by kind, tool and importance."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fusion.doors.cli.command import Owner, Target, command
from fusion.doors.cli.mem.rows import ledger_of

Most = Annotated[int, typer.Option(min=1, max=200)]


@command()
async def status(*, target: Target) -> None:
    """Show what the memory holds, and whether its backends work."""
    async with target.client() as client:
        found = await client.status()
        if target.as_json:
            target.show({**found, **await ledger_of(client, {}).status(found)}, "")
            return
    names = ", ".join(f"{one['name']} {one['status']}" for one in found["backends"])
    memories = found["memories"]
    lines = [
        f"memories  {memories['current']:,}; {memories['forgotten']:,} forgotten",
        f"receipts  {found['receipts']['kept']:,}",
        f"backends  {names}",
        *found["notes"],
    ]
    print("\n".join(lines))


@command()
async def profile(
    *, recent_limit: Most = 10, tool_limit: Most = 10, kind_limit: Most = 10, owner: Owner, target: Target
) -> None:
    """Count the memories by kind, by what wrote them and by importance, and show the latest."""
    async with target.client() as client:
        found = await ledger_of(client, owner.ids()).profile(recent_limit, tool_limit, kind_limit)
    target.show(found, _profile)


def _profile(found: dict[str, Any]) -> None:
    seen = found["observations"]
    kinds = ", ".join(f"{one['count']:,} {one['kind']}" for one in seen["kinds"])
    labels = ", ".join(f"{count:,} {label}" for label, count in found["importance"]["label_counts"].items())
    print(f"records     {seen['count']:,} from {seen['min_ts'] or '-'} to {seen['max_ts'] or '-'}")
    print(f"kinds       {kinds or '-'}\nimportance  {labels}")
    for row in found["recent"]:
        print(f"{row['recordRef']} {(row['ts'] or '')[:10]} {row['kind']}: {' '.join(row['summary'].split())[:120]}")
