"""Run as a process: drops to another user if told to, and tries to read what its standard input lists.

Input: {"uid": number or null, "requests": [[port, method, path, headers, body]], "files": [path]}. Output: {"replies":
[[status, body]], "read": [path]}, a reply for each request, and the files and folders that could be opened.
"""

from __future__ import annotations

import json
import os
import sys
from http.client import HTTPConnection, HTTPException


def main() -> None:
    tried = json.load(sys.stdin)
    "localhost".encode("idna")  # loads what connecting needs, for the other user may not read Python's own files
    if tried["uid"] is not None:
        os.setgroups([])
        os.setgid(tried["uid"])
        os.setuid(tried["uid"])
    connections: dict[int, HTTPConnection] = {}
    replies = [reply(connections, *request) for request in tried["requests"]]
    json.dump({"replies": replies, "read": [path for path in tried["files"] if opens(path)]}, sys.stdout)


def reply(
    connections: dict[int, HTTPConnection], port: int, method: str, path: str, headers: dict[str, str], body: str
) -> tuple[int, str]:
    connection = connections.setdefault(port, HTTPConnection("127.0.0.1", port, timeout=30))
    try:
        connection.request(method, path, body or None, headers)
        with connection.getresponse() as response:
            return response.status, response.read().decode("utf-8", "replace")
    except (OSError, HTTPException) as error:
        connection.close()
        return 0, type(error).__name__


def opens(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))  # a folder, too
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
