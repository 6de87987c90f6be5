"""Loaded by every Python process of an attack, servers that it starts included: writes down what the process does.

An audit hook cannot be taken away by what runs later. A line a fact, in the file that FUSION_FIRE_LOG names.
"""

import os
import sys

_LOG = os.open(os.environ["FUSION_FIRE_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
_HOME = os.environ["FUSION_FIRE_HOME"]
_PRIVATE = os.environ["FUSION_FIRE_PRIVATE"]
_PLACES = {
    "open": 0,
    "sqlite3.connect": 0,
    "os.remove": 0,
    "os.rename": 1,
    "os.mkdir": 0,
    "os.truncate": 0,
    "os.chmod": 0,
    "os.listdir": 0,
    "os.scandir": 0,
    "os.link": 1,
    "os.symlink": 1,
}


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    fact = None
    if event in _PLACES:
        place = arguments[_PLACES[event]]
        path = os.fsdecode(place) if isinstance(place, str | bytes) else str(place)
        if path.startswith((_HOME, "file:" + _HOME)) or _PRIVATE in path:
            fact = f"{event} {path}"
    elif event in ("socket.connect", "socket.sendto"):
        address = arguments[1]
        if isinstance(address, tuple):
            fact = f"connect {address[0]}"
    elif event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "pty.spawn"):
        fact = f"process {arguments[0]}"
    elif event == "os.kill":
        fact = f"kill {arguments[0]} {arguments[1]}"
    elif event == "pickle.find_class":
        fact = f"pickle {arguments[0]}.{arguments[1]}"
    elif event == "import" and str(arguments[0]).startswith("hostile"):
        fact = f"import {arguments[0]}"
    if fact is not None:
        os.write(_LOG, fact.replace("\n", " ").encode("utf-8", "replace") + b"\n")


sys.addaudithook(_watch)
