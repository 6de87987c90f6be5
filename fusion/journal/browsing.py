"""Browsing memories: a page of those that fit a filter on what is written, stated and decided, in one of four orders.

A page reads the rows of its owner in the order of an index where there is one, and their states as JSON only where they
may decide. Pages are found by the last place of the one before, so that none is counted through.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from fusion.contract import Kind, Origin, Scope, Trust
from fusion.errors import BadInput
from fusion.journal.rows import RETIRED, Record, record_of, visible_to
from fusion.lib.ids import cursor as cursor_of
from fusion.lib.ids import parse_cursor
from fusion.store.database import Connection, Row
from fusion.store.rows import microseconds, storable

Standing = Literal[
    "current", "archived", "superseded", "retired", "expired", "decayed", "lost", "merged", "quarantined"
]
"""in one word, what holds of a memory; of several, the first that fits: see `standing_of`"""
Order = Literal["recorded", "newest", "oldest", "importance"]
MAX_WORDS = 8
"""words of a search that are looked for; the others are left out"""
_MAX_NUMBER = 1 << 63

SCHEMA = "create index event_time on event(tenant, coalesce(at, recorded_at), seq);"
"""by the time at which a memory happened, or else was recorded"""

_TIME = "coalesce(at, recorded_at)"


def _of_state(name: str, otherwise: str = "null") -> str:
    """SQL for a field of a state, which is JSON with the fields that differ from a new memory's."""
    return f"case when instr(state, '\"{name}\"') > 0 then json_extract(state, '$.{name}') else {otherwise} end"


_TRUST, _ENDED, _PROJECT = _of_state("trust", "trust"), _of_state("ended"), _of_state("project", "project")
_IMPORTANCE = f"coalesce(cast({_of_state('importance')} as double precision), -1)"
_LEFT = f"superseded_by is null and {_TRUST} <> 'quarantined'"
_VALID = "(valid_to is null or valid_to > :now)"
_STANDINGS: Mapping[Standing, str] = {
    "retired": f"(superseded_by = '{RETIRED}' or ({_LEFT} and {_ENDED} = 'retired'))",
    "superseded": f"superseded_by <> '{RETIRED}'",
    "quarantined": f"superseded_by is null and {_TRUST} = 'quarantined'",
    **{name: f"{_LEFT} and {_ENDED} = '{name}'" for name in ("archived", "decayed", "lost")},
    "expired": f"{_LEFT} and ({_ENDED} = 'expired' or ({_ENDED} is null and not {_VALID}))",
    "merged": f"{_LEFT} and {_ENDED} is null and {_VALID} and merged_into is not null",
    "current": f"{_LEFT} and {_ENDED} is null and {_VALID} and merged_into is null",
}


@dataclass(frozen=True, slots=True)
class Browse:
    """Which memories to list, in which order; None does not filter.

    Without a ``state`` those that nothing replaced are listed, with "all" every one that was not forgotten. Times are
    in [``after``, ``before``), of when a memory happened, else was recorded. ``q`` are words that it must have all of.
    ``cursor`` is `next` of the page before.
    """

    scope: Scope
    limit: int = 20
    cursor: str | None = None
    order: Order = "recorded"
    document: str | None = None
    source: str | None = None
    kind: Kind | None = None
    trust: Trust | None = None
    origin: Origin | None = None
    state: Standing | Literal["all"] | None = None
    in_project: str | None = None
    tag: str | None = None
    after: datetime | None = None
    before: datetime | None = None
    min_importance: float | None = None
    backend: str | None = None
    q: str | None = None
    reads_quarantined: bool = False
    """whether the caller may read what is quarantined; without that, nothing in it is searched"""

    @property
    def words(self) -> list[str]:
        return [] if self.q is None else self.q.split()[:MAX_WORDS]


@dataclass(frozen=True, slots=True)
class Browsed:
    """A page of memories, and the cursor of the next one."""

    records: tuple[Record, ...]
    next: str | None


def browse(db: Connection, asked: Browse, now: datetime) -> Browsed:
    """A page of the memories that fit. Raises BadInput for a cursor that is not one of this order."""
    terms, values = _conditions(asked, now)
    key, direction = _ORDERS[asked.order]
    if asked.cursor is not None:
        value, seq = _place(asked.order, asked.cursor)
        compare = ">" if direction == "asc" else "<"
        terms.append(f"({key}, seq) {compare} (:key, :seq)")
        values |= {"key": value, "seq": seq}
    # The numbers first: the rows themselves would be sorted with all that they hold.
    found = db.execute(
        f"select seq, {key} as place from event where {' and '.join(terms)} "
        f"order by {key} {direction}, seq {direction} limit :limit",
        {**values, "limit": asked.limit + 1},
    ).fetchall()
    shown = found[: asked.limit]
    rows = (db.execute("select * from event where seq = ?", (row["seq"],)).fetchone() for row in shown)
    following = _cursor(asked.order, shown[-1]) if len(found) > len(shown) else None
    records = (record for record in map(record_of, rows) if asked.scope.admits(record.event.scope))
    return Browsed(tuple(records), following)


