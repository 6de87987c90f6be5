"""Recall as seed 000 describes it: what is similar, and what the graph leads to, merged by weighted RRF.

The similar are found by meaning and by words (the shared index; by words alone while vectors are missing), the linked
by walking up to two hops from the entities that the query names. A memory that both find comes first:
.6 / (60 + 1) + .4 / (60 + 2) beats .6 / (60 + 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from json import dumps
from typing import ClassVar

from adapters.graph import (
    SCHEMA,
    GraphStore,
    link,
    linked_memories,
    memory_rows,
    merge,
    paths,
    visible_memories,
    walk,
)
from fusion.contract import Hit, Query
from fusion.lib.sqlite import Connection, hit_of, microseconds

_ACCESS = """
alter table memory add column access_count integer not null default 0;
alter table memory add column last_accessed integer;
"""


class Cortex(GraphStore):
    """Memories with scope, time, versions and use; a hit that the graph found carries its path."""

    schema: ClassVar[str] = SCHEMA + _ACCESS

    def recall(self, db: Connection, query: Query, keys: Sequence[str]) -> list[Hit]:
        similar = visible_memories(db, query, keys)
        reached = walk(db, query, link(db, query), self.options)
        linked = linked_memories(db, query, reached, similar, self.options)
        merged = merge(similar, linked, self.options)[: query.limit]
        chosen = {memory for memory, _ in merged}
        why = paths(db, [found for found in linked if found.memory in chosen], reached)
        rows = memory_rows(db, chosen)
        return [hit_of(rows[memory], score, why.get(memory, ())) for memory, score in merged]

    async def used(self, native_ids: Sequence[str], at: datetime) -> None:
        """Counts a use of each, and when the latest was: what recency and frequency are reckoned from."""

        def count(db: Connection) -> None:
            db.execute(
                "update memory set access_count = access_count + 1, "
                "last_accessed = max(coalesce(last_accessed, ?1), ?1) "
                "where event_id in (select value from json_each(?2))",
                (microseconds(at), dumps(list(native_ids))),
            )

        await self._database.write(count)
