"""The cortex's graph in Cypher that Memgraph and Neo4j both understand, and what a view sees of it.

    (:Memory)-[:MENTIONS]->(:Entity)        what a memory names; an entity belongs to one user and counts its mentions
    (:Entity)-[:RELATES]->(:Entity)         what a memory asserts, once for each: ``memory`` is its provenance

A memory has the columns that it has in SQLite, times in microseconds. What is looked up stands beside them in a form
that an index takes: ``owner``, ``document_key``, and ``supersedes_key``, which is the ``version_key`` of what it
supersedes: one equality, for a planner that may choose among several starts with the worst. ``words`` is its text as it
is searched.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from json import dumps
from typing import Any

from adapters.bolt import Row, Schema, TextIndex, VectorIndex, indexable
from adapters.cortex.concepts import PHRASE
from adapters.cortex.port import Change, Memory, View
from adapters.cortex.records import json_of
from adapters.cortex.rows import FIELDS, columns, memory_in
from fusion.contract import DIMENSIONS, Embedder, Scope
from fusion.lib.words import spoken
from fusion.store.rows import EVENT_NAMES, event_row, microseconds, storable

WORDS = TextIndex("memory_words", "Memory", "words")


def vectors_by(embedder: Embedder) -> VectorIndex:
    """The index of this embedder's vectors. Another model has another one, on a property of its own: vectors of two
    models never meet, and the old ones serve until the new ones are there."""
    name = f"embedding_{blake2b(embedder.identity.encode(), digest_size=4).hexdigest()}"
    return VectorIndex(name, "Memory", name, embedder.dimensions)


def schema(vectors: VectorIndex | None) -> Schema:
    return Schema(
        unique=[("Memory", "event_id"), ("Entity", "id")],
        indexed=[
            ("Memory", "owner"),
            ("Memory", "version_key"),
            ("Memory", "supersedes_key"),
            ("Memory", "document_key"),
            ("Entity", "key"),
            ("Entity", "owner"),
        ],
        related=[("RELATES", "memory")],
        vectors=[vectors] if vectors else [],
        texts=[WORDS],
    )


def owner(scope: Scope) -> str:
    return indexable(storable(scope.user_id or ""))


def entity_id(scope: Scope, key: str) -> str:
    """An entity is one user's of one tenant, by its name's normal form."""
    return indexable(dumps([storable(scope.tenant), storable(scope.user_id or ""), key]))


def version_key(scope: Scope, event_id: str) -> str:
    """A memory as its own user's memories name it: nobody supersedes another's."""
    return indexable(dumps([storable(scope.tenant), storable(scope.user_id or ""), storable(event_id)]))


def node_of(memory: Memory) -> dict[str, object]:
    """The properties of a memory's node."""
    event = memory.event
    state = {name: getattr(memory.state, name) for name in FIELDS}
    return {
        **dict(zip(EVENT_NAMES, event_row(event), strict=True)),
        **dict(zip(FIELDS, columns(state), strict=True)),
        "extraction": json_of(memory.extraction),
        "owner": owner(event.scope),
        "version_key": version_key(event.scope, event.event_id),
        "supersedes_key": event.supersedes and version_key(event.scope, event.supersedes),
        "document_key": event.place and indexable(storable(event.place.document)),
        "words": storable(spoken(event.text, event.speaker)),
    }


def changed(change: Change) -> dict[str, object]:
    """The properties that a change writes; what is None is removed."""
    fields = {name: value for name, value in change.items() if name in FIELDS}
    return dict(zip(fields, columns(fields), strict=True))


_COLUMNS = (*EVENT_NAMES, "extraction", *FIELDS)
WHOLE = ", ".join(f"m.{name} AS {name}" for name in _COLUMNS)
"""what a query returns of ``m``: everything but its vectors"""


def memory_of(row: Row) -> Memory:
    return memory_in(row)


def admitted(scope: Scope) -> tuple[str, dict[str, object]]:
    """The condition under which ``scope`` admits a memory ``m``, and its values."""
    terms = ["m.tenant = $tenant"]
    values: dict[str, object] = {"tenant": storable(scope.tenant)}
    named: Mapping[str, str] = {str(dimension): value for dimension, value in scope.named().items()}
    for dimension in (name for name in DIMENSIONS if name in named):
        terms.append(f"m.{dimension} = ${dimension}")
        values[dimension] = storable(named[dimension])
    if scope.user_id is not None:
        terms.append("m.owner = $owner")  # which has an index
        values["owner"] = owner(scope)
    if scope.audience != "private":
        terms.append("m.audience = 'group'")
    return " AND ".join(terms), values


SUPERSEDES = "s.supersedes_key = m.version_key"


