"""The ways in: HTTP, the command line, MCP and the hooks of Claude Code. Each parses, calls the gateway and prints."""
