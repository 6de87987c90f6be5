"""`fusion mem`: the commands of openclaw-mem over the fused memory, under the names that its users know.

Each module here has the commands of one part; `COMMANDS` names them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import typer

from fusion.doors.cli.mem.attention import triage
from fusion.doors.cli.mem.episodes import app as episodes
from fusion.doors.cli.mem.extract import extract
from fusion.doors.cli.mem.flags import LedgerGroup
from fusion.doors.cli.mem.grades import grade
from fusion.doors.cli.mem.graph import app as graph_app
from fusion.doors.cli.mem.intake import harvest, ingest
from fusion.doors.cli.mem.look import profile, status
from fusion.doors.cli.mem.pack import pack
from fusion.doors.cli.mem.prefix import prefix
from fusion.doors.cli.mem.recall import get, recall, search, timeline
from fusion.doors.cli.mem.standing import plans, trust
from fusion.doors.cli.mem.store import capsule, export, store
from fusion.doors.cli.why import why

COMMANDS: Mapping[str, Callable[..., None]] = {
    "search": search,
    "recall": recall,
    "timeline": timeline,
    "get": get,
    "pack": pack,
    "why": why,
    "store": store,
    "extract": extract,
    "ingest": ingest,
    "harvest": harvest,
    "triage": triage,
    "status": status,
    "profile": profile,
    "export": export,
    "grade": grade,
    "prefix": prefix,
    "trust": trust,
    "plans": plans,
}
"""the commands by name, the most used first"""

app = typer.Typer(
    cls=LedgerGroup,
    help="The commands of openclaw-mem over the fused memory: Store, Pack, Observe.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for name, command in COMMANDS.items():
    app.command(name)(command)
app.add_typer(graph_app, name="graph")
app.add_typer(episodes, name="episodes")
app.add_typer(capsule, name="capsule")