def seen(view: View, *carried: str) -> tuple[str, dict[str, object]]:
    """What follows a MATCH or a WITH that names ``m``: it goes on with those memories that ``view`` sees, and with the
    variables ``carried``. An OPTIONAL MATCH that has to find nothing, for EXISTS is not the same everywhere."""
    condition, values = admitted(view.scope)
    terms = [condition, "m.trust <> 'quarantined'", "m.merged_into IS NULL"]
    newer = [
        SUPERSEDES,
        "s.merged_into IS NULL",
        "NOT (s.conflict_status IS NOT NULL AND coalesce(s.conflict_group, '') = coalesce(m.conflict_group, '-'))",
    ]
    values["moment"] = microseconds(view.as_of or view.now)
    if view.as_of is None:
        terms.append("coalesce(m.conflict_status, '') <> 'resolved'")
    else:
        terms.append("coalesce(m.valid_from, m.at, m.recorded_at) <= $moment")
        newer.append("coalesce(s.valid_from, s.at, s.recorded_at) <= $moment")
    if view.known_at is not None:
        values["known_at"] = microseconds(view.known_at)
        terms.append("m.recorded_at <= $known_at")
        newer.append("s.recorded_at <= $known_at")
    kept = ", ".join(("m", *carried))
    if view.history:
        return f"WHERE {' AND '.join(terms)} WITH {kept} ", values
    terms.append("(m.valid_to IS NULL OR m.valid_to > $moment) AND (m.ended_at IS NULL OR m.ended_at > $moment)")
    return (
        f"WHERE {' AND '.join(terms)} OPTIONAL MATCH (s:Memory) WHERE {' AND '.join(newer)} "
        f"WITH {kept}, count(s) AS newer WHERE newer = 0 WITH {kept} "
    ), values


KNOWN = "MATCH (m:Memory) WHERE m.event_id IN $ids RETURN m.event_id AS id"
CREATE = "UNWIND $rows AS row CREATE (m:Memory) SET m = row"
ENTITIES = f"""
UNWIND $rows AS row MERGE (e:Entity {{id: row.id}})
ON CREATE SET e.tenant = row.tenant, e.owner = row.owner, e.key = row.key, e.name = row.name, e.type = row.type,
    e.mentions = 0
ON MATCH SET e.name = CASE WHEN e.type = '{PHRASE}' THEN row.name ELSE e.name END,
    e.type = CASE WHEN e.type = '{PHRASE}' OR (e.type = 'concept' AND row.type <> '{PHRASE}') THEN row.type
        ELSE e.type END
"""
MENTIONS = """
UNWIND $rows AS row MATCH (m:Memory {event_id: row.memory}) MATCH (e:Entity {id: row.entity})
CREATE (m)-[:MENTIONS]->(e) SET e.mentions = e.mentions + 1
"""
RELATES = """
UNWIND $rows AS row MATCH (s:Entity {id: row.subject}) MATCH (o:Entity {id: row.object})
CREATE (s)-[:RELATES {predicate: row.predicate, memory: row.memory, place: row.place}]->(o)
"""
ALTER = "UNWIND $rows AS row MATCH (m:Memory {event_id: row.id}) SET m += row.fields"
REINFORCE = """
MATCH (m:Memory {event_id: $id})
SET m.confidence = CASE WHEN m.confidence + $by > 1.0 THEN 1.0 ELSE m.confidence + $by END,
    m.reinforced_count = m.reinforced_count + 1,
    m.reinforced_at = CASE WHEN coalesce(m.reinforced_at, $at) > $at THEN m.reinforced_at ELSE $at END
"""
USE = """
MATCH (m:Memory) WHERE m.event_id IN $ids
SET m.access_count = m.access_count + 1,
    m.last_accessed = CASE WHEN coalesce(m.last_accessed, $at) > $at THEN m.last_accessed ELSE $at END
"""
RELEASE = "MATCH (m:Memory) WHERE m.merged_into IN $ids SET m.merged_into = null"
RECONCILE = """
MATCH (m:Memory) WHERE m.conflict_status = 'active' AND m.contradicts IN $ids
SET m.conflict_status = null, m.contradicts = null
"""
DISPUTED = f"MATCH (m:Memory) WHERE m.conflict_group IN $groups RETURN {WHOLE}"
UNRELATE = "MATCH (:Entity)-[r:RELATES]->(:Entity) WHERE r.memory IN $ids DELETE r"
UNMENTION = """
MATCH (m:Memory)-[:MENTIONS]->(e:Entity) WHERE m.event_id IN $ids
WITH e, count(m) AS gone SET e.mentions = e.mentions - gone RETURN e.id AS id
"""
DELETE = "MATCH (m:Memory) WHERE m.event_id IN $ids DETACH DELETE m"
ORPHANS = "MATCH (e:Entity) WHERE e.id IN $ids AND e.mentions <= 0 DETACH DELETE e"

