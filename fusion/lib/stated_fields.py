"""What a caller stated besides the text, as pairs in `Event.stated`, and back.

Lifetime, confidence and tags become fields of a `State`; entities are those that an episode involves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite

from fusion.contract import LIFETIMES, Event, StateChange
from fusion.errors import BadInput

MAX_TAGS = 64
MAX_TAG_CHARS = 128


def to_stated(
    lifetime: str | None = None,
    confidence: float | None = None,
    tags: Sequence[str] = (),
    *,
    lifetime_field: str = "lifetime",
) -> tuple[tuple[str, str], ...]:
    """The pairs of `Event.stated` for these values. Raises ``BadInput`` for a value out of range.

    ``lifetime_field`` is the caller's name for the lifetime, for the error.
    """
    if lifetime is not None and lifetime not in LIFETIMES:
        raise BadInput(f"{lifetime_field}: give one of {', '.join(LIFETIMES)}")
    if confidence is not None and not (isfinite(confidence) and 0 <= confidence <= 1):
        raise BadInput("confidence: give a number from 0 to 1")
    if len(tags) > MAX_TAGS or any(not tag.strip() or len(tag) > MAX_TAG_CHARS for tag in tags):
        raise BadInput(f"tags: at most {MAX_TAGS}, each with 1 to {MAX_TAG_CHARS} characters")
    pairs = [("tag", tag.strip()) for tag in dict.fromkeys(tags)]
    if confidence is not None:
        pairs.insert(0, ("confidence", repr(float(confidence))))
    if lifetime is not None:
        pairs.insert(0, ("lifetime", lifetime))
    return tuple(pairs)


def from_stated(event: Event) -> StateChange:
    """The `State` fields that an event states; invalid values count as not stated."""
    change: StateChange = {}
    tags = tuple(value for name, value in event.stated if name == "tag")
    if tags:
        change["tags"] = tags
    for name, value in event.stated:
        if name == "confidence" and (number := _number(value)) is not None:
            change["confidence"] = number
        for lifetime in LIFETIMES:
            if (name, value) == ("lifetime", lifetime):
                change["lifetime"] = lifetime
    return change


def stated_entities(names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The pairs of `Event.stated` for the entities of an episode."""
    return tuple(("entity", name) for name in dict.fromkeys(names))


def entities_of(stated: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The entities among the pairs of `Event.stated`."""
    return tuple(value for name, value in stated if name == "entity")


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number <= 1 else None
