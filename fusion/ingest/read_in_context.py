"""Has the second encoder read what is stored: each memory alone, and each turn together with its neighbours."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

from fusion.contract import Event, ReadsInContext, document_of
from fusion.errors import FusionError
from fusion.journal import Journal
from fusion.lib.in_context import in_context
from fusion.lib.passages import is_long, spoken_passages
from fusion.lib.words import spoken

log = logging.getLogger(__name__)
REACH = 2
"""turns before and after a new one that are looked up: the next one's context also has the one after that"""


async def read_in_context(journal: Journal, encoder: ReadsInContext, events: Sequence[Event]) -> None:
    """Begin to encode new memories, and the turns that these are now next to; returns at once."""
    turns = [event for event in events if event.place is not None and event.place.unit == "turn"]
    neighbours = await journal.neighbours([event.event_id for event in turns], REACH) if turns else {}
    around = {record.event.event_id: record.event for records in neighbours.values() for record in records}
    wanted = [*_alone(events), *_in_context(turns, {**around, **{turn.event_id: turn for turn in turns}}.values())]
    try:
        known = await encoder.known(wanted)
        encoder.encode_later([text for text in dict.fromkeys(wanted) if text not in known])
    except (FusionError, OSError, RuntimeError) as error:
        log.warning("the second encoder does not read what is stored: %s", type(error).__name__)


def _alone(events: Iterable[Event]) -> Iterator[str]:
    for event in events:
        if is_long(event.text, event.speaker):
            yield from spoken_passages(event.text, event.speaker)
        else:
            yield spoken(event.text, event.speaker)


def _in_context(new: Iterable[Event], every: Iterable[Event]) -> Iterator[str]:
    """The new turns and those right next to them, each in its context."""
    at_place = {(document_of(event), event.place.start): event for event in every if event.place is not None}
    new_places = ((document_of(event), event.place.start) for event in new if event.place is not None)
    places = {(document, start + step) for document, start in new_places for step in (-1, 0, 1)}
    for document, start in sorted(places, key=lambda place: place[1]):
        turn = at_place.get((document, start))
        before, after = at_place.get((document, start - 1)), at_place.get((document, start + 1))
        if turn is not None and (before is not None or after is not None):
            sides = ("" if one is None else spoken(one.text, one.speaker) for one in (before, after))
            yield in_context(spoken(turn.text, turn.speaker), *sides)
