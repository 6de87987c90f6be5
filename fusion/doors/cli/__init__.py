"""The command line: ask, remember, look, tend, measure and serve have the commands; `app` groups them in its help."""

from fusion.doors.cli.app import app, main

__all__ = ["app", "main"]
