"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fusion.contract import BlockFormat

Home = Annotated[
    Path | None,
    typer.Option(help="The home. Default: FUSION_HOME, the nearest .fusion folder, or ~/.local/share/memory-fusion."),
]
Config = Annotated[Path | None, typer.Option(help="A settings file to use instead of fusion.toml in the home.")]
Json = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]
Direct = Annotated[bool, typer.Option("--direct", help="Open the home in this process; do not use its server.")]
User = Annotated[str | None, typer.Option("--user", help="The user (user_id); empty: no user.")]
Agent = Annotated[str | None, typer.Option("--agent", help="The agent (agent_id).")]
Session = Annotated[str | None, typer.Option("--session", help="The session (session_id).")]
AllUsers = Annotated[bool, typer.Option("--all-users", help="Ask for the memories of all users and agents.")]
Project = Annotated[str | None, typer.Option(help="Rank memories of this project higher.")]
AsOf = Annotated[str | None, typer.Option(help="What was true at this time: 2026-01-31, or 2026-01-31T15:00.")]
Timezone = Annotated[
    str | None, typer.Option(help="Your time zone, in which yesterday ends: Europe/Berlin; this machine's by default.")
]
WhereOption = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="NAME=VALUE",
        help="Only memories like this: folder, tag, property.NAME, kind, speaker, after or before. Repeatable.",
    ),
]
Budget = Annotated[int | None, typer.Option(help="The most characters in a block.")]
BudgetTokens = Annotated[int | None, typer.Option(help="The most estimated tokens in a block.")]
MaxResults = Annotated[int | None, typer.Option(help="The most excerpts in a block.")]
MaxItems = Annotated[int | None, typer.Option(help="The most single memories in a block.")]
Format = Annotated[BlockFormat | None, typer.Option("--format", help="What the block looks like.")]
TimeoutMs = Annotated[int | None, typer.Option(help="Time for the whole request, in milliseconds.")]
AskerSession = Annotated[
    str | None, typer.Option(help="The session that asks: it filters nothing, and is shown nothing twice.")
]
AskerAgent = Annotated[str | None, typer.Option(help="The agent that asks; it filters nothing.")]
AskerChannel = Annotated[str | None, typer.Option(help="The channel that the answer goes to; it filters nothing.")]
Cursor = Annotated[str | None, typer.Option(help="Next page: the cursor that the last page printed.")]
PageSize = Annotated[int, typer.Option("--limit", min=1, max=100, help="Number of memories on a page.")]
