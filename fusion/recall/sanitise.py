"""Validates and cleans a backend's hits, so that later stages can rely on every field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from itertools import islice
from math import isfinite
from operator import attrgetter, is_
from typing import Any, SupportsFloat, get_args

from fusion.contract import Fact, Hit, Kind, Moment, Origin, PartialHits, Place, Scope, Trust
from fusion.errors import InvalidAnswer
from fusion.lib.clean import clean
from fusion.lib.text_cache import emptied_with_texts, text_cache
from fusion.lib.text_words import text_words
from fusion.lib.words import spoken
from fusion.recall.filter import TEXT_CHARS

Sanitised = tuple[tuple[Hit, ...], Mapping[str, int]]
"""the hits, and counts of dropped items by reason"""

NAME_CHARS = 256
"""maximum characters of a speaker or a step of a path"""
ID_CHARS = 1_024
"""maximum characters of an id or a document; ids may be paths"""

_QUESTION_INDEPENDENT = attrgetter(
    *(one.name for one in fields(Hit) if one.name not in ("score", "path", "graph_score", "fact"))
)
"""the fields of a hit that do not depend on the query, without its fact: that is compared and never shown, and some
backends make a new one for each question"""


class ValidatedHits:
    """The hits of one backend that were valid and clean, and whose words are counted.

    Queries return the same memories again and again, mostly as the same immutable objects, which need no second check.
    Where hits are not ranked, their words need no counting.
    """

    __slots__ = ("__weakref__", "_parts", "counts_words")

    MAX_HITS = 16_384
    """hits that are kept; then the cache is emptied"""

    def __init__(self, *, counts_words: bool = True) -> None:
        self.counts_words = counts_words
        self._parts: dict[str, tuple[object, ...]] = {}
        emptied_with_texts(self)

    def cache_clear(self) -> None:
        self._parts.clear()

    def has(self, hit: Hit) -> bool:
        parts = self._parts.get(hit.native_id)
        return parts is not None and all(map(is_, parts, _QUESTION_INDEPENDENT(hit)))

    def add(self, hit: Hit) -> None:
        if len(self._parts) >= self.MAX_HITS:
            self._parts.clear()
        self._parts[hit.native_id] = _QUESTION_INDEPENDENT(hit)


def sanitised(found: Sequence[Hit], limit: int, validated: ValidatedHits) -> Sanitised:
    """At most ``limit`` hits that conform to the contract, and the counts of dropped items by reason."""
    if not isinstance(found, (list, tuple)):
        if isinstance(found, (str, bytes, Mapping)) or not hasattr(found, "__iter__"):
            raise InvalidAnswer("it answered with something else than hits")
        found = list(islice(found, limit + 1))
    counts: Counter[str] = Counter()
    if isinstance(found, PartialHits):
        counts["malformed"] = found.dropped
    if len(found) > limit:
        counts["over_limit"] = len(found) - limit
    kept: dict[str, Hit] = {}
    for hit in found[:limit]:
        sanitised = _sanitised_hit(hit, counts, validated)
        if sanitised is None:
            counts["malformed"] += 1
        elif sanitised.native_id in kept:
            counts["duplicate"] += 1
        else:
            kept[sanitised.native_id] = sanitised
    if found and not kept:
        raise InvalidAnswer(f"none of its {len(found)} items was a hit")
    return tuple(kept.values()), {reason: n for reason, n in counts.items() if n}


_KINDS, _TRUST, _ORIGINS = (frozenset(get_args(names)) for names in (Kind, Trust, Origin))

_cleaned = text_cache(8192)(clean)
"""cached: queries return the same memories again and again"""


def _sanitised_hit(hit: object, counts: Counter[str], validated: ValidatedHits) -> Hit | None:
    """The hit with clean texts and a finite score or none; ``None`` if it does not conform to the contract."""
    try:
        if not isinstance(hit, Hit) or not isinstance(hit.path, (tuple, list)):
            return None
        changes: dict[str, Any] = {}
        taken = 0
        if not validated.has(hit):
            if not _well_formed(hit):
                return None
            taken = _clean_words(hit, counts, changes)
            text = changes.get("text", hit.text)
            if not text or text.isspace():
                return None
            if not changes:
                validated.add(hit)
            if validated.counts_words:
                # Counted now, while other backends are still searching; later stages find the result in the cache.
                text_words(spoken(text, changes.get("speaker", hit.speaker)))
        if hit.fact is not None and not _is_fact(hit.fact):
            return None
        score = hit.score
        if score is not None and not (type(score) is float and isfinite(score)):
            changes["score"] = _number(score)
            if changes["score"] is None:
                counts["bad_score"] += 1
        if hit.graph_score is not None and not (type(hit.graph_score) is float and 0.0 <= hit.graph_score <= 1.0):
            changes["graph_score"] = None
            counts["bad_score"] += 1
        if hit.path:
            steps = [_cleaned(step[:NAME_CHARS]) for step in hit.path]
            if any(step != old for (step, _), old in zip(steps, hit.path, strict=True)):
                taken += sum(n for _, n in steps)
                changes["path"] = tuple(step for step, _ in steps)
        if taken:
            counts["invisible"] += taken
        return replace(hit, **changes) if changes else hit
    except (TypeError, ValueError, AttributeError, OverflowError):
        return None


def _clean_words(hit: Hit, counts: Counter[str], changes: dict[str, Any]) -> int:
    """Puts the cleaned text and names of a hit into ``changes``; returns the number of removed characters."""
    if len(hit.text) > TEXT_CHARS:
        counts["cut_text"] += 1
    text, taken = _cleaned(hit.text[:TEXT_CHARS])
    if text != hit.text:
        changes["text"] = text
    for name in ("speaker", "raw_kind"):
        if (value := getattr(hit, name)) is not None:
            taken += _name(name, value, changes)
    return taken


def _name(name: str, value: str, changes: dict[str, Any]) -> int:
    """Puts one cleaned short field, on one line, into ``changes``; returns the number of removed characters."""
    if value.isprintable() and value.isascii() and len(value) <= NAME_CHARS:
        return 0
    cleaned, taken = clean(value[:NAME_CHARS])
    cleaned = " ".join(cleaned.split())
    if cleaned != value:
        changes[name] = cleaned or None
    return taken


def _number(score: object) -> float | None:
    if isinstance(score, (str, bytes, bool)) or not isinstance(score, SupportsFloat):
        return None
    try:
        number = float(score)  # an int, or numpy's
    except OverflowError:
        return None
    return number if isfinite(number) else None


def _well_formed(hit: Any) -> bool:
    """Whether every field has the type and range of the contract. Ids are never cleaned: they identify."""
    return (
        isinstance(hit.text, str)
        and _is_id(hit.native_id)
        and (hit.event_id is None or _is_id(hit.event_id))
        and isinstance(hit.scope, Scope)
        and hit.kind in _KINDS
        and hit.trust in _TRUST
        and hit.origin in _ORIGINS
        and (hit.at is None or (isinstance(hit.at, Moment) and _is_time(hit.at.utc)))
        and (hit.recorded_at is None or _is_time(hit.recorded_at))
        and (hit.valid_from is None or _is_time(hit.valid_from))
        and (hit.valid_to is None or _is_time(hit.valid_to))
        and (hit.place is None or _is_place(hit.place))
        and (hit.stated_by is None or _is_id(hit.stated_by))
        and isinstance(hit.derived_from, (tuple, list))
        and all(map(_is_id, hit.derived_from))
        and isinstance(hit.properties, (tuple, list))
        and all(map(_is_property, hit.properties))
        and (hit.version_of is None or (hit.event_id is None and _is_id(hit.version_of)))
    )


def _is_id(value: object) -> bool:
    """Whether a value is a string of one line without invisible characters, so that it can be cited."""
    if not isinstance(value, str) or not 0 < len(value) <= ID_CHARS:
        return False
    return (value.isascii() and value.isprintable()) or (
        "\n" not in value and "\t" not in value and not clean(value)[1]
    )


def _is_property(value: object) -> bool:
    """Whether a value is a property's name and its value. They are compared and never shown."""
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(one, str) for one in value)


def _is_fact(value: object) -> bool:
    """Whether a value is a triple of strings. They are compared and never shown."""
    return isinstance(value, Fact) and all(isinstance(o, str) for o in (value.subject, value.predicate, value.object))


def _is_time(value: object) -> bool:
    """Whether a value is a time with a zone; others cannot be compared with it."""
    return isinstance(value, datetime) and value.tzinfo is not None


MAX_POSITION = (1 << 63) - 1
"""the largest position of a memory in its document: JSON and the stores have integers of 64 bits"""


def _is_place(place: Any) -> bool:
    return (
        isinstance(place, Place)
        and _is_id(place.document)
        and type(place.start) is int
        and type(place.end) is int
        and 0 <= place.start <= place.end <= MAX_POSITION
    )
