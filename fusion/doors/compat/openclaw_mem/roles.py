"""What a key may do at openclaw-mem's gateway: its capabilities, and the role that it is called there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fusion.contract import Role

Capability = Literal[
    "archive.export",
    "episodes.append",
    "episodes.query",
    "memory.pack",
    "memory.search",
    "status.read",
    "store.direct",
    "store.propose",
]
READ: frozenset[Capability] = frozenset({"status.read", "memory.search", "memory.pack", "episodes.query"})
WRITE: frozenset[Capability] = READ | {"episodes.append", "store.propose"}


@dataclass(frozen=True, slots=True)
class Policy:
    """A role as openclaw-mem's clients know it, with all its capabilities."""

    role: Literal["read", "write", "owner"]
    capabilities: frozenset[Capability]


POLICIES: Mapping[Role, Policy] = {
    "reader": Policy("read", READ),
    "proposer": Policy("write", WRITE),
    "writer": Policy("write", WRITE | {"store.direct"}),
    "operator": Policy("owner", WRITE | {"store.direct", "archive.export"}),
}
"""the policy of each of our roles: a client that expects ``write`` gets it from a proposer's key and from a writer's"""
