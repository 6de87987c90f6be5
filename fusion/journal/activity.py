"""What happened to the memories of a scope on each day: how many were remembered, forgotten and decided on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from fusion.contract import Scope
from fusion.journal.rows import visible_to
from fusion.store.database import Connection
from fusion.store.rows import microseconds, storable, time_of

_DAY = timedelta(days=1) // timedelta(microseconds=1)
MAX_SOURCES = 20
"""kinds of sources with a count of their own; the rarest others share one"""
OTHERS = "others"
DIRECT = "direct"
"""the kind of what names no source"""


@dataclass(frozen=True, slots=True)
class Activity:
    """Counts by day, UTC; ``remembered`` by kind of source as well, which is what its name begins with: file, mail."""

    remembered: Counter[tuple[date, str]] = field(default_factory=Counter)
    forgotten: Counter[date] = field(default_factory=Counter)
    decisions: Counter[date] = field(default_factory=Counter)


def activity(db: Connection, scope: Scope, since: datetime) -> Activity:
    """What happened since a time to the memories that a scope may see, or that its user had."""
    visible, values = visible_to(scope)
    kind = "case when instr(source, ':') > 0 then substr(source, 1, instr(source, ':') - 1) else source end"
    remembered = db.execute(
        f"select recorded_at / {_DAY} as day, coalesce({kind}, '{DIRECT}') as kind, count(*) as n from event "
        f"where {visible} and recorded_at >= ? group by 1, 2",
        (*values, microseconds(since)),
    )
    by_kind = Counter({(_date(row["day"]), str(row["kind"])): int(row["n"]) for row in remembered})
    of_user = "" if scope.user_id is None else " and coalesce(user_id, '') = ?"
    owner = (scope.tenant, *([] if scope.user_id is None else [storable(scope.user_id)]))

    def count(table: str) -> Counter[date]:
        counted = (
            f"select at / {_DAY} as day, count(*) as n from {table} where tenant = ?{of_user} and at >= ? group by 1"
        )
        return Counter({_date(row["day"]): int(row["n"]) for row in db.execute(counted, (*owner, microseconds(since)))})

    return Activity(_few_kinds(by_kind), count("audit"), count("decision"))


def _date(days: int) -> date:
    return time_of(days * _DAY).date()


def _few_kinds(found: Counter[tuple[date, str]]) -> Counter[tuple[date, str]]:
    """The counts with the rarest kinds of sources as one."""
    of_kind: Counter[str] = Counter()
    for (_, kind), n in found.items():
        of_kind[kind] += n
    kept = {kind for kind, _ in of_kind.most_common(MAX_SOURCES)}
    few: Counter[tuple[date, str]] = Counter()
    for (day, kind), n in found.items():
        few[day, kind if kind in kept else OTHERS] += n
    return few
