"""When what a plan announces is due, by the words of its text: "remind me in March", "by next Tuesday"."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from fusion.contract import Event, Kind, Moment
from fusion.lib.moment import end_of
from fusion.lib.times import windows
from fusion.lib.translated_times import in_english

MAX_CHARS = 2_000
"""characters of a text in which a time is looked for"""
_ANNOUNCES = re.compile(
    r"(?<!\w)(?:remind (?:me|us|him|her|them)|reminder|to-?do|don['’]t (?:let me )?forget|remember to|follow up"
    r"|erinner[en]? mich|rappelle[- ]moi|recu[ée]rdame|ricordami)(?!\w)",
    re.IGNORECASE,
)
_KINDS: frozenset[Kind] = frozenset({"note"})
"""kinds of which a memory announces something only if its words say so"""


def due_of(event: Event) -> Moment | None:
    """The time at which a plan is due, or a note that asks to be reminded; None if it names none.

    It is the first time of the text that is not over when it was said; months, weekdays and days without a year are
    the next ones.
    """
    text = event.text[:MAX_CHARS]
    if event.kind != "plan" and not (event.kind in _KINDS and _ANNOUNCES.search(text)):
        return None
    said = event.at if event.at is not None else Moment(event.recorded_at)
    return first_after(text, replace(said, until=None))


def first_after(text: str, said: Moment) -> Moment | None:
    """The first time that a text names which ends after ``said``."""
    for window in windows(in_english(text), said, ahead=True):
        if window.end > said.utc:
            at = window.at or Moment(window.start, "day", said.zone)
            return at if end_of(at) == window.end else replace(at, until=window.end)
    return None


def due_end(due: Moment) -> datetime | None:
    """When a due time is over; None beyond the end of the calendar."""
    with suppress(OverflowError, ValueError):
        return end_of(due)
    return None
