"""Extracts kind, entities, facts, times and episodes from an event by rules, once for all backends.

Everything here is a pure function of the event, linear in its text, and never raises. The rules prefer precision: no
facts come from questions, conditions, negations, or subjects that are only pronouns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice

from fusion.contract import REFLECTION, Entity, Episode, Event, Extraction, Kind, Moment
from fusion.ingest.entities import MAX_ENTITIES, entities
from fusion.ingest.facts import MAX_FACTS, MAX_PART_WORDS, facts
from fusion.lib.moment import end_of
from fusion.lib.stated_fields import entities_of
from fusion.lib.times import Window, windows

MAX_EXTRACTED_CHARS = 20_000
"""maximum characters of a text that are read; of a longer one, an export, the beginning is enough"""

MAX_TIMES = 8
SENTENCE_CHARS = 300
"""maximum characters of a sentence before a time that are searched for names"""

__all__ = ["KEYWORDS", "MAX_PART_WORDS", "MAX_ENTITIES", "MAX_FACTS", "MAX_TIMES", "classify", "extract"]


def extract(event: Event) -> Extraction:
    """The extraction of one event. A "note" is classified; any other kind is kept. A reflection states nothing."""
    if event.raw_kind == REFLECTION:
        return Extraction(kind=event.kind)
    text = event.text[:MAX_EXTRACTED_CHARS]
    prose = _prose(text)
    stated = facts(prose, event.speaker)
    names = entities(text, prose, event.speaker, stated)
    named = entities_of(event.stated)
    names = [*(Entity(name) for name in named if all(name != found.name for found in names)), *names]
    said = list(islice(windows(text, event.at or Moment(event.recorded_at)), MAX_TIMES))
    found = (_episode(window, text, names, event.speaker) for window in said)
    return Extraction(
        kind=classify(text) if event.kind == "note" else event.kind,
        entities=tuple(names),
        facts=tuple(stated),
        times=tuple(dict.fromkeys(window.at for window in said if window.at is not None)),
        episodes=tuple(dict.fromkeys((*_stated_episode(event, named), *found))),
    )


_FENCED = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1|\Z)", re.DOTALL | re.MULTILINE)
_URL = re.compile(r"\b[a-z][a-z0-9+.-]{1,15}://\S+", re.IGNORECASE)


def _prose(text: str) -> str:
    """The text without fenced code and URLs, whose capitals are not names."""
    if "```" in text or "~~~" in text:
        text = _FENCED.sub("\n", text)
    return _URL.sub(" ", text) if "://" in text else text


# Kind --------------------------------------------------------------------------------------------------------------

KEYWORDS: dict[Kind, tuple[str, ...]] = {
    "rule": (
        *("must", "always", "never", "required", "shall", "constraint", "invariant", "rule:", "important:"),
        *("critical:", "forbidden", "mandatory", "do not", "don't", "ensure that", "make sure"),
    ),
    "procedure": (
        *("step 1", "step 2", "first", "then", "finally", "how to", "to do this", "process:", "workflow:", "steps:"),
        *("run the", "execute", "install", "configure", "setup", "create a", "deploy", "build the"),
    ),
    "preference": (
        *("prefer", "like", "dislike", "favorite", "rather", "style:", "prefer to", "would rather", "choose"),
        *("instead of", "better than", "worse than"),
    ),
    "episode": (
        *("yesterday", "today", "last week", "on monday", "happened", "occurred", "we did", "we found", "discovered"),
        *("resolved", "fixed the", "broke", "incident", "session", "meeting"),
    ),
}
"""seed 000's heuristic; words and phrases match whole, in any case"""


def _whole(keyword: str) -> re.Pattern[str]:
    return re.compile(rf"\b{re.escape(keyword)}" + (r"\b" if keyword[-1].isalnum() else ""))


_WHOLE = {kind: tuple((keyword, _whole(keyword)) for keyword in keywords) for kind, keywords in KEYWORDS.items()}


def classify(text: str) -> Kind:
    """The kind with the most keywords in the text; ties go to the first of rule, procedure, preference, episode.

    Without any keyword it is a fact (seed 000).
    """
    lower = text.lower().replace("’", "'")
    best: Kind = "fact"
    most = 0
    for kind, keywords in _WHOLE.items():
        # `in` excludes nearly all keywords a hundred times faster than the pattern.
        found = sum(1 for keyword, whole in keywords if keyword in lower and whole.search(lower))
        if found > most:
            best, most = kind, found
    return best


# Episodes ----------------------------------------------------------------------------------------------------------


def _stated_episode(event: Event, named: tuple[str, ...]) -> Iterator[Episode]:
    """The episode that the caller stated: of kind episode with a time, or with an end or with entities."""
    if event.at is None or not (event.kind == "episode" or event.at.until is not None or named):
        return
    with suppress(OverflowError, ValueError):  # the year 9999 has no next one
        yield Episode(event.at.utc, end_of(event.at), named)


_FIRST_PERSON = re.compile(r"(?i)\b(?:I|me|my|we|us|our)\b")
_SENTENCE = re.compile(r"[.!?…。！？\n]")


def _episode(window: Window, text: str, names: Sequence[Entity], speaker: str | None) -> Episode:
    """The episode of a time window: with the names in its sentence, and the speaker if it is in the first person."""
    start, end = window.span
    stops = [match.end() for match in _SENTENCE.finditer(text, max(0, start - SENTENCE_CHARS), start)]
    after = _SENTENCE.search(text, end)
    sentence = text[stops[-1] if stops else max(0, start - SENTENCE_CHARS) : after.start() if after else len(text)]
    sentence = sentence[: SENTENCE_CHARS * 2]
    there = [e.name for e in names if e.name in sentence or (e.name == speaker and _FIRST_PERSON.search(sentence))]
    return Episode(window.start, window.end, tuple(there))
