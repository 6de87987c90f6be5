"""Options that several commands have, each with the words of its help once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Home = Annotated[
    Path | None,
    typer.Option(help="The home. Else: FUSION_HOME, the nearest .fusion folder, ~/.local/share/memory-fusion."),
]
Config = Annotated[Path | None, typer.Option(help="A configuration file instead of fusion.toml in the home.")]
Json = Annotated[bool, typer.Option("--json", help="One line of JSON.")]
Direct = Annotated[bool, typer.Option("--direct", help="Open the home in this process instead of asking its server.")]
User = Annotated[str | None, typer.Option("--user", help="Whose memories: user_id.")]
Agent = Annotated[str | None, typer.Option("--agent", help="agent_id.")]
Session = Annotated[str | None, typer.Option("--session", help="session_id.")]
Project = Annotated[str | None, typer.Option(help="Boosts memories of this project.")]
AsOf = Annotated[str | None, typer.Option(help="What was true then: 2026-01-31, or with a time.")]
Budget = Annotated[int | None, typer.Option(help="Characters of a block at most.")]
MaxResults = Annotated[int | None, typer.Option(help="Excerpts in a block at most.")]
TimeoutMs = Annotated[int | None, typer.Option(help="For everything, end to end.")]
Cursor = Annotated[str | None, typer.Option(help="Where the page before ended, as it says.")]
PageSize = Annotated[int, typer.Option("--limit", min=1, max=100, help="How many a page.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Also what stands behind the answer.")]
