"""Makes the files by which `fusion mcp` lists its tools: `python -m tests.doors.mcp_listing [--write]`.

They say what the MCP SDK's server says of the same tools, and what each tool returns without a server.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from typing import Any, get_args

from mcp import Client

from fusion.doors.mcp import ToolSet
from fusion.doors.mcp.server import server_of
from fusion.doors.mcp.tools import Caller
from fusion.doors.mcp_stdio.listing import WHY, file_of
from fusion.errors import ServerUnreachable

SAMPLE = {"query": "x", "message": "x", "ref": "m1", "recordRef": "m1", "text": "x", "content": "x", "id": "m1"}
"""an argument of each name that a tool may require"""


async def listed(tools: ToolSet) -> dict[str, Any]:
    """What the file of a set of tools says."""

    async def caller_of(context: Any) -> Caller:
        raise ServerUnreachable(WHY)

    async with Client(server_of(tools, caller_of), mode="legacy") as client:
        found = [
            tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in (await client.list_tools()).tools
        ]
        server = client.server_info.model_dump(mode="json", by_alias=True, exclude_none=True)
        results = {tool["name"]: await _without_server(client, tool) for tool in found}
        unavailable = {name: result for name, result in results.items() if result is not None}
        return {"server": server, "instructions": client.instructions, "tools": found, "unavailable": unavailable}


async def _without_server(client: Client, tool: Mapping[str, Any]) -> dict[str, Any] | None:
    """The result of a tool that the gateway has not answered; None for the plain error."""
    schema = tool["inputSchema"]
    wanted = schema.get("required", []) or [name for name in ("ref", "query") if name in schema["properties"]][:1]
    result = await client.call_tool(tool["name"], {name: SAMPLE.get(name, "x") for name in wanted})
    found = result.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"result_type"})
    if found == {"content": [{"type": "text", "text": WHY}], "isError": True}:
        return None
    return found


def text_of(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def main(write: bool) -> None:
    for tools in get_args(ToolSet):
        text = text_of(asyncio.run(listed(tools)))
        if write:
            file_of(tools).parent.mkdir(exist_ok=True)
            file_of(tools).write_text(text, encoding="utf-8")
        else:
            sys.stdout.write(text)


if __name__ == "__main__":
    main("--write" in sys.argv[1:])
