"""`fusion mcp`: the MCP tools on stdin and stdout, for one client and the home's server.

A host waits for the first replies of an MCP server before its model may work, some of them for two seconds only. So
the handshake and the list of tools are answered here, from files that were made from the tools (`listing`), without the
MCP SDK, asyncio or any other heavy import. Calls of tools go to `/mcp` of the home's server, which is found or started
meanwhile. `protocol` decides what a message gets, `pump` reads and writes, `upstream` asks the server. `here` serves a
home in which nothing can be written, so that no server can start.
"""
