"""What the grader reads from the journal: how many memories have an importance, and the next ones that have none."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from fusion.contract import Kind, Scope
from fusion.journal.lifecycle import CURRENT
from fusion.journal.rows import Record, record_of, visible_to
from fusion.lib.importance import MUST_REMEMBER, NICE_TO_HAVE, Label
from fusion.store.database import VALUES, Connection, listed

GRADED = """(state like '%"importance":%' or state like '%"grade":%')"""
"""the condition on a memory that has an importance, or that somebody left without one on purpose; in a text of the
state, quotes are escaped"""
_UNGRADED = f"(state is null or not {GRADED})"


@dataclass(frozen=True, slots=True)
class Tally:
    """Numbers of current memories: ``existing`` by label have a grade, the ``skipped`` are of kinds without one."""

    total: int
    existing: Mapping[Label, int]
    skipped: int


def tally(db: Connection, scope: Scope, skipped_kinds: Collection[Kind]) -> Tally:
    """Count a scope's current memories."""
    terms, values = visible_to(scope)
    total, must, nice, ignored, unknown, skipped = db.execute(
        "select count(*), count(*) filter (where score >= ?), count(*) filter (where score >= ? and score < ?), "
        "count(*) filter (where score < ?), count(*) filter (where graded and score is null), "
        f"count(*) filter (where not graded and kind in {VALUES}) from ("
        f"select kind, coalesce({GRADED}, false) as graded, "
        f"case when {GRADED} then cast(json_extract(state, '$.importance') as double precision) end as score "
        f"from event where {CURRENT} and {terms}) as memory",
        (MUST_REMEMBER, NICE_TO_HAVE, MUST_REMEMBER, NICE_TO_HAVE, *listed(skipped_kinds), *values),
    ).fetchone()
    existing: dict[Label, int] = {
        "must_remember": must,
        "nice_to_have": nice,
        "ignore": ignored,
        "unknown": unknown,
    }
    return Tally(total, existing, skipped)


def ungraded(db: Connection, scope: Scope, skipped_kinds: Collection[Kind], after: int, limit: int) -> list[Record]:
    """The next current memories of a scope after the number ``after`` that have no importance, oldest first."""
    terms, values = visible_to(scope)
    rows = db.execute(
        f"select * from event where seq > ? and {CURRENT} and {_UNGRADED} and kind not in {VALUES} and {terms} "
        "order by seq limit ?",
        (after, *listed(skipped_kinds), *values, limit),
    )
    return [record_of(row) for row in rows]


def reverted(db: Connection, event_ids: Sequence[str]) -> set[str]:
    """Those of these memories of which somebody took a grade back: no run grades them again."""
    rows = db.execute(
        "select c.item from state_change c join decision d on d.id = c.decision "
        f"where c.item in {VALUES} and d.undone_by is not null and json_type(c.after, '$.grade') = 'object'",
        listed(event_ids),
    )
    return {row["item"] for row in rows}
