"""Runs `fusion mcp`: directly for its usual options, and for others after the command line has checked them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fusion.doors.direct import is_unwritable
from fusion.doors.mcp import ToolSet
from fusion.doors.mcp_stdio.listing import listing_of
from fusion.doors.mcp_stdio.protocol import Protocol
from fusion.doors.mcp_stdio.pump import Pump, write_all
from fusion.doors.mcp_stdio.upstream import HomeServer
from fusion.errors import FusionError
from fusion.home import Located, locate_home
from fusion.trust import require

SCOPE = {"--user": "user_id", "--agent": "agent_id", "--session": "session_id", "--project": "project"}
"""the options of a scope with the fields that they fix"""
FLAGS: Mapping[str, ToolSet] = {"--cortex": "cortex", "--openclaw-mem": "openclaw-mem", "--qmd": "qmd"}
MAX_ID_CHARS = 256


def run(options: Sequence[str]) -> bool:
    """Serve by the usual options until the client goes; returns False, and does nothing, for any others."""
    home: Path | None = None
    tools: ToolSet = "fusion"
    fixed: dict[str, str] = {}
    left = list(options)
    while left:
        option = left.pop(0)
        if option in FLAGS and tools == "fusion":
            tools = FLAGS[option]
        elif option == "--all-users":
            fixed["all_users"] = "true"
        elif option not in {*SCOPE, "--home", "--audience"} or not left or not _is_plain(value := left.pop(0)):
            return False
        elif option == "--home":
            home = Path(value)
        elif option != "--audience":
            fixed[SCOPE[option]] = value
        elif value in ("private", "group"):
            fixed["audience"] = value
        else:
            return False
    serve(locate_home(home), None, fixed, create=home is None and not os.environ.get("FUSION_HOME"), tools=tools)
    return True


def _is_plain(value: str) -> bool:
    """Whether a value needs no check: an id or a path in printable characters that is no option."""
    return 0 < len(value) <= MAX_ID_CHARS and value.isprintable() and value.strip() == value and value[0] != "-"


def serve(
    home: Located, config: Path | None, fixed: Mapping[str, str], *, create: bool = True, tools: ToolSet = "fusion"
) -> None:
    """Serve a client on stdin and stdout until it closes them; meanwhile finds the home's server, or starts it.

    ``fixed`` has the fields of a scope that no call may leave, and ``all_users``. While the user has not allowed the
    home, or (without ``create``) while it does not exist, each tool reports that.
    """
    if (create or home.path.is_dir()) and _has_no_room(home, config):
        from fusion.doors.mcp_stdio.here import serve_here

        serve_here(home, config, fixed, tools)
        return
    server = HomeServer(home, config, tools, fixed, create=create)
    server.start()
    with suppress(OSError):  # a closed stdin has ended
        Pump(Protocol(listing_of(tools)), server, write_all).run(lambda size: os.read(0, size))


def _has_no_room(home: Located, config: Path | None) -> bool:
    """Whether no server can start because nothing can be written into the home."""
    with suppress(FusionError):  # each tool reports what is wrong with the home
        return is_unwritable(require(home.path, named=home.named, config=config))
    return False
