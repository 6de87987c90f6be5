"""ArcadeDB with its Bolt door, as a process of its own: python arcade_server.py FOLDER PORT

Prints one line of JSON when it is up, and ends with its standard input: also when the tests are killed. Port 0 takes a
free one. A database "test" is there, or made.
"""

from __future__ import annotations

import json
import os
import random
import socket
import sys
from contextlib import suppress
from pathlib import Path

# Small and quick to start; the JVM reads it once.
os.environ["ARCADEDB_JVM_ARGS"] = "-Xmx384m -Xms64m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def free_port() -> int:
    """A free port below those that the system gives to connections, one of which might take it before the JVM does."""
    while True:
        port = random.randrange(20_000, 30_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def main(folder: str, port: int) -> None:
    from arcadedb_embedded import create_server

    port = port or free_port()
    out = os.dup(1)
    os.dup2(2, 1)  # the JVM's chatter goes to stderr
    server = create_server(
        root_path=folder,
        root_password="test-password",
        config={
            "host": "127.0.0.1",
            "http_port": free_port(),
            "server_plugins": "Bolt:com.arcadedb.bolt.BoltProtocolPlugin",
            "bolt_host": "127.0.0.1",
            "bolt_port": port,
        },
    )
    server.start()
    if not Path(folder, "databases", "test").exists():
        server.create_database("test")
    os.write(out, json.dumps({"bolt": f"bolt://127.0.0.1:{port}"}).encode() + b"\n")
    sys.stdin.read()
    os._exit(0)  # the JVM would wait for its threads


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
