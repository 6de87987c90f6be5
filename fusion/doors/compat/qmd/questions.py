"""A question in QMD's language: typed sub-queries, their words and negations, and what results must be like."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from fusion.errors import BadInput

MAX_SEARCHES = 100
MAX_RESULTS = 50
RESULTS = 10
"""results unless the caller says how many"""
TYPES = ("vec", "lex", "hyde")
"""the types of sub-queries, in the order in which one is taken as the question"""
MISSING = "Missing required field: searches (array)"
_NEGATED = re.compile(r'(?:^|(?<=\s))-(?:"(?P<phrase>[^"]*)"|(?P<word>\S+))')


@dataclass(frozen=True, slots=True)
class Question:
    """What to look for: ``text`` in words, best of it ``limit`` results of at least ``min_score``.

    A result that has one of ``excluded`` in its text, in any case, is left out, and so is one of another collection
    than ``collections``; empty: of any.
    """

    text: str
    excluded: tuple[str, ...] = ()
    collections: frozenset[str] = frozenset()
    limit: int = RESULTS
    min_score: float = 0.0

    def admits(self, text: str, collection: str) -> bool:
        """Whether a result fits."""
        lower = text.lower()
        return (not self.collections or collection in self.collections) and not any(
            word in lower for word in self.excluded
        )


def question_of(given: Mapping[str, Any]) -> Question:
    """The question of a request, by ``searches``, or by ``query`` where MCP has that. Raises BadInput.

    The fused memory takes one question, and searches by words, by vectors and by its other ways at once. Of the
    sub-queries it gets those in natural language; where there are none, the words of all others.
    """
    plain = given.get("query")
    searches = [("vec", plain)] if isinstance(plain, str) and plain.strip() else _searches(given.get("searches"))
    kind = next((one for one in TYPES if any(kind == one for kind, _ in searches)), "")
    chosen = list(dict.fromkeys(text for of, text in searches if of == kind))
    excluded = [
        (found["phrase"] or found["word"] or "").lower()
        for of, text in searches
        if of == "lex"
        for found in _NEGATED.finditer(text)
    ]
    text = " ".join(_words(one) if kind == "lex" else one for one in chosen).strip()
    return Question(
        text,
        tuple(word for word in dict.fromkeys(excluded) if word),
        _collections(given.get("collections")),
        max(1, min(int(_number(given, "limit", RESULTS)), MAX_RESULTS)),
        min(max(_number(given, "minScore", 0.0), 0.0), 1.0),
    )


def _searches(sent: object) -> Sequence[tuple[str, str]]:
    """Type and text of each sub-query that says something. Raises BadInput."""
    if not isinstance(sent, list):
        raise BadInput(MISSING)
    if len(sent) > MAX_SEARCHES:
        raise BadInput(f"searches: {MAX_SEARCHES} are the most")
    found = []
    for one in sent:
        if not isinstance(one, Mapping) or one.get("type") not in TYPES:
            raise BadInput('searches: each is {"type": "lex", "vec" or "hyde", "query": "…"}')
        if text := str(one.get("query") or "").strip():
            found.append((str(one["type"]), text))
    return found


def _words(text: str) -> str:
    """The words of a full-text query, without its negations and quotes."""
    return " ".join(_NEGATED.sub(" ", text).replace('"', " ").split())


def _collections(sent: object) -> frozenset[str]:
    return frozenset(map(str, sent)) if isinstance(sent, list) else frozenset()


def _number(given: Mapping[str, Any], name: str, default: float) -> float:
    """A number, else the default, as QMD reads one."""
    value = given.get(name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9 and isfinite(value)
    return float(value) if is_number else default  # type: ignore[arg-type]
