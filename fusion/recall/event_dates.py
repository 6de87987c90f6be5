"""The time that a question gives by an event: "before we moved", "after the wedding", "since I changed jobs".

The event is searched for, and dates the question only if the memories that say it agree on the day: in one sentence,
with all of its words, as something that happened. Rules for English.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Literal, cast

from fusion.contract import Hit, Moment, Query
from fusion.lib.bm25 import terms
from fusion.lib.moment import anchored, end_of, zone_of
from fusion.lib.times import windows
from fusion.recall.filter import Admitted
from fusion.recall.query_dates import time_of

MAX_WORDS = 8
"""words of an event"""
MAX_APART = timedelta(days=3)
"""time between memories that say the same event"""
SEARCHED = 20
"""hits of each backend among which the event is looked for"""

Side = Literal["before", "after", "since", "until"]

_EVENT = re.compile(
    r"\b(?P<side>(?i:before|after|since|until|till))\s+"
    r"(?P<event>(?:(?i:the|my|our|his|her|their|your|i|we|he|she|they|you)|[A-Z]\w+)"
    rf"(?:\s+[\w'’-]+){{1,{MAX_WORDS}}})(?=\s*(?:[,.;:?!\n]|$))"
)
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]?")
_HEADING = re.compile(r"^ {0,3}#{1,6} .+", re.MULTILINE)
_DID_NOT_HAPPEN = re.compile(
    r"\?|\b(?:will|shall|would|should|could|might|may|going to|gonna|plan\w*|want\w*|hop(?:e|es|ed|ing)|think\w*|"
    r"thought|dream\w*|if|not|never|before|after|since|until|till|about to|consider\w*)\b|n['’]t\b|['’]ll\b",
    re.IGNORECASE,
)
_FIRST = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Event:
    """An event in a question: its words, their position with the preposition, and which side of it is asked for."""

    words: str
    side: Side
    span: tuple[int, int]


@dataclass(frozen=True, slots=True)
class EventTime:
    """The days that an event gives a question, both included, and the memory that dates it."""

    event: Event
    first: date
    last: date
    ref: str

    def in_place(self, text: str) -> str:
        """The question with these days instead of the event."""
        begin, end = self.event.span
        return f"{text[:begin]}from {self.first} to {self.last}{text[end:]}"

    def left_out(self, text: str) -> str:
        """The question without the event."""
        begin, end = self.event.span
        return (text[:begin].rstrip() + text[end:]).strip()

    def report(self) -> dict[str, str]:
        """What a receipt has of it."""
        return {"ref": self.ref, "from": self.first.isoformat(), "to": self.last.isoformat()}


def event_in(query: Query) -> Event | None:
    """The event that a question names, if it names no other time."""
    match = _EVENT.search(query.text)
    if match is None or not terms(match["event"]) or any(windows(query.text, Moment(query.now, zone=query.zone))):
        return None
    side = match["side"].lower()
    side = "until" if side == "till" else side
    return Event(match["event"], cast(Side, side), match.span())


def dated_by(event: Event, found: Sequence[Admitted], query: Query) -> EventTime | None:
    """The time of an event by the memories that say it; None if none does, or if they disagree on the day.

    A note that has the event as a heading is about it: it tells what came of the event, and is searched for its words.
    """
    if any(_has_heading(event, item.hit) for item in found):
        return None
    dated = list(_days_of(event, found, query))
    if not dated:
        return None
    begins = [begin for begin, _, _ in dated]
    if max(begins) - min(begins) > MAX_APART:
        return None
    zone, ref = zone_of(query.zone), dated[0][2]
    first = min(begins).astimezone(zone).date()
    last = (max(end for _, end, _ in dated) - timedelta(microseconds=1)).astimezone(zone).date()
    today, day = query.now.astimezone(zone).date(), timedelta(days=1)
    match event.side:
        case "before" | "until":
            return EventTime(event, _FIRST, first - day if event.side == "before" else last, ref)
        case "after" | "since":
            start = last + day if event.side == "after" else first
            return EventTime(event, start, today, ref) if start <= today else None


def _has_heading(event: Event, hit: Hit) -> bool:
    wanted = frozenset(terms(event.words))
    return any(wanted.issubset(terms(heading)) for heading in _HEADING.findall(hit.text))


def _days_of(event: Event, found: Iterable[Admitted], query: Query) -> Iterable[tuple[datetime, datetime, str]]:
    """The beginning and end of the event by each memory that says it, with the memory's ref."""
    wanted = frozenset(terms(event.words))
    for item in found:
        hit = item.hit
        if hit.external or hit.trust == "untrusted" or hit.origin == "tool":
            continue
        for sentence in _SENTENCE.findall(hit.text):
            if wanted.issubset(terms(sentence)) and not _DID_NOT_HAPPEN.search(sentence):
                when = _when(sentence, hit, query)
                if when is not None:
                    yield *when, item.ref
                    break


def _when(sentence: str, hit: Hit, query: Query) -> tuple[datetime, datetime] | None:
    """The time that a sentence names, else that of its memory, if it is exact to the day."""
    at = time_of(hit)
    said = anchored(at or Moment(hit.recorded_at or query.now), query.zone)
    named = [window for window in windows(sentence, said) if window.at is not None]
    if named:
        exact = [one for one in named if one.end - one.start <= MAX_APART]
        return (exact[0].start, exact[0].end) if len(exact) == len(named) == 1 else None
    if at is None or at.precision in ("month", "year"):
        return None
    at = anchored(at, query.zone)
    return at.utc, end_of(at)
