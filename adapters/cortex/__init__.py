"""The cortex: a graph of memories, entities and typed relations, on one of several stores, with vectors beside it."""

from adapters.cortex.cortex import Cortex

__all__ = ["Cortex"]
