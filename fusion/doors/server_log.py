"""The lines of a server's log: how they are written, as text or as JSON, and how they are read again."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from fusion.errors import BadInput
from fusion.lib import trace
from fusion.lib.request_id import REQUEST_ID

LEVELS = ("debug", "info", "warning", "error", "critical")
TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_MAX_LINE = 20_000
"""characters of a line that are read"""
_LINE = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(?P<ms>\d{3}) (?P<level>[A-Z]{4,8}) (?P<logger>[\w.]{1,99}): "
    r"(?P<message>.*)"
)
_IDS = re.compile(
    r" \[(?=request |trace )(?:request (?P<request>[A-Za-z0-9._-]{1,64})(?:, (?=trace )|(?=\])))?"
    r"(?:trace (?P<trace_id>[0-9a-f]{32}))?\]$"
)
_AGO = re.compile(r"(\d{1,6})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class TextLines(logging.Formatter):
    """One line for people; a record of a request ends with its id, and with that of its trace."""

    def __init__(self) -> None:
        super().__init__(TEXT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        return super().formatMessage(record) + in_brackets(_ids(record))


class JsonLines(logging.Formatter):
    """One object for each record: at, level, logger, message, and request, trace_id and trace where there are some.

    ``trace`` has the lines of an exception.
    """

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= _ids(record)
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line)


def _ids(record: logging.LogRecord) -> dict[str, str]:
    """The ids of the request and of the trace that a record belongs to, as far as there are some."""
    ids = {"request": REQUEST_ID.get(), "trace_id": getattr(record, "trace_id", "") or trace.trace_id()}
    return {name: value for name, value in ids.items() if value}


def in_brackets(entry: Mapping[str, str]) -> str:
    """The ids of an entry as they end a line of text; "" without one."""
    words = {"request": "request", "trace_id": "trace"}
    ids = ", ".join(f"{word} {entry[name]}" for name, word in words.items() if name in entry)
    return f" [{ids}]" if ids else ""


def entries(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The entries of a log in either format. A line of neither, such as of a trace, belongs to the entry before it."""
    current: dict[str, Any] | None = None
    for line in lines:
        entry = _entry(line.rstrip("\n")[:_MAX_LINE])
        if entry is not None:
            if current is not None:
                yield current
            current = entry
        elif current is None:
            current = {"at": None, "level": "info", "logger": "", "message": line.rstrip("\n")[:_MAX_LINE]}
        else:
            current["trace"] = f"{current['trace']}\n{line.rstrip()}" if "trace" in current else line.rstrip()
    if current is not None:
        yield current


def _entry(line: str) -> dict[str, Any] | None:
    if line.startswith("{"):
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) and {"at", "level", "logger", "message"} <= found.keys() else None
    found_text = _LINE.fullmatch(line)
    if found_text is None:
        return None
    at = datetime.strptime(found_text["at"], "%Y-%m-%d %H:%M:%S").astimezone().astimezone(UTC)
    message = found_text["message"]
    entry = {
        "at": (at + timedelta(milliseconds=int(found_text["ms"]))).isoformat(timespec="milliseconds"),
        "level": found_text["level"].lower(),
        "logger": found_text["logger"],
        "message": message,
    }
    if ids := _IDS.search(message):
        named = {name: value for name, value in ids.groupdict().items() if value is not None}
        entry |= {"message": message[: ids.start()], **named}
    return entry


def is_wanted(
    entry: Mapping[str, Any], level: str, since: datetime | None, request: str | None, trace_id: str | None = None
) -> bool:
    """Whether an entry has at least this level, is not older, and is of this request and of this trace."""
    rank = LEVELS.index(entry["level"]) if entry["level"] in LEVELS else 1
    if rank < LEVELS.index(level):
        return False
    if any(one is not None and entry.get(n) != one for n, one in (("request", request), ("trace_id", trace_id))):
        return False
    return since is None or (at := _time(entry["at"])) is None or at >= since


def _time(text: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.astimezone()


def since_of(text: str, now: datetime) -> datetime:
    """The time of `30m`, `2h` or `1d` ago, or an ISO time. Raises BadInput."""
    if ago := _AGO.fullmatch(text.strip()):
        return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    at = _time(text.strip())
    if at is None:
        raise BadInput(f"since: {text!r} is no time. Write 30m, 2h or 1d for how long ago, or 2026-03-14T09:30")
    return at
