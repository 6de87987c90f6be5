"""Facts that a memory's text states in so many words: lines like ``fact: api-gateway uses Postgres 16``.

The subject is before the first of the nine predicates, or of their aliases, and the object behind it. A time in
parentheses at the end is its validity: ``(from 2026-06-01)``, ``(from 2026-06-01 to 2026-07-01)`` or
``(until 2026-07-01)``. Lines of a fenced block are examples and state nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime

from fusion.errors import BadInput
from fusion.lib.moment import moment
from fusion.lib.temporal_facts import (
    MAX_NAME_CHARS,
    NAMES,
    Assertion,
    By,
    ObjectType,
    entity_ref,
    object_of,
    predicate_of,
)

MARK = "fact:"
MAX_LINE_CHARS = 4000
MAX_FACTS = 32
"""facts of one memory at most: a memory of more is a list, whose later lines state nothing"""

_LINE = re.compile(r"[ \t]*(?:[-*+][ \t]+)?fact:[ \t]*(\S.*)", re.IGNORECASE)
_FENCE = re.compile(r"[ \t]*(?:```|~~~)")
_NAMES = "|".join(sorted((name.replace("_", "[_ ]") for name in NAMES), key=len, reverse=True))
_STATED = re.compile(rf"(.{{0,{MAX_NAME_CHARS - 1}}}?\S)[ \t]++({_NAMES})[ \t]++(.+)", re.IGNORECASE)
_TIME = re.compile(r"(.*\S)[ \t]*\((?:from|since)[ \t]+(\S+)(?:[ \t]+(?:to|until)[ \t]+(\S+))?\)")
_UNTIL = re.compile(r"(.*\S)[ \t]*\(until[ \t]+(\S+)\)")


def stated_in(text: str, by: By = "agent") -> list[Assertion]:
    """The facts that a text states, in their order; lines that are not understood state nothing."""
    if MARK not in text.lower():
        return []
    found: list[Assertion] = []
    for line in _lines(text):
        with suppress(BadInput):
            if (fact := _stated(line, by)) is not None:
                found.append(fact)
        if len(found) == MAX_FACTS:
            break
    return found


def _lines(text: str) -> Iterator[str]:
    """What stands behind the mark in lines outside of fenced blocks."""
    fenced = False
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and len(line) <= MAX_LINE_CHARS and (match := _LINE.fullmatch(line)):
            yield match[1].strip()


def _stated(line: str, by: By) -> Assertion | None:
    line, since, until = _validity(line)
    match = _STATED.fullmatch(line.rstrip(". \t"))
    if match is None:
        return None
    subject, text = match[1].strip(), match[3]
    entity_ref(subject)
    predicate = predicate_of(match[2])
    kind: ObjectType = "entity_ref" if text.startswith("entity:") else "literal"
    return Assertion(subject, predicate, object_of(predicate, kind, text), since, until, by=by)


def _validity(line: str) -> tuple[str, datetime | None, datetime | None]:
    """The line without its time, and the time; what is no time stays in the line."""
    line = line.rstrip(". \t")
    with suppress(ValueError, OverflowError):
        if match := _TIME.fullmatch(line):
            since, until = moment(match[2]).utc, None if match[3] is None else moment(match[3]).utc
            if until is None or since < until:
                return match[1], since, until
        elif match := _UNTIL.fullmatch(line):
            return match[1], None, moment(match[2]).utc
    return line, None, None
