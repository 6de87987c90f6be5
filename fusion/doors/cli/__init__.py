"""The command line, by themes: ask, keep, measure, operate; `app` lists them in the order of the help."""

from fusion.doors.cli.app import app, main

__all__ = ["app", "main"]
