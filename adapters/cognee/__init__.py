"""Cognee's knowledge graph, through its server. Its settings are documented in `backend`."""

from adapters.cognee.backend import Cognee

__all__ = ["Cognee"]
