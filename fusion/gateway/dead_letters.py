"""What triage shows of the records that a harvest refused: how many, from where, and why."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from fusion.ingest.forget import shorten
from fusion.store.dead_letters import Listed

PREFIX = "dead-letters:"
"""the prefix of the id of their item, before the time of the newest one"""
SHOWN = 3
"""sources and reasons that are named; the others are counted"""
OWN = "the log of observations"
_LINE = re.compile(r":\d+\Z")
_OWN = re.compile(r"\d+#\d+\Z|segment-\d+\Z")


def item_of(letters: Sequence[Listed]) -> str:
    """The id of the item of these letters, as short as a table needs it. It does not mean letters that come later."""
    return f"{PREFIX}{max(one.at for one in letters).astimezone(UTC):%Y%m%dT%H%M%S.%f}Z"


def newest_of(item: str) -> datetime | None:
    """The time of the newest letter that an id means, or None if it means none."""
    try:
        at = datetime.fromisoformat(item.removeprefix(PREFIX))
    except ValueError:
        return None
    return None if at.tzinfo is None else at


def source_of(where: str) -> str:
    """The source of a letter: the name of its file, or our own log."""
    return OWN if _OWN.match(where) else _LINE.sub("", where.removeprefix("file:"))


def summary(letters: Sequence[Listed]) -> str:
    """The sources of letters and their most frequent reasons, in one line without secrets."""
    sources = _counted(source_of(one.where) for one in letters)
    reasons = _counted(one.reason for one in letters)
    return f"from {sources}. Why: {reasons}"


def _counted(names: Iterable[str]) -> str:
    counts = Counter(names).most_common()
    shown = [f"{shorten(name)} ({count:,})" for name, count in counts[:SHOWN]]
    return ", ".join([*shown, *([f"{len(counts) - SHOWN:,} others"] if len(counts) > SHOWN else [])])
