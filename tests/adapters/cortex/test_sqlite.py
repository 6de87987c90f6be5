"""The cortex's SQLite store: every store's promises, and what only a file can go through."""

from __future__ import annotations

from pathlib import Path

from adapters.cortex.port import Graph
from adapters.cortex.sqlite import SqliteGraph
from adapters.graph import Walking
from fusion.contract import Embedder, Opening
from tests.adapters.cortex.store_contract import StoreContract


class TestSqliteGraph(StoreContract):
    async def open_store(self, folder: Path, embedder: Embedder | None) -> Graph:
        return await SqliteGraph.open(Opening("cortex", folder, {}, embedder), Walking())
