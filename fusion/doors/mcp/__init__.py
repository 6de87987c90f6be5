"""The MCP door: six memory tools for agents, over stdin and stdout (`fusion mcp`) and over HTTP (`/mcp`).

Importing `tools` or a module that uses it takes half a second of CPU, nearly all of it for the MCP SDK.
"""
