"""The MCP door: memory tools for agents, over HTTP (`/mcp`); `fusion mcp` passes calls on to it (`doors.mcp_stdio`).

Importing `tools` or a module that uses it takes half a second of CPU, nearly all of it for the MCP SDK.
"""

from typing import Literal

ToolSet = Literal["fusion", "cortex", "openclaw-mem", "qmd"]
"""whose tools a server has: ours, openclaw-cortex's, openclaw-mem's or QMD's"""
