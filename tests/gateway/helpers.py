"""Settings and memories for tests of a whole gateway."""

from __future__ import annotations

from pathlib import Path

from fusion.contract import Scope
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.settings import Settings
from tests.patience import load

NADIA, OMAR = Scope(user_id="nadia", audience="private"), Scope(user_id="omar", audience="private")
EMBEDDED = {"markdown", "cortex", "mem0", "triples"}
DECIDED = "We decided to move the bookings database to Postgres"
ASKED = "where does the bookings database move?"


def small(home: Path, **backends: str) -> Settings:
    """Settings that open at once: backends in memory, no model."""
    named = backends or {"one": "adapters.inmemory:InMemory", "two": "adapters.inmemory:InMemory"}
    tables = {name: {"adapter": adapter} for name, adapter in named.items()}
    return load(home=home, backends_only=True, embedder={"adapter": ""}, backends=tables)


def embedded(home: Path) -> Settings:
    """The four embedded backends, without a model."""
    return load(home=home, embedder={"adapter": ""})


async def remember(gateway: Gateway, *texts: str, scope: Scope = NADIA) -> list[str]:
    """The refs of memories that are remembered and settled."""
    kept = await gateway.remember([NewMemory(text, scope=scope) for text in texts])
    await gateway.settle()
    return [one.ref for one in kept]
