"""Databases that speak Bolt: Memgraph and Neo4j, for every backend that keeps a graph in one.

    bolt = Bolt(Server.of(options, "backends.cortex"))
    await bolt.define(SCHEMA, deadline_s=30)
    rows = await bolt.read("MATCH (m:Memory {id: $id}) RETURN m.text AS text", {"id": id}, deadline_s=1)

`driver` is the pool with its retries and its errors, `dialects` the differences between the databases, `options`
the settings that every such backend has. Nothing here depends on the stored data.
"""

from adapters.bolt.dialects import (
    DIALECTS,
    MEMGRAPH,
    NEO4J,
    Dialect,
    Schema,
    TextIndex,
    VectorIndex,
    allowed,
    indexable,
    searchable,
)
from adapters.bolt.driver import Bolt, Row, Run, Values
from adapters.bolt.options import Server

__all__ = [
    "Bolt",
    "Run",
    "Row",
    "Values",
    "Server",
    "Dialect",
    "DIALECTS",
    "MEMGRAPH",
    "NEO4J",
    "Schema",
    "TextIndex",
    "VectorIndex",
    "allowed",
    "indexable",
    "searchable",
]
