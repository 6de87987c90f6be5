"""What there is: `fusion mem status`."""

from __future__ import annotations

from fusion.doors.cli.command import Target, command


@command()
async def status(*, target: Target) -> None:
    """Show what the memory holds, and whether its backends work."""
    async with target.client() as client:
        found = await client.status()
    names = ", ".join(f"{one['name']} {one['status']}" for one in found["backends"])
    memories = found["memories"]
    lines = [
        f"memories  {memories['current']:,}; {memories['forgotten']:,} forgotten",
        f"receipts  {found['receipts']['kept']:,}",
        f"backends  {names}",
        *found["notes"],
    ]
    target.show(found, "\n".join(lines))
