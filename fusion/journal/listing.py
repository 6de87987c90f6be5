"""Listing memories: by page, by criteria, by document, and their counts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from operator import itemgetter

from fusion import wire
from fusion.contract import (
    CLAIMED_PREFIX,
    FILE_PREFIX,
    SESSION_KINDS,
    DocumentKey,
    Event,
    Scope,
    TimeRange,
    Where,
    document_of,
)
from fusion.errors import BadInput
from fusion.journal.rows import LIVE, MAX_SEQ, Record, record_of, visible_to
from fusion.lib.ids import parse_short_ref
from fusion.lib.moment import zone_of
from fusion.store.database import VALUES, Connection, Row
from fusion.store.rows import event_of, microseconds, storable

DAYS = timedelta(days=8)
"""the longest time of which all daily notes are looked up; in a longer one, a question's words find them"""
_OF_CALENDAR = "(at_precision in ('day', 'month', 'year') and at_zone is null)"
"""of events: whether its date is one of the calendar, the same in every time zone"""


@dataclass(frozen=True, slots=True)
class Page:
    """Some memories, newest first. ``next`` is where the next page begins, None after the last one."""

    records: tuple[Record, ...]
    next: int | None


@dataclass(frozen=True, slots=True)
class Criteria:
    """A filter on memories; None does not filter. Times are in [``after``, ``before``).

    The time of a memory is when it happened, else when it was recorded; with ``recorded`` always the latter.
    """

    source: str | None = None
    document: str | None = None
    after: datetime | None = None
    before: datetime | None = None
    recorded: bool = False

    def names(self) -> list[str]:
        """The names of the criteria that filter, for the audit."""
        time = ["time"] if self.after is not None or self.before is not None else []
        return [name for name in ("source", "document") if getattr(self, name) is not None] + time


def page(
    db: Connection,
    scope: Scope,
    limit: int,
    *,
    before: int | None = None,
    document: str | None = None,
    source: str | None = None,
) -> Page:
    """Up to ``limit`` current memories that ``scope`` may see, newest first, from where the previous page ended."""
    terms, values = visible_to(scope)
    for name, value in (("document", document), ("source", source)):
        if value is not None:
            terms += f" and {name} = ?"
            values.append(storable(value))
    rows = db.execute(
        f"select * from event where {terms} and seq < ? and forgotten = 0 and superseded_by is null "
        "order by seq desc limit ?",
        (*values, MAX_SEQ if before is None else before, limit + 1),
    ).fetchall()
    shown = [record for record in map(record_of, rows[:limit]) if scope.admits(record.event.scope)]
    return Page(tuple(shown), rows[limit - 1]["seq"] if len(rows) > limit else None)


def matching(
    db: Connection, scope: Scope, criteria: Criteria, limit: int, *, beyond: int = 0, among: Sequence[str] | None = None
) -> list[Record]:
    """The scope's memories that meet all criteria, oldest first, with a number greater than ``beyond``.

    ``among`` restricts them to these refs.
    """
    terms, values = visible_to(scope)
    if among is not None:
        terms += f" and seq in {VALUES}"
        values.append(json.dumps([parse_short_ref(ref) for ref in among]))
    time = "recorded_at" if criteria.recorded else "coalesce(at, recorded_at)"
    for term, value in (
        ("source = ?", criteria.source),
        ("document = ?", criteria.document),
        (f"{time} >= ?", None if criteria.after is None else microseconds(criteria.after)),
        (f"{time} < ?", None if criteria.before is None else microseconds(criteria.before)),
    ):
        if value is not None:
            terms += f" and {term}"
            values.append(storable(value) if isinstance(value, str) else value)
    rows = db.execute(
        f"select * from event where {terms} and forgotten = 0 and seq > ? order by seq limit ?",
        (*values, beyond, limit),
    ).fetchall()
    return [record_of(row) for row in rows]


def happened(
    db: Connection,
    scope: Scope,
    times: Sequence[TimeRange],
    limit: int,
    *,
    zone: str | None,
    history: bool,
    every: bool,
) -> list[Record]:
    """At most ``limit`` memories of what happened in one of these times: episodes first, then the newest.

    Besides episodes that is what is dated by the day, of times of up to `DAYS`; or with ``every`` all that has a date.
    A day without a zone is one of the calendar in ``zone``. With ``history``, memories that were replaced later count
    as well.
    """
    terms, values = visible_to(scope)
    terms += f" and {LIVE}" if history else " and forgotten = 0 and superseded_by is null"
    found: dict[int, Row] = {}

    def find(condition: str, *wanted: int) -> None:
        rows = db.execute(f"select * from event {condition} limit ?", (*values, *wanted, limit)).fetchall()
        found.update({row["seq"]: row for row in rows if row["seq"] not in found})

    for one in times:
        find(
            f"where {terms} and seq in (select seq from episode where ended > ? and began < ?) "
            "order by coalesce(at, recorded_at) desc, seq desc",
            microseconds(one.start),
            microseconds(one.end),
        )
    between = f"indexed by event_at where {terms} and at >= ? and at < ?"
    newest_first = "order by at desc, seq desc"
    for one in times:
        if every:
            find(f"{between} and not {_OF_CALENDAR} {newest_first}", microseconds(one.start), microseconds(one.end))
        if every or one.end - one.start <= DAYS:
            precise = "" if every else " and at_precision = 'day'"
            begin, end = (at.astimezone(zone_of(zone)).replace(tzinfo=UTC) for at in (one.start, one.end))
            find(f"{between} and {_OF_CALENDAR}{precise} {newest_first}", microseconds(begin), microseconds(end))
    return [record_of(row) for row in islice(found.values(), limit)]


