"""The cortex's embedded store: one SQLite file, and a search index (words, vectors) derived from it.

Ending, merging and superseding a memory only set columns of its row, so that every version stays.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from json import dumps
from sqlite3 import Cursor
from typing import TYPE_CHECKING, ClassVar, Self

from adapters.cortex import phrase_table
from adapters.cortex.conflict import restored
from adapters.cortex.port import Change, EntitySummary, Link, Matches, Memory, StoreStats, View
from adapters.cortex.records import KIND_CHARS, json_of, kind_in
from adapters.cortex.rows import FIELDS, columns, memory_in, state_of
from adapters.cortex.visibility import conditions
from adapters.graph.options import WalkOptions
from adapters.graph.store import COUNTED, IN_STEP, OVERFETCH, SCHEMA, GraphStore, neighbours
from adapters.graph.traversal import Condition, by_strength, mention_pairs, paths, query_entities, ranks, shares, walk
from adapters.index import Index
from adapters.index.merge import Scored
from fusion.contract import Embedder, Event, Extracted, Extraction, Hit, Kind, Opening, Scope
from fusion.store.database import VALUES
from fusion.store.rows import CONTAINS, EVENT_NAMES, admission, event_in, microseconds, scope_of, storable
from fusion.store.sqlite import Connection, Database, tuples

if TYPE_CHECKING:
    from fusion.contract import Floats

_USE = """
alter table memory add column access_count integer not null default 0;
alter table memory add column last_accessed integer;
"""

# The extraction of memories that an older version stored is assembled from their mentions and relations.
_STATE = """
alter table memory add column lifetime text not null default 'permanent';
alter table memory add column confidence real not null default 0.7;
alter table memory add column tags text not null default '[]';
alter table memory add column reinforced_count integer not null default 0;
alter table memory add column reinforced_at integer;
alter table memory add column conflict_group text;
alter table memory add column conflict_status text;
alter table memory add column contradicts text;
alter table memory add column merged_into text;
alter table memory add column ended_at integer;
alter table memory add column extraction text not null default '{}';
alter table memory add column concepts_kept integer not null default 0;
create index memory_concepts on memory(concepts_kept);
create index memory_conflict on memory(conflict_group) where conflict_group is not null;
create index memory_merged on memory(merged_into) where merged_into is not null;
update memory set extraction = json_object(
    'kind', kind,
    'entities', (select json_group_array(json_object('name', e.name, 'type', e.type))
        from mention x join entity e on e.id = x.entity where x.memory = memory.id),
    'facts', (select json_group_array(json_object('subject', s.name, 'predicate', r.predicate, 'object', o.name))
        from relation r join entity s on s.id = r.subject join entity o on o.id = r.object where r.memory = memory.id)
);
"""


_CONTRADICTS = "create index memory_contradicts on memory(contradicts) where contradicts is not null;"
"""finds the opponents of a memory that is deleted"""

_IN_STEP = f"""{IN_STEP}
create trigger memory_merged_into after update of merged_into on memory begin delete from in_step; end;
"""


class SqliteGraph(GraphStore):
    """`adapters.cortex.port.Graph` on SQLite."""

    schema: ClassVar[tuple[str, ...]] = (SCHEMA + _USE, _STATE + phrase_table.SCHEMA, _CONTRADICTS, _IN_STEP, COUNTED)
    searched: ClassVar[str] = "m.merged_into is null"

    def __init__(self, database: Database, index: Index, walking: WalkOptions) -> None:
        super().__init__(database, index)
        self._walking = walking
        self._read: dict[str, tuple[Event, Extraction]] = {}
        self._changes = 0

    @classmethod
    async def open(cls, opening: Opening, walking: WalkOptions) -> Self:
        """Raises ``StoreDamaged`` for a corrupt or newer file, ``StoreBusy`` while another process writes to it."""
        store = cls(*await cls.open_files(opening), walking)
        try:
            while await store._database.write(_keep_concepts):
                pass
        except BaseException:
            await store.close()
            raise
        return store

    @property
    def embedder(self) -> Embedder | None:
        return self._index.embedder

    @property
    def generation(self) -> str | None:
        index = self._index
        if index.pending or not index.stamp:
            return None
        identity = index.embedder.identity if index.embedder else ""
        return f"{self._changes} {index.stamp} {index.vectors} {identity}"

    # Writing

    async def add(self, memories: Sequence[Memory]) -> None:
        def insert(db: Connection) -> list[str]:
            own = {memory.id: _own_columns(memory) for memory in reversed(memories)}
            new = self._insert(db, [Extracted(m.event, m.extraction) for m in memories], own)
            texts = {memory.id: (memory.event.scope, memory.event.text) for memory in reversed(memories)}
            phrase_table.keep(db, [(id_, *texts[event_id]) for event_id, id_ in new.items()])
            return [memory.id for memory in memories]

        if memories:
            with self._changing():
                await self._publish(await self._database.write(insert))
            self._changes += 1

    async def alter(self, changes: Mapping[str, Change]) -> None:
        with self._changing():
            await self._database.write(lambda db: _alter(db, changes))
            await self._publish([id_ for id_, change in changes.items() if "merged_into" in change])
        self._changes += 1

    async def use(self, ids: Sequence[str], at: datetime) -> None:
        await self._database.write(
            lambda db: db.execute(
                "update memory set access_count = access_count + 1, "
                f"last_accessed = max(coalesce(last_accessed, ?1), ?1) where event_id in {VALUES.replace('?', '?2')}",
                (microseconds(at), dumps(list(ids))),
            )
        )

    async def delete(self, ids: Sequence[str]) -> frozenset[str]:
        gone = dumps(list(ids))

        def release(db: Connection) -> list[str]:
            rows = db.execute(f"select * from memory where event_id in {VALUES}", (gone,)).fetchall()
            phrase_table.drop(db, [(row["id"], scope_of(row), row["text"]) for row in rows])
            db.execute(
                "update memory set conflict_status = null, contradicts = null "
                f"where conflict_status = 'active' and contradicts in {VALUES}",
                (gone,),
            )
            removed = [memory_in(row) for row in rows]
            groups = dumps(list({m.state.conflict_group for m in removed if m.state.conflict_group is not None}))
            left = _memories(db.execute(f"select * from memory where conflict_group in {VALUES}", (groups,)))
            _alter(db, restored(removed, left))
            freed = db.execute(
                f"update memory set merged_into = null where merged_into in {VALUES} returning event_id",
                (gone,),
            )
            return [row[0] for row in freed.fetchall()]

        deleted = await self._delete(ids, release)
        # A new dict, not a cleared one: a read under way may still fill the old one with deleted memories.
        self._read = {}
        self._changes += 1
        return deleted

    # Reading

    async def get(self, ids: Sequence[str]) -> Mapping[str, Memory]:
        def look(db: Connection) -> dict[str, Memory]:
            rows = db.execute(f"select * from memory where event_id in {VALUES}", (dumps(list(ids)),))
            return {memory.id: memory for memory in _memories(rows)}

        return await self._database.read(look)

    def _read_visible(self, db: Connection, ids: Sequence[str], view: Condition) -> dict[str, Memory]:
        """The visible memories of ``ids``; of their extraction only the kind.

        States are read each time. Events and kinds never change, so they are cached.
        """
        kept = self._read
        if len(kept) > MAX_CACHED:
            kept.clear()
        known = {id_: read for id_ in ids if (read := kept.get(id_)) is not None}
        seen, values = view

        def chosen(columns: str, ids: Sequence[str]) -> Cursor:
            sql = f"select {columns} from json_each(:ids) j join memory m on m.event_id = j.value where {seen}"
            return tuples(db, sql, {**values, "ids": dumps(ids)})

        found = {id_: Memory(*known[id_], state_of(*state)) for id_, *state in chosen(_STATE_COLUMNS, list(known))}
        if missing := [id_ for id_ in ids if id_ not in known]:
            for kind, *columns in chosen(_BRIEF, missing):
                event, state = columns[:_EVENT_END], columns[_EVENT_END:]
                read = kept[event[0]] = event_in(event), _of_kind(kind_in(kind))
                found[event[0]] = Memory(*read, state_of(*state))
        return found

    async def visible(self, view: View, ids: Sequence[str]) -> Mapping[str, Memory]:
        return await self._database.read(lambda db: self._read_visible(db, ids, visible(view)))

    async def versions(self, id: str) -> Sequence[Memory]:
        return await self._database.read(lambda db: _memories(db.execute(_VERSIONS, (id,))))

    async def page(self, after: str = "", limit: int = 500, scope: Scope | None = None) -> Sequence[Memory]:
        mine, values = _ANY_STATE if scope is None else _of(scope)
        return await self._page(f"m.event_id > :after and {mine}", {**values, "after": after, "limit": limit})

    async def named(self, part: str, scope: Scope, limit: int) -> Sequence[Memory]:
        mine, values = _of(scope)
        part = storable(part)
        either_end = "(substr(m.event_id, 1, :length) = :part or substr(m.event_id, -:length) = :part)"
        values |= {"part": part, "length": len(part), "limit": limit}
        return await self._page(f"{either_end} and {mine}", values)

    async def _page(self, where: str, values: Mapping[str, object]) -> list[Memory]:
        sql = f"select * from memory m where {where} order by m.event_id limit :limit"
        return await self._database.read(lambda db: _memories(db.execute(sql, values)))

    async def find(self, text: str, vector: Floats | None, view: View, limit: int) -> Matches:
        def read(words: Scored, vectors: Scored) -> tuple[Scored, Scored, dict[str, Memory]]:
            ids = list({id_: None for id_, _ in (*words, *vectors)})
            return words, vectors, self._database.look(lambda db: self._read_visible(db, ids, visible(view)))

        found = Matches()
        for many in (limit, limit * OVERFETCH):  # the index also has superseded and ended memories
            if vector is None:
                words = await self._index.lexical(text, view.scope, many)
                words, vectors, memories = await asyncio.to_thread(read, words, ())
            else:
                words, vectors, memories = await self._index.made_of(text, view.scope, many, read, vector)
            found = Matches([f for f in words if f[0] in memories], [f for f in vectors if f[0] in memories], memories)
            if all(
                len(left) >= limit or len(asked) < many
                for left, asked in ((found.words, words), (found.vectors, vectors))
            ):
                break
        return Matches(found.words[:limit], found.vectors[:limit], found.memories)

    async def cosines(self, vector: Floats, ids: Sequence[str]) -> Mapping[str, float]:
        return await self._index.cosines(vector, ids)

    async def complete(
        self, ids: Sequence[str], vector: Floats | None, bare: Sequence[str]
    ) -> tuple[Mapping[str, Memory], Mapping[str, float]]:
        def look(db: Connection) -> tuple[Mapping[str, Memory], Mapping[str, float]]:
            return self._read_visible(db, ids, _ANY_STATE), {} if vector is None else self._index.compared(vector, bare)

        return await self._database.read(look)

    async def link(self, text: str, view: View, similar: Sequence[str], limit: int) -> Sequence[Link]:
        def look(db: Connection) -> list[Link]:
            known = visible(view.unfiltered)
            named = query_entities(db, text, view.scope)
            rows = dict(
                tuples(
                    db,
                    "select m.id, m.event_id from json_each(?) j join memory m on m.event_id = j.value order by j.key",
                    (dumps(list(similar)),),
                )
            )
            near = list(rows)
            reached = walk(db, known, list(named), self._walking)
            nodes, pairs = phrase_table.phrase_links(db, known, text, view.scope, near, self._walking.fan_out, named)
            pairs |= mention_pairs(db, known, reached, near, self._walking)
            reached = dict(sorted((reached | nodes).items(), key=lambda r: (r[1].depth, -r[1].activation)))
            found = by_strength(pairs, reached, near)
            at = ranks(found)
            found = [f for place, f in enumerate(found) if place < limit or f.memory in rows]
            why = paths(db, found, reached)
            others = dumps([f.memory for f in found if f.memory not in rows])
            rows.update(tuples(db, f"select id, event_id from memory where id in {VALUES}", (others,)))
            share = shares(found)
            return [Link(rows[f.memory], f.hops, at[f.memory], share[f.memory], why[f.memory]) for f in found]

        return await self._database.read(look)

    async def neighbours(self, hits: Sequence[Hit], span: int) -> Sequence[Sequence[Memory]]:
        def look(db: Connection) -> list[list[Memory]]:
            return [[memory_in(row) for row in neighbours(db, hit.native_id, hit.scope, span)] for hit in hits]

        return await self._database.read(look)

    async def entities(self, scope: Scope, limit: int = 100) -> Sequence[EntitySummary]:
        mine = "" if scope.user_id is None else "and owner = :owner"

        def look(db: Connection) -> list[EntitySummary]:
            rows = db.execute(
                f"select name, type, mentions from entity where tenant = :tenant {mine} "
                "order by mentions desc, key limit :limit",
                {"tenant": storable(scope.tenant), "owner": storable(scope.user_id or ""), "limit": limit},
            )
            return [EntitySummary(*row) for row in rows]

        return await self._database.read(look)

    async def stats(self) -> StoreStats:
        index = self._index
        return StoreStats(await self.count(), index.vectors, index.pending, index.faults)


def _own_columns(memory: Memory) -> dict[str, object]:
    """The columns of a memory's row that are not its event's."""
    state = {name: getattr(memory.state, name) for name in FIELDS}
    return {
        "extraction": json_of(memory.extraction),
        "concepts_kept": phrase_table.VERSION,
        **dict(zip(FIELDS, columns(state), strict=True)),
    }


def _keep_concepts(db: Connection) -> int:
    """Record the concepts of up to 500 memories that an older version stored; returns how many there were."""
    other = "concepts_kept < ?1 or concepts_kept > ?1"  # "<>" would read all memories rather than the index
    rows = db.execute(f"select * from memory where {other} limit 500", (phrase_table.VERSION,)).fetchall()
    phrase_table.keep(db, [(row["id"], scope_of(row), row["text"]) for row in rows])
    db.execute(
        f"update memory set concepts_kept = ? where id in {VALUES}",
        (phrase_table.VERSION, dumps([row["id"] for row in rows])),
    )
    return len(rows)


def visible(view: View) -> Condition:
    """The condition on a row ``m`` of ``memory`` under which ``view`` sees it, and its parameters."""
    admits, owner_values = _of(view.scope)
    terms, newer, values = conditions(view, ":", CONTAINS)
    if not view.history:
        supersedes = "s.supersedes = m.event_id and s.tenant = m.tenant and s.user_id is m.user_id"
        terms.append(f"not exists (select 1 from memory s where {' and '.join((supersedes, *newer))})")
    return " and ".join((admits, *terms)), owner_values | values


def _of(scope: Scope) -> tuple[str, dict[str, object]]:
    """The condition under which ``scope`` admits a row ``m``, and its parameters."""
    terms, values = admission(scope)
    return " and ".join(terms), values


_ANY_STATE: Condition = ("true", {})
"""a condition that every memory meets"""

MAX_CACHED = 4096
"""events in the cache: about 4 MB at ordinary length"""

_STATE_COLUMNS = ", ".join(f"m.{name}" for name in ("event_id", *FIELDS))
_BRIEF = ", ".join([f"substr(m.extraction, 1, {KIND_CHARS})", *(f"m.{name}" for name in (*EVENT_NAMES, *FIELDS))])
_EVENT_END = len(EVENT_NAMES)


@lru_cache
def _of_kind(kind: Kind) -> Extraction:
    return Extraction(kind)


def _memories(rows: Cursor) -> list[Memory]:
    """The memories of whole rows. A dict finds a column at once; a `sqlite3.Row` compares names."""
    names = [column[0] for column in rows.description]
    return [memory_in(dict(zip(names, row, strict=True))) for row in rows]


def _alter(db: Connection, changes: Mapping[str, Change]) -> None:
    alike: defaultdict[tuple[str, ...], list[tuple[object, ...]]] = defaultdict(list)
    for id_, change in changes.items():
        named = {name: value for name, value in change.items() if name in FIELDS}
        if named:
            alike[tuple(named)].append((*columns(named), id_))
    for names, rows in alike.items():
        assignments = ", ".join(f"{name} = ?" for name in names)
        db.executemany(f"update memory set {assignments} where event_id = ?", rows)


_VERSIONS = """
with recursive version(event_id, supersedes, tenant, user_id) as (
    select event_id, supersedes, tenant, user_id from memory where event_id = ?
    union
    select m.event_id, m.supersedes, m.tenant, m.user_id from version v
    join memory m on m.event_id = v.supersedes and m.tenant = v.tenant and m.user_id is v.user_id
    union
    select m.event_id, m.supersedes, m.tenant, m.user_id from version v
    join memory m on m.supersedes = v.event_id and m.tenant = v.tenant and m.user_id is v.user_id
)
select m.* from version v join memory m on m.event_id = v.event_id
order by coalesce(m.valid_from, m.at, m.recorded_at), m.event_id
"""
