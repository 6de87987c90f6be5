"""What the caller of a memory said about how it is to be kept, as the event carries it from the door to the store."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from adapters.cortex.port import LIFETIMES, Change, State
from fusion.contract import Event
from fusion.errors import BadInput

MAX_TAGS = 64
MAX_TAG_CHARS = 128


def stating(
    lifetime: str | None = None,
    confidence: float | None = None,
    tags: Sequence[str] = (),
    *,
    called: str = "lifetime",
) -> tuple[tuple[str, str], ...]:
    """The pairs of `Event.stated`. Raises ``BadInput``, which says what may stand there; ``called`` is what its caller
    knows the lifetime as."""
    if lifetime is not None and lifetime not in LIFETIMES:
        raise BadInput(f"{called}: there are {', '.join(LIFETIMES)}")
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


def stated(event: Event) -> Change:
    """The fields of its `State` that were stated of an event; what makes no sense counts as not stated."""
    change: Change = {}
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


def stated_of(state: State) -> tuple[tuple[str, str], ...]:
    """As if the caller of a new version had stated what holds of the old one."""
    return stating(state.lifetime, state.confidence, state.tags)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number <= 1 else None
