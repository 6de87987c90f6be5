"""A graph of memories, entities and relations in SQLite: what `cortex` and `triples` have in common."""

from adapters.graph.options import Walking
from adapters.graph.store import DEEPER, MANY, SCHEMA, GraphStore, beside, is_edge, mentioned
from adapters.graph.walk import (
    K,
    Linked,
    Reached,
    Seen,
    arrived,
    link,
    linked_memories,
    memory_rows,
    merge,
    path_of,
    paths,
    ranks,
    strongest,
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
    "arrived",
    "beside",
    "is_edge",
    "link",
    "linked_memories",
    "memory_rows",
    "mentioned",
    "merge",
    "path_of",
    "paths",
    "ranks",
    "strongest",
    "visible_memories",
    "walk",
]
