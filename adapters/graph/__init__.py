"""A graph of memories, entities and relations in SQLite: what `cortex` and `triples` have in common."""

from adapters.graph.options import Walking
from adapters.graph.store import DEEPER, MANY, SCHEMA, GraphStore, beside
from adapters.graph.walk import (
    K,
    Linked,
    Reached,
    Seen,
    link,
    linked_memories,
    memory_rows,
    merge,
    paths,
    ranks,
    visible_memories,
    walk,
)

__all__ = [
    "DEEPER",
    "K",
    "MANY",
    "SCHEMA",
    "GraphStore",
    "Linked",
    "Reached",
    "Seen",
    "Walking",
    "beside",
    "link",
    "linked_memories",
    "memory_rows",
    "merge",
    "paths",
    "ranks",
    "visible_memories",
    "walk",
]
