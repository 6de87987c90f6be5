"""A graph of memories in SQLite, the base of the stores of `cortex` and `triples`.

SQLite is the truth; the index (lexical, vectors) is derived from it and brought into step at every opening.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from hashlib import blake2b
from json import dumps
from typing import Any, ClassVar

from adapters.graph.names import key
from adapters.graph.relations import relation
from adapters.graph.traversal import query_entities
from adapters.index import Entry, Index
from fusion.contract import DIMENSIONS, Entity, Event, Extracted, Extraction, Fact, GraphEdge, Opening, Query, Scope
from fusion.errors import FusionError
from fusion.lib.words import content_hash
from fusion.store.database import VALUES
from fusion.store.rows import EVENT_COLUMNS, INSERT_EVENT, event_of, event_row, scope_of, storable, visible
from fusion.store.sqlite import Connection, Database, Row, tuples
from fusion.version import VERSION

SCHEMA = f"""
create table memory (id integer primary key, {EVENT_COLUMNS});
create index memory_place on memory(tenant, document, place_start) where document is not null;
create index memory_successor on memory(supersedes) where supersedes is not null;

-- A node. It belongs to one user ('' is nobody), so that a walk never passes from one user to another.
create table entity (
    id integer primary key, tenant text not null, owner text not null, key text not null,
    name text not null, type text not null, mentions integer not null default 0,
    unique (tenant, key, owner)
);
create table mention (
    entity integer not null references entity on delete cascade,
    memory integer not null references memory on delete cascade,
    primary key (entity, memory)
) without rowid;
create index mention_memory on mention(memory);

-- An edge, once for each memory that asserts it: that is its provenance. `fact` names the triple within its scope.
create table relation (
    id integer primary key,
    subject integer not null references entity on delete cascade,
    predicate text not null,
    object integer not null references entity on delete cascade,
    memory integer not null references memory on delete cascade,
    fact text not null,
    unique (memory, fact)
);
create index relation_subject on relation(subject);
create index relation_object on relation(object);
create index relation_fact on relation(fact);

-- An entity knows how often it is mentioned (hubs are walked differently), and goes with its last mention.
create trigger mention_added after insert on mention begin
    update entity set mentions = mentions + 1 where id = new.entity;
end;
create trigger mention_removed after delete on mention begin
    update entity set mentions = mentions - 1 where id = old.entity;
    delete from entity where id = old.entity and mentions = 0;
end;
"""

IN_STEP = """
create table in_step (stamp text not null);
create trigger memory_inserted after insert on memory begin delete from in_step; end;
create trigger memory_deleted after delete on memory begin delete from in_step; end;
create trigger memory_updated after update of
    event_id, text, speaker, tenant, user_id, agent_id, run_id, session_id, project, audience on memory
    begin delete from in_step; end;
create trigger relation_inserted after insert on relation begin delete from in_step; end;
create trigger relation_deleted after delete on relation begin delete from in_step; end;
"""
"""the index's stamp while the index has what the tables imply; every change of what it has drops it"""

COUNTED = """
create table tally (memories integer not null);
insert into tally select count(*) from memory;
create trigger memory_counted after insert on memory begin update tally set memories = memories + 1; end;
create trigger memory_uncounted after delete on memory begin update tally set memories = memories - 1; end;
"""
"""the number of memories, which is asked each second"""

SPEAKER = "person"
"""the entity type of a memory's speaker"""


OVERFETCH = 3
"""factor on the limit of a search in the index, which also has superseded and expired memories, and edges"""


