"""The command `fusion`, also as `python -m fusion`."""

from __future__ import annotations

import gc
import os
import sys

if __name__ == "__main__" and not sys.flags.safe_path and __file__ != f"{sys.path[0]}/fusion/__main__.py":
    # `python -m` puts the working folder first: an orjson.py of a cloned repository must not run in place of orjson.
    del sys.path[0]

from fusion.doors.terminal import guard


def main() -> None:
    """An agent waits for its hooks and for `fusion mcp`, so these do not wait for the other commands to be imported."""
    guard()
    # BLAS reads it as numpy is imported, before a command runs. Its waiting threads took a quarter of a server's CPU.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(20_000, 50, 50)  # imports make few cycles; to look for them is a tenth of the start
    name, *arguments = sys.argv[1:] or [""]
    if name == "hook" and not {"-h", "--help"} & set(arguments):
        from fusion.doors.hooks import main as hook

        hook(arguments)
        os._exit(0)  # all is written: to take the interpreter down takes longer than the connection to the server
    if name == "statusline" and not {"-h", "--help"} & set(arguments):
        from fusion.doors.statusline import main as statusline

        statusline(arguments)
        os._exit(0)
    if name == "mcp":
        from fusion.doors.mcp_stdio.command import run as mcp

        if mcp(arguments):
            os._exit(0)  # threads may still wait for a server
    from fusion.doors.cli import main as command

    command()


if __name__ == "__main__":
    main()
