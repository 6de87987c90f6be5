"""QMD, the Markdown search engine, over the fused memory: its HTTP routes and its four MCP tools, in its shapes.

`Library` does what QMD does, through a client of the gateway. A document is one of the home, or a memory that is in
none. All of them are in one collection, `addresses.COLLECTION`, but those that a QMD behind the gateway has: they keep
their addresses.
"""