class GraphStore:
    """SQLite and its index, kept in step; a subclass ranks what they find. Native ids are event ids."""

    schema: ClassVar[tuple[str, ...]] = (SCHEMA, IN_STEP, COUNTED)
    """migration steps for `Database.open`"""
    facts_are_searched: ClassVar[bool] = False
    """whether relations have index entries of their own"""
    searched: ClassVar[str] = "true"
    """the condition under which a memory ``m`` has an index entry"""

    def __init__(self, database: Database, index: Index) -> None:
        self._database = database
        self._index = self.index = index
        self._stale: set[str] = set()
        self._publishing = asyncio.Lock()
        self._unfinished = 0
        """changes that have begun and did not come to their end, so that the index may be out of step"""

    @classmethod
    async def open_files(cls, opening: Opening) -> tuple[Database, Index]:
        """Raises ``StoreDamaged`` for a corrupt or newer file."""
        database = await Database.open(opening.folder / "graph.sqlite", cls.schema, events="memory")
        try:
            stamp = await database.read(_stamp_in_step)
            loop = asyncio.get_running_loop()

            def pick(keys: Sequence[str]) -> list[Entry]:
                """For the index's own threads."""
                reading = database.read(lambda db: cls._entries(db, keys))
                return asyncio.run_coroutine_threadsafe(reading, loop).result()

            def truth() -> Iterator[Entry]:
                """Read by the index's own thread, if at all."""
                yield from database.look(cls._all_entries)

            folder = opening.folder / "index"
            index = await Index.open(folder, opening.embedder, truth(), pick=pick, stamp=stamp)
        except BaseException:
            await database.close()
            raise
        return database, index

    async def count(self) -> int:
        return await self._database.read(lambda db: int(db.execute("select memories from tally").fetchone()[0]))

    async def check(self) -> str | None:
        """Check SQLite and the index; rebuild a damaged index from SQLite."""
        await self._database.check()
        async with self._publishing:
            fault = await self._index.damage()
            if fault is not None:
                await self._index.rebuild(await self._database.read(self._all_entries), fault)
        return fault

    async def settle(self) -> None:
        await self._index.settle()

    async def close(self) -> None:
        with suppress(FusionError):  # else the next opening compares
            await self._record_step()
        await self._index.close()
        await self._database.close()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Around a change of SQLite and of the index; one that fails or is cancelled stays unfinished."""
        self._unfinished += 1
        yield
        self._unfinished -= 1

    async def _record_step(self) -> None:
        """Record that the index has what SQLite implies, so that the next opening compares no texts."""
        if self._unfinished or self._stale:
            return
        if stamp := await asyncio.to_thread(lambda: self._index.stamp):
            await self._database.write(lambda db: _put_in_step(db, stamp))

    async def entities_in(self, text: str, scope: Scope) -> Sequence[str]:
        """See `fusion.contract.Graphs.entities_in`."""

        def look(db: Connection) -> list[str]:
            ids = dumps(list(query_entities(db, text, scope)))
            rows = tuples(db, f"select name from entity where id in {VALUES} order by mentions, id", (ids,))
            return [name for (name,) in rows]

        return await self._database.read(look)

    async def edges_at(self, names: Sequence[str], query: Query, limit: int) -> Sequence[GraphEdge]:
        """See `fusion.contract.Graphs.edges_at`."""
        return await self._database.read(lambda db: _edges_at(db, names, query, limit))

    async def newest_edges(self, query: Query, limit: int) -> Sequence[GraphEdge]:
        """See `fusion.contract.EdgeList.newest_edges`."""
        return await self._database.read(lambda db: _newest_edges(db, query, limit))

    # SQLite

    def _insert(
        self, db: Connection, batch: Sequence[Extracted], more: Mapping[str, Mapping[str, object]] | None = None
    ) -> dict[str, int]:
        """Insert the new events of ``batch``. Returns their row ids by event id. ``more`` has a subclass's extra
        columns by event id, the same columns for each."""
        ids = [extracted.event.event_id for extracted in batch]
        known = {row[0] for row in tuples(db, f"select event_id from memory where event_id in {VALUES}", (dumps(ids),))}
        new = {c.event.event_id: c for c in reversed(batch) if c.event.event_id not in known}
        own = {} if more is None else more
        names = next(iter(own.values()), {})
        db.executemany(
            _insert_with(tuple(names)),
            [(*event_row(c.event), *own.get(id_, {}).values()) for id_, c in reversed(new.items())],
        )
        rows = dict(tuples(db, f"select event_id, id from memory where event_id in {VALUES}", (dumps(ids),)))
        self._connect(db, [(rows[event_id], c) for event_id, c in new.items()])
        return {event_id: rows[event_id] for event_id in new}

    def _connect(self, db: Connection, memories: Sequence[tuple[int, Extracted]]) -> None:
        """Record the mentions and relations of new memories, given with their row ids."""
        extracted = [(m, c.event.scope, mentioned(c.event, c.extraction), c.extraction.facts) for m, c in memories]
        entities = _entities(db, ((scope, found) for _, scope, found, _ in extracted))
        mentions: list[tuple[int, int]] = []
        relations: list[tuple[object, ...]] = []
        for memory, scope, found, facts in extracted:
            mine = _owner(scope)
            ids = {name: entities[(*mine, name)] for name in found}
            mentions += [(entity, memory) for entity in ids.values()]
            relations += [
                (
                    ids[key(fact.subject)],
                    storable(fact.predicate.strip()),
                    ids[key(fact.object)],
                    memory,
                    fact_id(scope, fact),
                )
                for fact in facts
                if is_edge(fact)
            ]
        # One statement: SQLite would walk its undo log once for each statement.
        db.execute(
            "insert or ignore into mention (entity, memory) select value ->> 0, value ->> 1 from json_each(?)",
            (dumps(mentions),),
        )
        db.executemany("insert or ignore into relation values (null, ?, ?, ?, ?, ?)", relations)

    async def _delete(
        self, ids: Sequence[str], before: Callable[[Connection], list[str]] = lambda db: []
    ) -> frozenset[str]:
        """Delete memories with their mentions and relations. Returns the ids that existed. ``before`` runs in the same
        transaction and returns the ids that it changed. Relations that other memories assert too stay."""

        def delete(db: Connection) -> tuple[frozenset[str], list[str]]:
            keys = [*self._keys(db, ids), *before(db)]
            gone = db.execute(f"delete from memory where event_id in {VALUES} returning event_id", (dumps(list(ids)),))
            return frozenset(row[0] for row in gone.fetchall()), keys

        with self._changing():
            gone, keys = await self._database.write(delete)
            await self._publish(keys)
        await self._database.checkpoint()  # the text must not be left in the write-ahead log
        return gone

    def _keys(self, db: Connection, event_ids: Sequence[str]) -> list[str]:
        """The index keys of these events and of the facts that they assert."""
        keys = list(event_ids)
        if self.facts_are_searched:
            found = db.execute(
                f"select distinct r.fact from memory m join relation r on r.memory = m.id where m.event_id in {VALUES}",
                (dumps(keys),),
            )
            keys.extend(row[0] for row in found)
        return keys

    # The index, derived

    async def _publish(self, keys: Iterable[str]) -> None:
        """Bring the index entries of ``keys`` into step with SQLite. One call runs at a time and also serves those that
        wait, so the index ends in SQLite's last state."""
        self._stale.update(keys)
        async with self._publishing:
            taken, self._stale = self._stale, set()
            if not taken:
                return
            try:
                truth = await self._database.read(lambda db: self._entries(db, list(taken)))
                gone = taken - {entry.key for entry in truth}
                if gone:
                    await self._index.drop(sorted(gone))
                if truth:
                    await self._index.put(truth)
            except BaseException:
                self._stale |= taken
                raise

    @classmethod
    def _all_entries(cls, db: Connection) -> list[Entry]:
        return cls._entries(db, None)

    @classmethod
    def _entries(cls, db: Connection, keys: Sequence[str] | None) -> list[Entry]:
        """The index entries that SQLite implies, of ``keys`` or of everything."""
        chosen = () if keys is None else (dumps(keys),)
        rows = db.execute(
            f"select * from memory m where {cls.searched} {'' if keys is None else f'and event_id in {VALUES}'} "
            "order by id",
            chosen,
        )
        entries = [Entry.of_memory(row["event_id"], scope_of(row), row["text"], row["speaker"]) for row in rows]
        if cls.facts_are_searched:
            rows = db.execute(
                "select r.fact, s.name as subject, r.predicate, o.name as object, m.*, min(r.id) "
                "from relation r join memory m on m.id = r.memory "
                "join entity s on s.id = r.subject join entity o on o.id = r.object "
                f"{'' if keys is None else f'where r.fact in {VALUES}'} group by r.fact order by min(r.id)",
                chosen,
            )
            entries.extend(
                Entry(
                    row["fact"],
                    scope_of(row),
                    # A predicate's words are words of the edge: "corrected_by" is found by "corrected".
                    f"{row['subject']} {row['predicate'].replace('_', ' ')} {row['object']}",
                )
                for row in rows
            )
        return entries


