"""The ways in: HTTP, the command line, MCP and Claude Code's hooks.

Only HTTP calls the gateway; the others are clients of the home's server (`fusion.client`).
"""
