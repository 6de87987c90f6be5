"""What a door shows of what is kept: a memory as its owner may see it, pages of them, a document as it stands."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from fusion.contract import Event, Hit, Query, ReadsDocuments, Scope
from fusion.errors import BadInput, FusionError, NobodyAnswered, NotFound
from fusion.journal import Journal
from fusion.lib.ids import parse_cursor
from fusion.lib.words import spoken
from fusion.recall.document import MAX_LINES, lines_of_file, lines_of_memories, page
from fusion.recall.gather import Source, unable

log = logging.getLogger(__name__)


def public(item: Event | Hit) -> dict[str, Any]:
    """An event, or a backend's own item, for a door: what its owner may know of it."""
    return {
        "event_id": item.event_id,
        "text": item.text,
        "kind": item.kind,
        "speaker": item.speaker,
        "at": item.at.utc if item.at else None,
        "recorded_at": item.recorded_at,
        "document": item.place.document if item.place else None,
        "position": item.place.start if item.place else None,
        "source": item.source if isinstance(item, Event) else None,
        "trust": item.trust,
        "origin": item.origin,
        "scope": item.scope.named(),
    }


def beginning(cursor: str | None) -> int | None:
    """Where the page of a cursor begins; None for the first one. Raises BadInput for a cursor that no page had."""
    begins = None if cursor is None else parse_cursor(cursor)
    if cursor is not None and begins is None:
        raise BadInput("cursor: no page had it; give next_cursor of a page as it is, or none for the first page")
    return begins


async def document(
    path: str, scope: Scope, start: int, lines: int, *, sources: Iterable[Source], journal: Journal
) -> Mapping[str, Any]:
    """A page of a document that a hit named: from its file where a backend reads it, else from the journal.

    Raises NotFound, the same for every path that is not one of this scope's documents, whatever it looks like.
    """
    there_is_none = NotFound("There is no such document here.")
    if not _encodable(path):
        raise there_is_none
    failed: list[str] = []
    for source in sources:
        reader = source.backend
        if not isinstance(reader, ReadsDocuments) or unable(Query("", scope, datetime.now(UTC)), reader.features):
            continue
        try:
            async with asyncio.timeout(source.deadline_s):
                reading = await reader.read(path)
        except (FusionError, OSError, TimeoutError) as error:
            log.warning("backend %s did not read a document: %s", source.name, type(error).__name__)
            failed.append(source.name)
            continue
        if reading is not None and scope.admits(reading.scope):
            forgotten = partial(journal.visible_lines, reading.scope, path)
            return page(path, "line", await asyncio.to_thread(lines_of_file, reading.text, forgotten), start, lines)
    events = [record.event for record in await journal.document(path, scope, start, MAX_LINES + 1)]
    places = [(event.place, spoken(event.text, event.speaker)) for event in events if event.place is not None]
    if places:
        return page(path, places[0][0].unit, lines_of_memories(places), start, lines)
    if failed:
        raise NobodyAnswered(f"{', '.join(failed)} could not look for that document.", {})
    raise there_is_none


def _encodable(name: str) -> bool:
    """Whether a name can be that of anything stored: a lone surrogate is in no database and in no cited document."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
