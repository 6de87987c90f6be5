"""The conditions under which a query sees a memory, valid in SQL and in Cypher."""

from __future__ import annotations

from adapters.cortex.port import View
from fusion.store.rows import fits, microseconds


def conditions(view: View, mark: str, contains: str) -> tuple[list[str], list[str], dict[str, object]]:
    """The conditions on a memory ``m``, those on a memory ``s`` that supersedes it, and their parameters.

    ``mark`` begins the name of a parameter; ``contains`` is that of `fits`. Both sides of a conflict are visible: they
    do not supersede each other.
    """
    fitting, wanted = fits(view.where, mark, contains)
    terms = ["m.trust <> 'quarantined'", "m.merged_into IS NULL", *fitting]
    newer = [
        "s.merged_into IS NULL",
        "NOT (s.conflict_status IS NOT NULL AND coalesce(s.conflict_group, '') = coalesce(m.conflict_group, '-'))",
    ]
    values: dict[str, object] = {"moment": microseconds(view.as_of or view.now), **wanted}
    if view.as_of is None:
        terms.append("coalesce(m.conflict_status, '') <> 'resolved'")
    else:
        terms.append(f"coalesce(m.valid_from, m.at, m.recorded_at) <= {mark}moment")
        newer.append(f"coalesce(s.valid_from, s.at, s.recorded_at) <= {mark}moment")
    if view.known_at is not None:
        values["known_at"] = microseconds(view.known_at)
        terms.append(f"m.recorded_at <= {mark}known_at")
        newer.append(f"s.recorded_at <= {mark}known_at")
    if not view.history:
        terms.append(f"(m.valid_to IS NULL OR m.valid_to > {mark}moment)")
        # What has ended has ended, also when the clock went back since; only an earlier time was before its end.
        earlier = "" if view.as_of is None else f" OR m.ended_at > {mark}moment"
        terms.append(f"(m.ended_at IS NULL{earlier})")
    return terms, newer, values