_ORDERS: Mapping[Order, tuple[str, Literal["asc", "desc"]]] = {
    "recorded": ("seq", "desc"),
    "newest": (_TIME, "desc"),
    "oldest": (_TIME, "asc"),
    "importance": (_IMPORTANCE, "desc"),
}


def _cursor(order: Order, last: Row) -> str:
    """The cursor of the page after a row: its number, in other orders with its value there."""
    return cursor_of(last["seq"]) if order == "recorded" else f"{order[0]}{last['place']!r}_{last['seq']}"


def _place(order: Order, cursor: str) -> tuple[float, int]:
    """The place after which a page begins: its value in the order, and its number."""
    if order == "recorded" and (number := parse_cursor(cursor)) is not None:
        return number, number
    value, _, seq = cursor[1:].partition("_")
    try:
        place = (float(value) if order == "importance" else int(value)), int(seq)
        if order != "recorded" and cursor[:1] == order[0] and all(abs(number) < _MAX_NUMBER for number in place):
            return place
    except ValueError:
        pass
    raise BadInput("cursor: it is invalid; send a page's next_cursor unchanged, with the same order and filters")


def _conditions(asked: Browse, now: datetime) -> tuple[list[str], dict[str, object]]:
    visible, of_scope = visible_to(asked.scope)
    terms, values = ["forgotten = 0"], dict[str, object]({"now": microseconds(now)})
    for number, value in enumerate(of_scope):
        visible = visible.replace("?", f":scope{number}", 1)
        values[f"scope{number}"] = value
    terms.append(visible)

    def fits(condition: str, name: str, value: object) -> None:
        if value is not None:
            terms.append(condition)
            values[name] = storable(value) if isinstance(value, str) else value

    fits("document = :document", "document", asked.document)
    fits("source = :source", "source", asked.source)
    fits("kind = :kind", "kind", asked.kind)
    fits("origin = :origin", "origin", asked.origin)
    fits(f"{_TIME} >= :after", "after", None if asked.after is None else microseconds(asked.after))
    fits(f"{_TIME} < :before", "before", None if asked.before is None else microseconds(asked.before))
    held = "select 1 from delivery d where d.seq = event.seq and d.backend = :backend and d.state = 'done'"
    fits(f"exists ({held})", "backend", asked.backend)
    fits(f"{_TRUST} = :trust", "trust", asked.trust)
    fits(f"{_PROJECT} = :in_project", "in_project", asked.in_project)
    fits(f"{_IMPORTANCE} >= :least", "least", asked.min_importance)
    tagged = "select 1 from json_each(state, '$.tags') t where t.value = :tag"
    fits(f"instr(state, '\"tags\"') > 0 and exists ({tagged})", "tag", asked.tag)
    if asked.state is None:
        terms.append("superseded_by is null")
    elif asked.state != "all":
        terms.append(_STANDINGS[asked.state])
    for number, word in enumerate(asked.words):
        forms = [word] if word.isascii() else dict.fromkeys((word, word.lower(), word.upper(), word.capitalize()))
        names = {f"word{number}_{n}": f"%{_escaped(storable(form))}%" for n, form in enumerate(forms)}
        terms.append(f"({' or '.join(_HAS_WORD.format(name) for name in names)})")
        values |= names
    if not asked.reads_quarantined and (asked.words or asked.tag or asked.in_project):
        terms.append(f"{_TRUST} <> 'quarantined'")
    return terms, values


_HAS_WORD = "text like :{0} escape '\\' or speaker like :{0} escape '\\'"
"""SQLite's LIKE ignores the case of ASCII letters"""


def _escaped(word: str) -> str:
    """A word of which LIKE takes no character as a pattern."""
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def standing_of(record: Record, now: datetime) -> Standing:
    """In one word what holds of a memory."""
    if record.superseded_by is not None:
        return "retired" if record.superseded_by == RETIRED else "superseded"
    if record.trust == "quarantined":
        return "quarantined"
    ended = record.state.ended
    if ended is not None:
        return ended
    valid_to = record.event.valid_to
    if valid_to is not None and valid_to <= now:
        return "expired"
    return "merged" if record.state.merged_into is not None else "current"
