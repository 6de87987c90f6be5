"""Memories and documents as doors show them to their owner."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from functools import partial
from typing import Any

from fusion import wire
from fusion.contract import (
    DocumentVersion,
    Event,
    Hit,
    ImportanceGrade,
    KeepsVersions,
    Query,
    ReadsDocuments,
    Scope,
)
from fusion.errors import BadInput, FusionError, NobodyAnswered, NotFound
from fusion.journal import Journal
from fusion.journal.browsing import standing_of
from fusion.journal.rows import Record
from fusion.lib.budget import clip
from fusion.lib.clean import clean
from fusion.lib.due import due_end
from fusion.lib.ids import parse_cursor
from fusion.lib.importance import BY_HAND, label_of, priority_of
from fusion.lib.provenance import provenance_of
from fusion.lib.redact import redact
from fusion.lib.stated_fields import entities_of, metadata_of
from fusion.lib.words import spoken
from fusion.recall.document import MAX_CHARS, MAX_LINES, Forgotten, lines_of_file, lines_of_memories, page
from fusion.recall.gather import Answer, GuardedBackend, unable

log = logging.getLogger(__name__)

VERSIONS_S = 20.0
"""seconds for reading the earlier versions of a document"""


def public(item: Event | Hit) -> dict[str, Any]:
    """The fields of an event or an external memory that its owner may see; the last four if it has any."""
    stated = item.stated if isinstance(item, Event) else ()
    more = {
        "until": item.at.until if item.at else None,
        "entities": list(entities_of(stated)),
        "valid_to": item.valid_to,
        "metadata": metadata_of(stated),
    }
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
        "scope": item.scope.named() | ({"project": item.scope.project} if item.scope.project else {}),
        **{name: value for name, value in more.items() if value},
    }


def listed(record: Record, now: datetime) -> dict[str, Any]:
    """A memory as one row of a list."""
    state = record.state
    of_state = {"status": standing_of(record, now), "importance": state.importance, "tags": list(state.tags)}
    return {"ref": record.ref, **public(record.event), "trust": record.trust, **of_state}


def standing(record: Record) -> dict[str, Any]:
    """What is known of a memory besides its text: its grade, its provenance, how long it is kept, when it is due."""
    event, state = record.event, record.state
    graded = state.grade or ImportanceGrade(BY_HAND, event.recorded_at)
    grade = {
        "score": state.importance,
        "label": label_of(state.importance),
        "rationale": graded.rationale,
        "method": graded.method,
        "version": graded.version,
        "graded_at": graded.graded_at,
    }
    provenance = provenance_of(event, state)
    due = state.due
    return {
        "grade": None if state.importance is None and state.grade is None else grade,
        "provenance": {"kind": provenance.kind, "ref": provenance.ref},
        "priority": priority_of(state),
        "due": None if due is None else {"at": due.utc, "precision": due.precision, "until": due_end(due)},
    }


def position_of(cursor: str | None) -> int | None:
    """The position at which a cursor's page begins; None for the first page. Raises BadInput for an invalid cursor."""
    position = None if cursor is None else parse_cursor(cursor)
    if cursor is not None and position is None:
        raise BadInput("cursor: it is invalid; send a page's next_cursor unchanged, or no cursor for the first page")
    return position


async def document(
    path: str, scope: Scope, start: int, lines: int, *, backends: Iterable[GuardedBackend], journal: Journal
) -> Mapping[str, Any]:
    """A page of a document that a hit names: from its file if a backend reads it, else from the journal.

    Raises NotFound, with the same text for every path that is not a document of this scope.
    """
    not_found = NotFound("There is no such document here.")
    if not _encodable(path):
        raise not_found
    failed: list[str] = []
    lines_by_number = await file_lines(path, scope, backends, journal, failed)
    if lines_by_number is not None:
        return page(path, "line", lines_by_number, start, lines)
    events = [record.event for record in await journal.document(path, scope, start, MAX_LINES + 1)]
    places = [(event.place, spoken(event.text, event.speaker)) for event in events if event.place is not None]
    if places:
        return page(path, places[0][0].unit, lines_of_memories(places), start, lines)
    if failed:
        raise NobodyAnswered(f"{', '.join(failed)} could not look for that document.", {})
    raise not_found


