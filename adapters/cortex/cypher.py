"""The cortex's graph in Cypher for both Memgraph and Neo4j: statements, properties, and the visibility condition.

    (:Memory)-[:MENTIONS]->(:Entity)        an entity belongs to one user and counts its mentions
    (:Entity)-[:RELATES]->(:Entity)         one for each assertion; ``memory`` is its provenance

A memory has the same columns as in SQLite, with times in microseconds, and properties for indexes: ``owner``,
``document_key``, ``version_key``, and ``supersedes_key``, the ``version_key`` of what it supersedes. That is one
equality, because a planner with several may start from the worst. ``words`` is the searched text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from json import dumps
from typing import Any

from adapters.bolt.dialects import Schema, TextIndex, VectorIndex, indexable
from adapters.cortex.key_phrases import PHRASE, key_phrases
from adapters.cortex.port import Change, Memory, View
from adapters.cortex.records import json_of
from adapters.cortex.rows import FIELDS, columns
from adapters.cortex.visibility import conditions
from adapters.graph.names import key
from adapters.graph.store import is_edge, mentioned
from fusion.contract import DIMENSIONS, Embedder, Entity, Scope
from fusion.store.rows import EVENT_NAMES, admission, event_row, storable

WORDS = TextIndex("memory_words", "Memory", "words")


def vectors_by(embedder: Embedder) -> VectorIndex:
    """The index of this embedder's vectors; each model has its own index and property."""
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
    """The id of a user's entity: tenant, user and the normal form of its name."""
    return indexable(dumps([storable(scope.tenant), storable(scope.user_id or ""), key]))


def version_key(scope: Scope, event_id: str) -> str:
    """The key by which a user's memories refer to one another: no user can supersede another's."""
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
        "words": storable(memory.spoken),
    }


def changed(change: Change) -> dict[str, object]:
    """The properties that a change writes; None removes a property."""
    fields = {name: value for name, value in change.items() if name in FIELDS}
    return dict(zip(fields, columns(fields), strict=True))


_COLUMNS = (*EVENT_NAMES, "extraction", *FIELDS)
WHOLE = ", ".join(f"m.{name} AS {name}" for name in _COLUMNS)
"""returns all properties of ``m`` but its vectors"""


def admitted(scope: Scope) -> tuple[str, dict[str, object]]:
    """The condition under which ``scope`` admits a memory ``m``, and its values."""
    terms, values = admission(scope, "$")
    if scope.user_id is not None:
        terms.append("m.owner = $owner")  # which has an index
        values["owner"] = owner(scope)
    return " AND ".join(terms), values


SUPERSEDES = "s.supersedes_key = m.version_key"


def visible(view: View, *carried: str) -> tuple[str, dict[str, object]]:
    """The clauses after a MATCH or WITH of ``m`` that keep the memories that ``view`` sees and the variables
    ``carried``. Uses an OPTIONAL MATCH that must find nothing, as EXISTS differs between databases."""
    admits, owner_values = admitted(view.scope)
    terms, newer, values = conditions(view, "$", "toLower({}) CONTAINS {}")
    seen, values = " AND ".join((admits, *terms)), owner_values | values
    kept = ", ".join(("m", *carried))
    if view.history:
        return f"WHERE {seen} WITH {kept} ", values
    return (
        f"WHERE {seen} OPTIONAL MATCH (s:Memory) WHERE {' AND '.join((SUPERSEDES, *newer))} "
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
COUNT = "MATCH (m:Memory) RETURN count(m) AS n"


def _mentioned_by(memory: Memory) -> dict[str, Entity]:
    """The entities and concepts that a memory mentions, by key; a named entity wins over a concept."""
    names = mentioned(memory.event, memory.extraction)
    for phrase in key_phrases(memory.event.text):
        names.setdefault(phrase, Entity(phrase, PHRASE))
    return names


def graph_statements(memories: Sequence[Memory]) -> list[tuple[str, list[dict[str, object]]]]:
    """The statements, with their rows, that write the entities, mentions and relations of memories.

    Entities are sorted, so that concurrent writers lock them in the same order and cannot deadlock.
    """
    entities: dict[str, dict[str, object]] = {}
    mentions: list[dict[str, object]] = []
    relations: list[dict[str, object]] = []
    for memory in memories:
        scope = memory.event.scope
        for name, entity in _mentioned_by(memory).items():
            id_ = entity_id(scope, name)
            row = entities.setdefault(
                id_,
                {
                    "id": id_,
                    "tenant": storable(scope.tenant),
                    "owner": owner(scope),
                    "key": name,
                    "name": storable(entity.name.strip()),
                    "type": storable(entity.type),
                },
            )
            if row["type"] == PHRASE:
                row |= {"name": storable(entity.name.strip()), "type": storable(entity.type)}
            elif row["type"] == "concept" and entity.type != PHRASE:
                row["type"] = storable(entity.type)
            mentions.append({"memory": memory.id, "entity": id_})
        asserted = {
            (key(fact.subject), key(fact.predicate), key(fact.object)): fact
            for fact in reversed(memory.extraction.facts)
            if is_edge(fact)
        }
        relations += [
            {
                "memory": memory.id,
                "subject": entity_id(scope, subject),
                "predicate": storable(fact.predicate.strip()),
                "object": entity_id(scope, object_),
                "place": place,
            }
            for place, ((subject, _, object_), fact) in enumerate(reversed(asserted.items()))
        ]
    return [
        (ENTITIES, [entities[id_] for id_ in sorted(entities)]),
        (MENTIONS, sorted(mentions, key=lambda row: str(row["entity"]))),
        (RELATES, relations),
    ]


# The walk. Scans the newest edges of each entity, at most ``$scanned``; the caller takes the first visible ones. Event
# ids begin with their time, so they order memories by age.

NAMED = """
MATCH (e:Entity) WHERE e.key IN $keys AND e.tenant = $tenant {mine}
RETURN e.id AS id, e.key AS key, e.name AS name, e.type AS type, e.mentions AS mentions ORDER BY mentions, id
"""
EDGES = """
MATCH (e:Entity){edge}(o:Entity) WHERE e.id IN $entities WITH e, r, o ORDER BY r.memory DESC, r.place DESC
WITH e, collect([r.memory, r.predicate, o.id, o.name, o.mentions])[..$scanned] AS edges UNWIND edges AS edge
WITH e, edge, edge[0] AS memory MATCH (m:Memory) WHERE m.event_id = memory WITH m, e, edge {visible}
RETURN e.id AS origin, edge[1] AS predicate, edge[2] AS id, edge[3] AS name, edge[4] AS mentions, m.event_id AS memory
ORDER BY memory DESC
"""
MENTIONED_WITH = """
MATCH (e:Entity)<-[:MENTIONS]-(m:Memory) WHERE e.id IN $entities WITH e, m {visible}
MATCH (m)-[:MENTIONS]->(o:Entity) WHERE o.id <> e.id AND o.type <> $phrase
RETURN DISTINCT e.id AS origin, o.id AS id, o.name AS name, o.mentions AS mentions
"""
MENTIONING = """
MATCH (e:Entity)<-[:MENTIONS]-(m:Memory) WHERE e.id IN $entities WITH e, m ORDER BY m.event_id DESC
WITH e, collect(m.event_id)[..$scanned] AS newest UNWIND newest AS memory
MATCH (m:Memory) WHERE m.event_id = memory WITH m, e {visible}
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


def neighbours(here: Mapping[str, Any], scope: Scope, *, before: bool) -> tuple[str, dict[str, object]]:
    """The nearest ``$span`` memories on one side of ``here`` in its document and scope, nearest first."""
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
