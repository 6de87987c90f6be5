"""The cortex: a graph of memories, entities and typed relations with vectors, in SQLite, Memgraph or Neo4j."""

from adapters.cortex.cortex import Cortex

__all__ = ["Cortex"]
