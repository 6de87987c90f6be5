"""What a set of tools says about itself: its name, its instructions, its tools, and their results without a server.

The files are made from the tools and the MCP SDK's own server by `python -m tests.doors.mcp_listing --write`; a test
compares them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fusion.doors.mcp import ToolSet

WHY = "{why}"
"""stands for the reason in the text of a result that is given without a server"""


class Listing(NamedTuple):
    """A set of tools, in the JSON of the protocol. ``unavailable`` has a result for each tool that fails open."""

    server: Mapping[str, Any]
    instructions: str
    tools: list[Mapping[str, Any]]
    unavailable: Mapping[str, Mapping[str, Any]]

    def without_server(self, tool: str, why: str) -> dict[str, Any]:
        """The result of a call that no server has answered: empty for a recall, an error for the others."""
        found = self.unavailable.get(tool)
        if found is None:
            return {"content": [{"type": "text", "text": why}], "isError": True}
        filled: dict[str, Any] = _fill(found, why)
        return filled


def _fill(value: Any, why: str) -> Any:
    """A value with the reason in its texts; in a text that is JSON itself, the reason is escaped."""
    if isinstance(value, dict):
        return {name: _fill(one, why) for name, one in value.items()}
    if isinstance(value, list):
        return [_fill(one, why) for one in value]
    if isinstance(value, str) and WHY in value:
        return value.replace(WHY, json.dumps(why)[1:-1] if value.startswith('{"') else why)
    return value


def file_of(tools: ToolSet) -> Path:
    """The file of a set of tools."""
    return Path(__file__).parent / "listings" / f"{tools}.json"


def listing_of(tools: ToolSet) -> Listing:
    """A set of tools as its file has it."""
    found = json.loads(file_of(tools).read_text(encoding="utf-8"))
    return Listing(found["server"], found["instructions"], found["tools"], found["unavailable"])
