"""Daily logs: appends an agent's lines to today's, and shows today's and yesterday's at the start of a session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta

from fusion import wire
from fusion.contract import FindsDailyLogs, KeepsDailyLog, Query, Scope
from fusion.gateway.memory_flush import local
from fusion.gateway.views import file_lines
from fusion.ingest.intake import Intake, NewMemory
from fusion.journal import Journal
from fusion.lib.fence import fenced, quoted
from fusion.recall.block_format import GAP
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


async def recent_logs(
    scope: Scope, now: datetime, *, zone: str, budget_chars: int, backends: Sequence[GuardedBackend], journal: Journal
) -> wire.DailyLogs:
    """Today's and yesterday's logs in ``zone`` as one fenced block of at most ``budget_chars``, yesterday's first.

    Today's takes what it needs of the budget. Of a log that does not fit, the last lines are shown, since a log grows
    at its end. Raises BadInput for an unknown zone.
    """
    today = local(now, zone).date()
    room = budget_chars - len(fenced("x"))
    parts: list[str] = []
    shown: list[wire.DailyLog] = []
    for day in (today, today - timedelta(days=1)):
        for document in await _logs_of(day, scope, now, backends):
            lines = await file_lines(document, scope, backends, journal, [])
            heading = f"# {day.isoformat()} {quoted(document)}"
            kept = _last_lines(quoted("\n".join((lines or {}).values()).strip()).split("\n"), room - len(heading) - 1)
            if not any(line.strip() for line in kept):
                continue
            part = "\n".join([heading, *kept])
            room -= len(part) + 1
            parts.insert(0, part)
            shown.insert(0, {"day": day.isoformat(), "path": document, "truncated": kept[0] == GAP})
    return {"block": fenced("\n".join(parts)), "logs": shown}


async def _logs_of(day: date, scope: Scope, now: datetime, backends: Iterable[GuardedBackend]) -> Sequence[str]:
    """The documents that a backend which may answer for the scope names as logs of a day."""
    asked = Query("", scope, now)
    return [
        document
        for guarded in backends
        if guarded.disabled is None
        and isinstance(guarded.backend, FindsDailyLogs)
        and not unable(asked, guarded.backend.features)
        for document in await guarded.backend.daily_logs(day)
    ]


def _last_lines(lines: Sequence[str], room: int) -> list[str]:
    """The last lines that fit into ``room`` characters, after a line that says that lines are missing."""
    if sum(len(line) + 1 for line in lines) <= room:
        return list(lines)
    kept: list[str] = []
    room -= len(GAP) + 1
    for line in reversed(lines):
        room -= len(line) + 1
        if room < 0:
            break
        kept.insert(0, line)
    return [GAP, *kept] if kept else []
