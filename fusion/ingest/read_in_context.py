"""Has the second encoder read what is stored: each memory alone, and each turn together with its neighbours."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from fusion.contract import Event, ReadsInContext, Scope, document_of
from fusion.errors import FusionError
from fusion.journal import Journal
from fusion.lib.in_context import in_context
from fusion.lib.passages import is_long, spoken_passages
from fusion.lib.words import spoken

log = logging.getLogger(__name__)
REACH = 2
"""turns before and after a new one that are looked up: the next one's context also has the one after that"""

PORTION = 200
"""stored memories that are read in one go: some seconds of work"""


class Portion(NamedTuple):
    """Some stored memories, newest first, and what the second encoder made of them.

    ``unread`` texts had no vectors of it, ``read`` of these have some now. The next portion begins ``before`` this
    number; None: there is none.
    """

    memories: int
    unread: int
    read: int
    before: int | None


async def read_in_context(journal: Journal, encoder: ReadsInContext, events: Sequence[Event]) -> None:
    """Begin to encode new memories, and the turns that these are now next to; returns at once."""
    try:
        encoder.encode_later(await _unread(journal, encoder, events))
    except (FusionError, OSError, RuntimeError) as error:
        log.warning("the second encoder does not read what is stored: %s", type(error).__name__)


async def read_portion(
    journal: Journal, encoder: ReadsInContext, scope: Scope, before: int | None, *, dry_run: bool = False
) -> Portion:
    """Encode what the encoder lacks of the next memories of a scope; a ``dry_run`` only counts."""
    page = await journal.page(scope, PORTION, before=before)
    unread = await _unread(journal, encoder, [record.event for record in page.records])
    read: Iterable[str] = ()
    if unread and not dry_run:
        encoder.encode_later(unread)
        await encoder.settle()
        read = await encoder.known(unread)
    return Portion(len(page.records), len(unread), len(list(read)), page.next)


async def _unread(journal: Journal, encoder: ReadsInContext, events: Sequence[Event]) -> list[str]:
    """What there is to read of these memories and of the turns next to them, without what has vectors."""
    turns = [event for event in events if event.place is not None and event.place.unit == "turn"]
    neighbours = await journal.neighbours([event.event_id for event in turns], REACH) if turns else {}
    around = {record.event.event_id: record.event for records in neighbours.values() for record in records}
    wanted = [*_alone(events), *_in_context(turns, {**around, **{turn.event_id: turn for turn in turns}}.values())]
    known = await encoder.known(wanted)
    return [text for text in dict.fromkeys(wanted) if text not in known]


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
