"""Cognee's knowledge graph, by its server; `backend` says what stands in fusion.toml."""

from adapters.cognee.backend import Cognee

__all__ = ["Cognee"]