def fitting(db: Connection, scope: Scope, where: Where, limit: int, *, history: bool) -> list[Record]:
    """At most ``limit`` memories that fit a filter, the newest first; none for a filter by properties.

    The journal knows no properties of notes. What its index cannot tell, `Where.admits` decides.
    """
    if where.property:
        return []
    terms, values = visible_to(scope)
    terms += f" and {LIVE}" if history else " and forgotten = 0 and superseded_by is null"
    wanted: list[tuple[str, Sequence[object]]] = [
        ("kind = ?", where.kind),
        ("instr(lower(speaker), lower(?)) > 0", where.speaker),
        ("instr('/' || lower(document), '/' || lower(?) || '/') > 0", [name.strip("/") for name in where.folder]),
        ("instr(lower(coalesce(state, '') || text), lower(?)) > 0", [tag.removeprefix("#") for tag in where.tag]),
        ("coalesce(at, recorded_at) >= ?", [] if where.after is None else [microseconds(where.after)]),
        ("coalesce(at, recorded_at) < ?", [] if where.before is None else [microseconds(where.before)]),
    ]
    for condition, among in wanted:
        if among:
            terms += f" and ({' or '.join([condition] * len(among))})"
            values += [storable(value) if isinstance(value, str) else value for value in among]
    rows = db.execute(f"select * from event where {terms} order by seq desc limit ?", (*values, limit)).fetchall()
    return [one for one in map(record_of, rows) if where.admits(one.hit, one.state.tags)]


def document(db: Connection, name: str, scope: Scope, start: int, limit: int) -> list[Record]:
    """At most ``limit`` memories of a document from position ``start`` on, in its order.

    The last one where the document ends before ``start``. A name can have several documents, by source, agent and run:
    the memories are those of one, `_precedence` says of which. Raises BadInput when several users have a document of
    that name and ``scope`` does not name one.
    """
    visible, values = visible_to(scope)
    which = f"{visible} and document = ? and forgotten = 0 and superseded_by is null and trust <> 'quarantined'"
    parts = db.execute(
        "select event.*, part.seqs from event join (select min(seq) as began, json_group_array(seq) as seqs "
        f"from event where {which} "
        "group by user_id, agent_id, run_id, place_unit, source, trust = 'untrusted', origin = 'tool') part "
        "on event.seq = part.began",
        (*values, storable(name)),
    ).fetchall()
    best = min((_precedence(event_of(part)) for part in parts), default=0)
    first = sorted((part for part in parts if _precedence(event_of(part)) == best), key=itemgetter("seq"))
    if len({part["user_id"] for part in first}) > 1:
        raise BadInput(f"several documents are called {name!r}: name the user_id of one")
    seqs = [seq for part in first if _key(part) == _key(first[0]) for seq in json.loads(part["seqs"])]
    members = f"select * from event where seq in {VALUES}"
    rows: list[Row] = db.execute(
        f"{members} and place_end >= ? order by place_start, seq limit ?", (json.dumps(seqs), start, limit)
    ).fetchall()
    last = f"{members} order by place_start desc, seq desc limit 1"
    return [record_of(row) for row in rows or db.execute(last, (json.dumps(seqs),))]


def _key(row: Row) -> DocumentKey | None:
    return document_of(event_of(row))


def _precedence(event: Event) -> int:
    """Which of several documents of one name is shown, the least first; of equal ones that which began first.

    First the file or session that a reader of ours found there, last what is claimed, untrusted or output of a tool.
    """
    stated_by = event.stated_by or ""
    if stated_by.startswith(FILE_PREFIX) or stated_by in SESSION_KINDS:
        return 0
    return 2 if event.doubtful or stated_by.startswith(CLAIMED_PREFIX) else 1


def counts(db: Connection, tenant: str) -> wire.Counts:
    """How many memories a tenant has."""
    return _counts(db, "tenant = ?", [tenant])


def counts_of_scope(db: Connection, scope: Scope) -> wire.Counts:
    """How many memories a query of ``scope`` may see, and how many of the current ones each backend has."""
    terms, values = visible_to(scope)
    held = db.execute(
        "select d.backend, count(*) as n from delivery d join event e using(seq) "
        f"where d.state = 'done' and e.forgotten = 0 and e.superseded_by is null and {terms} group by d.backend",
        values,
    )
    return {**_counts(db, terms, values), "by_backend": {row["backend"]: row["n"] for row in held}}


def _counts(db: Connection, terms: str, values: Sequence[object]) -> wire.Counts:
    current, superseded, forgotten = db.execute(
        "select count(*) filter (where forgotten = 0 and superseded_by is null), "
        "count(*) filter (where forgotten = 0 and superseded_by is not null), count(*) filter (where forgotten <> 0) "
        f"from event where {terms}",
        values,
    ).fetchone()
    return {"current": current, "superseded": superseded, "forgotten": forgotten}
