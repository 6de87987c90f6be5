"""`fusion audit`: who read, changed and forgot memories."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

import typer

from fusion.doors.cli.command import Target, command
from fusion.doors.cli.connect import refs_of
from fusion.doors.cli.options import Cursor, User
from fusion.doors.server_log import since_of

Action = Literal["ask", "read", "list", "remember", "edit", "forget", "state", "backend", "export", "import", "gap"]


@command()
async def audit(
    *,
    action: Annotated[Action | None, typer.Option(help="Only accesses of this kind.")] = None,
    since: Annotated[str | None, typer.Option(help="Leave out what is older: 30m, 2h, 1d, or an ISO time.")] = None,
    ref: Annotated[str | None, typer.Option(help="Only accesses to this memory, also in an answer: m1z.")] = None,
    user: User = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Number of accesses on a page.")] = 20,
    cursor: Cursor = None,
    target: Target,
) -> None:
    """List who read, changed and forgot memories.

    When, with which key, through which door, and how it ended. It has no texts. Entries stay when a memory is
    forgotten.
    """
    from fusion.doors.cli import render

    after = None if since is None else since_of(since, datetime.now(UTC))
    one = None if ref is None else "".join(refs_of([ref]))
    async with target.client() as client:
        page = await client.audit(action=action, since=after, ref=one, user_id=user, limit=limit, cursor=cursor)
    target.show(page, render.accesses)
