"""The cortex: a graph of memories, entities and typed relations in one SQLite file, with vectors beside it."""

from adapters.cortex.cortex import Cortex

__all__ = ["Cortex"]