@cache
def _derivation() -> str:
    """A hash of how memories become entries; an index that was filled in another way is compared again."""
    return content_hash(f"{VERSION} {Entry.of_memory('', Scope(), _PROBE, 'Ada').hash}")


_PROBE = "# Heading\n\nA paragraph of some words, and another sentence.\n\n- an item\n\n" * 40


def _stamp_in_step(db: Connection) -> str:
    """The stamp of the index that has what the tables imply; empty if there is none."""
    derivation, _, stamp = (db.execute("select max(stamp) from in_step").fetchone()[0] or "").partition(" ")
    return stamp if derivation == _derivation() else ""


def _put_in_step(db: Connection, stamp: str) -> None:
    db.execute("delete from in_step")
    db.execute("insert into in_step values (?)", (f"{_derivation()} {stamp}",))


def held_in(db: Connection, after: str, limit: int) -> list[tuple[Event, tuple[str, ...]]]:
    """See `fusion.contract.ListsEvents.events`."""
    rows = db.execute("select * from memory where event_id > ? order by event_id limit ?", (after, limit))
    return [(event_of(row), (row["event_id"],)) for row in rows]


@lru_cache(8)
def _insert_with(names: tuple[str, ...]) -> str:
    """`INSERT_EVENT` with further columns."""
    head, _, marks = INSERT_EVENT.partition(") values (")
    return f"{', '.join([head, *names])}) values ({', '.join(['?'] * len(names) + [marks])}"


