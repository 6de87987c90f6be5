"""A graph of memories, entities and relations in SQLite: what `cortex` and `triples` have in common."""

from adapters.graph.options import Walking
from adapters.graph.store import SCHEMA, GraphStore
from adapters.graph.walk import (
    K,
    Linked,
    Reached,
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
    "K",
    "SCHEMA",
    "GraphStore",
    "Linked",
    "Reached",
    "Walking",
    "link",
    "linked_memories",
    "memory_rows",
    "merge",
    "paths",
    "ranks",
    "visible_memories",
    "walk",
]
