"""`fusion mcp`: the MCP tools on stdin and stdout, for one client and the home's server."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

from mcp.server.stdio import stdio_server

from fusion.client import AsyncClient
from fusion.doors.direct import is_unwritable, opened_here
from fusion.doors.mcp.server import ToolSet, server_of
from fusion.doors.mcp.tools import Caller
from fusion.errors import FusionError, ServerUnreachable
from fusion.home import Located
from fusion.settings import load
from fusion.trust import require

START_S = 20.0
"""seconds that a tool call waits for the home's server before it reports that the server is still starting"""


async def serve_stdio(
    home: Path | Located,
    config: Path | None,
    fixed: Mapping[str, str],
    *,
    all_users: bool = False,
    create: bool = True,
    tools: ToolSet = "fusion",
) -> None:
    """Serve a client on stdin and stdout until it closes them; meanwhile finds the home's server, or starts it.

    While the user has not allowed the home, or (without ``create``) while it does not exist, each tool reports that.
    ``tools`` says whose tools they are.
    """
    logging.basicConfig(level=logging.WARNING)  # on stderr: stdout is the protocol's
    async with AsyncExitStack() as stack:
        located = home if isinstance(home, Located) else Located(home, named=True)
        gateway = await _gateway(located, config, stack, create)
        starting = asyncio.create_task(gateway.health())
        session = f"mcp-{secrets.token_hex(8)}"

        async def caller_of(context: Any) -> Caller:
            """Waits for the server's start, which is under way; once that has failed, each call tries for itself."""
            started, _ = await asyncio.wait({starting}, timeout=START_S)
            if not started:
                raise ServerUnreachable(f"The server of {located.path} is still starting; try again in a moment.")
            return Caller(gateway, fixed, session, all_users)

        served = server_of(tools, caller_of)
        try:
            async with stdio_server() as (incoming, outgoing):
                await served.run(incoming, outgoing, served.create_initialization_options())
        finally:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)


async def _gateway(home: Located, config: Path | None, stack: AsyncExitStack, create: bool) -> AsyncClient:
    """A client of the home's server; of the home itself, opened here, where nothing can be written into it."""
    client = AsyncClient.of_home(home, config=config, create=create)
    if not create and not home.path.is_dir():
        return await stack.enter_async_context(client)
    with suppress(FusionError):  # each tool reports what is wrong with the home
        folder = require(home.path, named=home.named, config=config)
        if await asyncio.to_thread(is_unwritable, folder):
            settings = load(config, home=folder).model_copy(update={"home": folder})
            return await stack.enter_async_context(opened_here(settings))
    return await stack.enter_async_context(client)