def _edges_at(db: Connection, names: Sequence[str], query: Query, limit: int) -> list[GraphEdge]:
    """The edges at the entities of these names, each direction by its own index."""
    seen, values = visible(query)
    mine = "" if query.scope.user_id is None else "and owner = :of"
    wanted = [name for name in map(key, names) if name]
    ids = tuples(
        db,
        f"select id from entity where tenant = :of_tenant {mine} and key in (select value from json_each(:keys))",
        {
            "of_tenant": storable(query.scope.tenant),
            "of": storable(query.scope.user_id or ""),
            "keys": dumps(wanted),
        },
    )
    near = [
        f"""select r.* from json_each(:ids) j join relation r on r.id in (
            select id from relation where {end} = j.value order by id desc limit :most)"""
        for end in ("subject", "object")
    ]
    rows = tuples(
        db,
        f"select s.name, r.predicate, o.name, m.event_id, s.type, o.type from ({' union '.join(near)}) r "
        "join memory m on m.id = r.memory join entity s on s.id = r.subject join entity o on o.id = r.object "
        f"where {seen} order by r.id desc",
        {**values, "ids": dumps([id_ for (id_,) in ids]), "most": limit},
    )
    return _edges_of(rows)


def _newest_edges(db: Connection, query: Query, limit: int) -> list[GraphEdge]:
    seen, values = visible(query)
    rows = tuples(
        db,
        "select s.name, r.predicate, o.name, m.event_id, s.type, o.type from relation r "
        "join memory m on m.id = r.memory join entity s on s.id = r.subject join entity o on o.id = r.object "
        f"where {seen} order by r.id desc limit :most",
        {**values, "most": limit},
    )
    return _edges_of(rows)


