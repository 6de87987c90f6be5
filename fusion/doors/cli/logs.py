"""`fusion logs`: what the server of a home has logged."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fusion.client import LOG
from fusion.doors import server_log
from fusion.doors.cli.command import Target, command
from fusion.doors.cli.connect import print_json
from fusion.errors import BadInput, NotFound

LOOK_S = 0.3
"""seconds between two looks at a log that is followed"""
_TRACE = re.compile(r"(?:[0-9a-f]{2}-)?([0-9a-f]{32})(?:-[0-9a-f]{16}-[0-9a-f]{2})?")
Level = Literal["debug", "info", "warning", "error"]


@command(without=["direct"])
def logs(
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is logged from now on.")] = False,
    level: Annotated[Level, typer.Option(help="Leave out what is less important.")] = "info",
    since: Annotated[str | None, typer.Option(help="Leave out what is older: 30m, 2h, 1d, or an ISO time.")] = None,
    request: Annotated[str | None, typer.Option(help="Only what was logged for this request, by its id.")] = None,
    trace: Annotated[str | None, typer.Option(help="Only what was logged in this trace of OpenTelemetry.")] = None,
    target: Target,
) -> None:
    """Show what the server of a home logged.

    A server that another command started logs to server.log in the home; one in a terminal logs there. --json prints
    one line of JSON for each entry.
    """
    file = target.folder() / LOG
    trace_id = None if trace is None else trace_id_of(trace)
    after = None if since is None else server_log.since_of(since, datetime.now(UTC))
    if not file.exists() and not follow:
        raise NotFound(f"There is no {file}: no command has started a server of this home yet.")
    lines = _followed(file) if follow else _kept(file)
    for entry in server_log.entries(lines) if not follow else _at_once(lines):
        if server_log.is_wanted(entry, level, after, request, trace_id):
            _show(entry, as_json=target.as_json)


def trace_id_of(text: str) -> str:
    """The id of a trace, also of one in a `traceparent`. Raises BadInput."""
    found = _TRACE.fullmatch(text.strip().lower())
    if found is None:
        raise BadInput(f"trace: {text!r} is no id of a trace: it has 32 hexadecimal digits, as a traceparent does")
    return found[1]


def _kept(file: Path) -> Iterator[str]:
    """The lines of the log, those of the full one before it first."""
    yield from _lines(file.with_name(f"{file.name}.1"))
    yield from _lines(file)


def _lines(file: Path) -> Iterator[str]:
    if file.is_file():
        with file.open(encoding="utf-8", errors="replace") as opened:
            yield from opened


def _followed(file: Path) -> Iterator[str]:
    """The lines of the log, and every further one, until the command is interrupted."""
    yield from _lines(file.with_name(f"{file.name}.1"))
    read = 0
    while True:
        size = file.stat().st_size if file.exists() else 0
        if size < read:  # it was full, and begins anew
            read = 0
        if size > read:
            with file.open("rb") as opened:
                opened.seek(read)
                whole = opened.read(size - read)
            whole = whole[: whole.rfind(b"\n") + 1]
            read += len(whole)
            yield from whole.decode("utf-8", "replace").splitlines(keepends=True)
        time.sleep(LOOK_S)


def _at_once(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """An entry for each line, without waiting for lines that may belong to it."""
    for line in lines:
        yield from server_log.entries([line])


def _show(entry: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(entry)
        return
    ids = server_log.in_brackets(entry)
    name = f"{entry['logger']}: " if entry["logger"] else ""
    print(f"{entry['at'] or ''} {entry['level'].upper()} {name}{entry['message']}{ids}".strip(), flush=True)
    if "trace" in entry:
        print(entry["trace"], flush=True)
