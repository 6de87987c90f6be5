"""Serves the MCP tools of a home that this process opens itself, because nothing can be written into it."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mcp.server.stdio import stdio_server

from fusion.doors.direct import opened_here
from fusion.doors.mcp import ToolSet
from fusion.doors.mcp.server import server_of
from fusion.doors.mcp.tools import Caller
from fusion.home import Located
from fusion.settings import load
from fusion.trust import require


def serve_here(home: Located, config: Path | None, fixed: Mapping[str, str], tools: ToolSet) -> None:
    """Serve a client on stdin and stdout until it closes them, by the MCP SDK."""
    logging.basicConfig(level=logging.WARNING)  # on stderr: stdout is the protocol's
    asyncio.run(_serve(home, config, fixed, tools))


async def _serve(home: Located, config: Path | None, fixed: Mapping[str, str], tools: ToolSet) -> None:
    folder = require(home.path, named=home.named, config=config)
    scope = {name: value for name, value in fixed.items() if name != "all_users"}
    async with opened_here(load(config, home=folder).model_copy(update={"home": folder})) as gateway:
        caller = Caller(gateway, scope, f"mcp-{secrets.token_hex(8)}", "all_users" in fixed)

        async def caller_of(context: Any) -> Caller:
            return caller

        served = server_of(tools, caller_of)
        async with stdio_server() as (incoming, outgoing):
            await served.run(incoming, outgoing, served.create_initialization_options())