def _edges_of(rows: Iterable[tuple[Any, ...]]) -> list[GraphEdge]:
    found = []
    for subject, predicate, object_, event_id, *types in rows:
        kind = relation(predicate)
        found.append(GraphEdge(subject, predicate, object_, event_id, kind.type, kind.inverse, *types))
    return found


def fact_id(scope: Scope, fact: Fact) -> str:
    """The id of a triple within a scope; independent of spelling, and stable across rebuilds."""
    whose = (getattr(scope, name) for name in ("tenant", *DIMENSIONS, "project", "audience"))
    parts = (*whose, key(fact.subject), key(fact.predicate), key(fact.object))
    return "fact:" + blake2b(dumps(parts).encode(), digest_size=12).hexdigest()


def _owner(scope: Scope) -> tuple[str, str]:
    return storable(scope.tenant), storable(scope.user_id or "")


def is_edge(fact: Fact) -> bool:
    """Whether a fact has two different ends and something between them."""
    ends = key(fact.subject), key(fact.object)
    return all(ends) and ends[0] != ends[1] and bool(key(fact.predicate))


def mentioned(event: Event, extraction: Extraction) -> dict[str, Entity]:
    """The entities that an event mentions, by key: extracted ones, both ends of its facts, and the speaker."""
    found = list(extraction.entities)
    found += [Entity(name) for f in extraction.facts if is_edge(f) for name in (f.subject, f.object)]
    if event.speaker:
        found.append(Entity(event.speaker, SPEAKER))
    names: dict[str, Entity] = {}
    for entity in found:
        if name := key(entity.name):
            names.setdefault(name, entity)
    return names


def _entities(db: Connection, mentioned: Iterable[tuple[Scope, dict[str, Entity]]]) -> dict[tuple[str, str, str], int]:
    """Ids of entities by tenant, owner and key. Creates missing ones, and replaces the type "concept" by a more
    specific one."""
    wanted = {
        (*_owner(scope), name): (storable(entity.name.strip()), storable(entity.type))
        for scope, names in mentioned
        for name, entity in names.items()
    }
    db.executemany(
        "insert into entity (tenant, owner, key, name, type) values (?, ?, ?, ?, ?) "
        "on conflict do update set type = excluded.type where type = 'concept' and excluded.type <> 'concept'",
        [(*at, *described) for at, described in wanted.items()],
    )
    names: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for tenant, owner, name in wanted:
        names[tenant, owner].append(name)
    return {
        (tenant, owner, name): id_
        for (tenant, owner), some in names.items()
        for name, id_ in tuples(
            db,
            f"select key, id from entity where tenant = ? and owner = ? and key in {VALUES}",
            (tenant, owner, dumps(some)),
        )
    }


def neighbours(db: Connection, event_id: str, scope: Scope, span: int) -> list[Row]:
    """Up to ``span`` memories before and after one in its document, in order, without itself and superseded ones."""
    here: Row | None = db.execute(
        "select id, document, place_start, place_unit from memory where event_id = ? and tenant = ?",
        (event_id, scope.tenant),
    ).fetchone()
    if here is None or here["document"] is None or span <= 0:
        return []
    values = {**dict(zip(here.keys(), here, strict=True)), "span": span}
    values |= {name: getattr(scope, name) for name in ("tenant", *DIMENSIONS, "audience")}
    near: list[Row] = []
    for side, order in (("<", "desc"), (">", "asc")):
        rows = db.execute(
            f"select m.* from memory m where {_SAME_DOCUMENT} and (m.place_start, m.id) {side} (:place_start, :id) "
            f"order by m.place_start {order}, m.id {order} limit :span",
            values,
        ).fetchall()
        near += reversed(rows) if side == "<" else rows
    return near


_SAME_SCOPE = " and ".join(f"m.{dimension} is :{dimension}" for dimension in DIMENSIONS)
_SAME_DOCUMENT = f"""m.tenant = :tenant and m.document = :document and m.place_unit = :place_unit
    and m.audience = :audience and {_SAME_SCOPE} and not exists (
        select 1 from memory s where s.supersedes = m.event_id and s.tenant = m.tenant and s.user_id is m.user_id
    )"""
