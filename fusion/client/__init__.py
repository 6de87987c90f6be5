"""The gateway's Python client, for programs, hooks and the command line.

    with Client.of_home() as memory:                 # finds the home's server, or starts it
        print(memory.fuse("what did we decide about the database?")["block"])

    async with AsyncClient("http://127.0.0.1:8765", api_key=…) as memory:
        await memory.remember([{"text": "Julien prefers Neo4j", "user_id": "julien"}])

`calls` has one function for each request; it builds a `Call`, which `sync` and `aio` send. Errors are those of
`fusion.errors`, as the server raised them, and ServerUnreachable when no server answers.

Commands import this first, so it imports neither httpx nor asyncio: `Client` uses the standard library's HTTP with one
connection for each request, and `AsyncClient` imports httpx on first use. Hooks use `fusion.local_server` instead.
"""

from fusion.client.address import TIMEOUT_S
from fusion.client.aio import AsyncClient
from fusion.client.server_process import ensure_connection, ensure_server, open_log, stop_server
from fusion.client.sync import Client, client_of
from fusion.local_server import LOG

__all__ = [
    "LOG",
    "TIMEOUT_S",
    "AsyncClient",
    "Client",
    "client_of",
    "ensure_connection",
    "ensure_server",
    "open_log",
    "stop_server",
]