async def file_lines(
    path: str, scope: Scope, backends: Iterable[GuardedBackend], journal: Journal, unreadable: list[str]
) -> Mapping[int, str] | None:
    """The lines of a file by number, without secrets and forgotten text; None if no backend reads it for the scope.

    Adds the names of the backends that could not look for it to ``unreadable``.
    """
    for guarded in backends:
        reader = guarded.backend
        if not isinstance(reader, ReadsDocuments) or unable(Query("", scope, datetime.now(UTC)), reader.features):
            continue
        try:
            async with asyncio.timeout(guarded.deadline_s):
                reading = await reader.read(path)
        except (FusionError, OSError, TimeoutError) as error:
            log.warning("backend %s did not read a document: %s", guarded.name, type(error).__name__)
            unreadable.append(guarded.name)
            continue
        if reading is not None and scope.admits(reading.scope):
            forgotten = partial(journal.visible_lines, reading.scope, path)
            return await asyncio.to_thread(lines_of_file, reading.text, forgotten)
    return None


async def earlier_versions(
    path: str, scope: Scope, limit: int, backends: Iterable[GuardedBackend], journal: Journal
) -> list[wire.DocumentVersion]:
    """The earlier versions of a file, newest first, without secrets and forgotten text; [] if no backend has any.

    An earlier version may have been private where the present one is not, so a group is shown none.
    """
    if scope.audience != "private" or not _encodable(path):
        return []
    for guarded in backends:
        keeper = guarded.backend
        if not isinstance(keeper, KeepsVersions) or not isinstance(keeper, ReadsDocuments):
            continue
        if unable(Query("", scope, datetime.now(UTC)), keeper.features):
            continue
        try:
            async with asyncio.timeout(VERSIONS_S):
                reading = await keeper.read(path)
                found = await keeper.versions(path, limit) if reading and scope.admits(reading.scope) else ()
        except (FusionError, OSError, TimeoutError) as error:
            log.warning("backend %s did not read the versions of a document: %s", guarded.name, type(error).__name__)
            continue
        if reading is not None and found:
            shown = partial(_version, forgotten=partial(journal.visible_lines, reading.scope, path))
            return await asyncio.to_thread(list, map(shown, found))
    return []


def _version(version: DocumentVersion, forgotten: Forgotten) -> wire.DocumentVersion:
    lines = lines_of_file(clean(version.text)[0], forgotten)
    return {
        "at": version.at.isoformat(),
        "by": redact(clean(version.by)[0])[0],
        "why": redact(clean(version.why)[0])[0],
        "text": clip("\n".join(lines.values()), MAX_CHARS),
    }


def _encodable(name: str) -> bool:
    """Whether a name can be stored at all: one with a lone surrogate cannot be encoded."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def search_reply(answer: Answer, refs: Sequence[str]) -> dict[str, Any]:
    """One backend's answer with its raw hits, each under its ref, as `wire.SearchReply`."""
    return {
        "backend": {
            "name": answer.backend,
            "status": answer.status,
            "took_ms": round(answer.took_ms, 2),
            "count": len(answer.hits),
            "error_code": answer.error_code,
            **({"detail": answer.detail} if answer.detail else {}),
        },
        "hits": [
            {"ref": ref, **{name: getattr(hit, name) for name in _HIT_FIELDS}, "linked": hit.graph_score}
            for ref, hit in zip(refs, answer.hits, strict=False)
        ],
    }


_HIT_FIELDS = tuple(field.name for field in fields(Hit) if field.name not in ("graph_score", "properties"))