GET = f"MATCH (m:Memory) WHERE m.event_id IN $ids RETURN {WHOLE}"
NEWER = f"""
MATCH (m:Memory) WHERE m.event_id IN $ids MATCH (s:Memory) WHERE {SUPERSEDES} RETURN DISTINCT s.event_id AS id
"""
OLDER = f"""
MATCH (s:Memory) WHERE s.event_id IN $ids AND s.supersedes_key IS NOT NULL
MATCH (m:Memory) WHERE {SUPERSEDES} RETURN DISTINCT m.event_id AS id
"""
COUNT = "MATCH (m:Memory) RETURN m.kind AS kind, m.lifetime AS lifetime, count(m) AS n ORDER BY kind, lifetime"


# Walking. Of each entity the newest edges are looked at, at most ``$scanned``; the caller takes the first of those that
# are seen. An event's id says when it was made: its order is theirs.

NAMED = """
MATCH (e:Entity) WHERE e.key IN $keys AND e.tenant = $tenant {mine}
RETURN e.id AS id, e.key AS key, e.name AS name, e.type AS type, e.mentions AS mentions ORDER BY mentions, id
"""
EDGES = """
MATCH (e:Entity){edge}(o:Entity) WHERE e.id IN $entities WITH e, r, o ORDER BY r.memory DESC, r.place DESC
WITH e, collect([r.memory, r.predicate, o.id, o.name, o.mentions])[..$scanned] AS edges UNWIND edges AS edge
WITH e, edge, edge[0] AS memory MATCH (m:Memory) WHERE m.event_id = memory WITH m, e, edge {seen}
RETURN e.id AS came, edge[1] AS predicate, edge[2] AS id, edge[3] AS name, edge[4] AS mentions, m.event_id AS memory
ORDER BY memory DESC
"""
TOGETHER = """
MATCH (e:Entity)<-[:MENTIONS]-(m:Memory) WHERE e.id IN $entities WITH e, m {seen}
MATCH (m)-[:MENTIONS]->(o:Entity) WHERE o.id <> e.id AND o.type <> $phrase
RETURN DISTINCT e.id AS came, o.id AS id, o.name AS name, o.mentions AS mentions
"""
MENTIONING = """
MATCH (e:Entity)<-[:MENTIONS]-(m:Memory) WHERE e.id IN $entities WITH e, m ORDER BY m.event_id DESC
WITH e, collect(m.event_id)[..$scanned] AS newest UNWIND newest AS memory
MATCH (m:Memory) WHERE m.event_id = memory WITH m, e {seen}
RETURN e.id AS entity, m.event_id AS memory ORDER BY memory DESC
"""
MENTIONED = """
MATCH (m:Memory)-[:MENTIONS]->(e:Entity) WHERE m.event_id IN $ids RETURN e.id AS entity, m.event_id AS memory
"""
ASSERTED = """
MATCH (s:Entity)-[r:RELATES]->(o:Entity) WHERE r.memory IN $ids
RETURN r.memory AS memory, s.id AS subject, r.predicate AS predicate, o.id AS object, s.name AS subject_name,
    o.name AS object_name ORDER BY memory, r.place
"""


def beside(here: Mapping[str, Any], scope: Scope, *, before: bool) -> tuple[str, dict[str, object]]:
    """The nearest ``$span`` memories on one side of ``here`` in its document and scope, from there outwards."""
    same: dict[str, str | None] = {"tenant": scope.tenant, "audience": scope.audience}
    same.update((dimension, getattr(scope, dimension)) for dimension in DIMENSIONS)
    terms = [f"m.{name} = ${name}" if value is not None else f"m.{name} IS NULL" for name, value in same.items()]
    values: dict[str, object] = {name: storable(value) for name, value in same.items() if value is not None}
    side, order = ("<", "DESC") if before else (">", "ASC")
    statement = f"""
        MATCH (m:Memory) WHERE m.document_key = $document AND m.place_unit = $unit AND {" AND ".join(terms)}
        AND (m.place_start {side} $start OR (m.place_start = $start AND m.event_id {side} $id))
        OPTIONAL MATCH (s:Memory) WHERE {SUPERSEDES} WITH m, count(s) AS newer WHERE newer = 0
        RETURN {WHOLE} ORDER BY place_start {order}, event_id {order} LIMIT $span"""
    values |= {
        "document": indexable(here["document"]),
        "unit": here["place_unit"],
        "start": here["place_start"],
        "id": here["event_id"],
    }
    return statement, values


def entities(scope: Scope) -> tuple[str, dict[str, object]]:
    mine = "" if scope.user_id is None else "AND e.owner = $owner"
    return (
        f"MATCH (e:Entity) WHERE e.tenant = $tenant AND e.type <> '{PHRASE}' {mine} "
        "RETURN e.name AS name, e.type AS type, e.mentions AS mentions, e.key AS key "
        "ORDER BY mentions DESC, key LIMIT $limit"
    ), {"tenant": storable(scope.tenant), "owner": owner(scope)}
