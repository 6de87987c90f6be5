"""Reading temporal facts from their table (`fusion.journal.fact_rows`), and building that again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from fusion.contract import NO_USER, Scope
from fusion.errors import NotFound
from fusion.journal import fact_rows, observations
from fusion.journal.rows import RETIRED, delivered_event, record_of, visible_to
from fusion.lib.fact_lines import MARK
from fusion.lib.fact_timeline import Asserted
from fusion.lib.ids import EPISODE, short_ref
from fusion.lib.listing import record_ref
from fusion.lib.temporal_facts import ENDED, STATED, Assertion, Ending, Source, read
from fusion.store.database import VALUES, Connection, Row, listed
from fusion.store.rows import event_of, storable, time_of

READ_AT_ONCE = 1000
"""memories that a rebuild reads in one step"""


def rebuild(db: Connection) -> tuple[int, int]:
    """Delete the table and derive it again from the events; how many rows it had, and has."""
    before = _count(db)
    db.execute("delete from fact_assertion")
    for row in _stating(db):
        fact_rows.add(db, row["seq"], delivered_event(row))
    return before, _count(db)


def _count(db: Connection) -> int:
    return int(db.execute("select count(*) from fact_assertion").fetchone()[0])


def _stating(db: Connection) -> Iterator[Row]:
    """The events that may assert something, oldest first, a thousand at a time."""
    after = 0
    while True:
        rows = db.execute(
            "select * from event where seq > ? and forgotten = 0 and (instr(lower(text), ?) > 0 or stated like ?) "
            "order by seq limit ?",
            (after, MARK, f'%"{STATED}%', READ_AT_ONCE),
        ).fetchall()
        yield from rows
        if len(rows) < READ_AT_ONCE:
            return
        after = rows[-1]["seq"]


def rows(db: Connection) -> list[tuple[Any, ...]]:
    """All rows of the table in their order, for comparisons."""
    return [tuple(row) for row in db.execute("select * from fact_assertion order by seq, n")]


def subject_of(db: Connection, fact: str, scope: Scope) -> str:
    """The ref of the subject of a fact. Raises NotFound for one that is not there or out of scope."""
    terms, values = visible_to(scope)
    row = db.execute(
        f"select f.subject from fact_assertion f join event using(seq) where f.fact = ? and f.name = ? "
        f"and forgotten = 0 and {terms}",
        (storable(fact), STATED, *values),
    ).fetchone()
    if row is None:
        raise NotFound(f"there is no fact {fact!r} here; `current` and `timeline` show the ids of facts")
    return str(row["subject"])


def subjects(db: Connection, scope: Scope, limit: int) -> list[str]:
    """The refs of the subjects that a scope may see, sorted, at most ``limit``."""
    terms, values = visible_to(scope)
    found = db.execute(
        f"select distinct f.subject from fact_assertion f join event using(seq) where forgotten = 0 and {terms} "
        "order by f.subject limit ?",
        (*values, limit),
    )
    return [row["subject"] for row in found]


def asserted(db: Connection, scope: Scope, subjects: Sequence[str] | None = None) -> list[Asserted]:
    """The assertions about these subjects, or about all, that a scope may see; nothing of quarantined memories."""
    terms, values = visible_to(scope)
    about = "" if subjects is None else f"and f.subject in {VALUES} "
    given = () if subjects is None else listed(map(storable, subjects))
    found = db.execute(
        f"select event.*, f.fact, f.name, f.body from fact_assertion f join event using(seq) where forgotten = 0 "
        f"{about}and {terms} order by f.seq, f.n",
        (*given, *values),
    ).fetchall()
    read_rows = [(row, one) for row in found if (one := read(row["name"], row["body"])) is not None]
    sources = _sources(db, (token for _, one in read_rows for token in one.sources), scope.tenant)
    gone = _times_of(db, (row["superseded_by"] for row, _ in read_rows))
    return [built for row, one in read_rows if (built := _asserted(row, one, sources, gone)) is not None]


def _asserted(
    row: Row, one: Assertion | Ending, sources: dict[str, Source], gone: dict[str, datetime]
) -> Asserted | None:
    record = record_of(row)
    if record.trust == "quarantined":
        return None
    event = record.event
    own = Source(record_ref(record.ref), "ok", record.trust, record.said_at or event.recorded_at)
    is_line = isinstance(one, Assertion) and not any(name in (STATED, ENDED) for name, _ in event.stated)
    named = (own,) if is_line else tuple(sources[token] for token in one.sources)
    trust = "untrusted" if event.doubtful and record.trust == "unknown" else record.trust
    replaced = record.superseded_by
    return Asserted(
        row["fact"],
        record.ref,
        event.scope.user_id or NO_USER,
        one,
        event.recorded_at,
        trust,
        named,
        None if replaced is None else "retired" if replaced == RETIRED else "replaced",
        None if replaced is None else gone.get(replaced, event.recorded_at),
        record.state.ended,
        is_line,
    )


def _times_of(db: Connection, event_ids: Iterable[str | None]) -> dict[str, datetime]:
    wanted = listed({one for one in event_ids if one is not None})
    found = db.execute(f"select event_id, recorded_at from event where event_id in {VALUES}", wanted)
    return {row["event_id"]: time_of(row["recorded_at"]) for row in found}


def _sources(db: Connection, tokens: Iterable[str], tenant: str) -> dict[str, Source]:
    """The sources of facts as they are now, by the id of their event or the ref of their observation."""
    wanted = dict.fromkeys(tokens)
    found = {
        row["event_id"]: _source(row)
        for row in db.execute(
            f"select * from event where event_id in {VALUES} and tenant = ?", (*listed(wanted), storable(tenant))
        )
    }
    for token in wanted:
        if token.startswith(EPISODE) and (episode := _episode(db, token, tenant)) is not None:
            found[token] = episode
    return {token: found.get(token, Source(token, "missing", "untrusted")) for token in wanted}


def _episode(db: Connection, ref: str, tenant: str) -> Source | None:
    """An observation as a source; what a tool returned is untrusted. None for one that is gone."""
    try:
        row = observations.find(db, ref, Scope(tenant, audience="private"))
    except NotFound:
        return None
    return Source(ref, "ok", "untrusted" if row["origin"] == "tool" else "unknown", time_of(row["ts"]))


def _source(row: Row) -> Source:
    ref = record_ref(short_ref(row["seq"]))
    if row["forgotten"]:
        return Source(ref, "forgotten", "untrusted")
    record = record_of(row)
    replaced, ended = record.superseded_by, record.state.ended
    if record.trust == "quarantined":
        status = "quarantined"
    elif replaced is not None:
        status = "retired" if replaced == RETIRED else "replaced"
    else:
        status = "ok" if ended is None else ended
    return Source(ref, status, record.trust, record.said_at or event_of(row).recorded_at)
