"""Appends an agent's lines to the daily log that a backend keeps, or stores them as a note."""

from __future__ import annotations

from collections.abc import Iterable

from fusion import wire
from fusion.contract import KeepsDailyLog, Query, Scope
from fusion.gateway.memory_flush import local
from fusion.ingest.intake import Intake, NewMemory
from fusion.recall.gather import GuardedBackend, unable


async def append_to_log(
    text: str, scope: Scope, *, zone: str, backends: Iterable[GuardedBackend], intake: Intake
) -> wire.Appended:
    """Append lines to the log of today in ``zone`` if a backend keeps one for the scope; else store them as a note.

    Raises BadInput and StoreFull.
    """
    note = NewMemory(text=text, scope=scope, kind="note", origin="agent")
    prepared = intake.prepared(note, scope.tenant)
    event, redacted, reason = prepared.event, prepared.redacted, prepared.changes
    if event is None:
        return {"path": None, "ref": None, "status": "skipped", "redacted": 0, "reason": reason}
    day = local(event.recorded_at, zone).date()
    asked = Query("", scope, event.recorded_at)
    for guarded in backends:
        backend = guarded.backend
        if guarded.disabled is None and isinstance(backend, KeepsDailyLog) and not unable(asked, backend.features):
            place = await backend.append(event.text, scope, day)
            if place is not None:
                return {
                    "path": place.document,
                    "startLine": place.start,
                    "endLine": place.end,
                    "ref": None,
                    "status": "appended",
                    "redacted": redacted,
                    "reason": reason,
                }
    (stored,) = await intake.remember([note], tenant=scope.tenant)
    return {
        "path": stored.ref,
        "ref": stored.ref,
        "status": stored.status,
        "redacted": stored.redacted,
        "reason": stored.reason,
    }
