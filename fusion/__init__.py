"""Ask all of an agent's memories at once; get one block that fits its prompt, and a receipt that explains it.

The packages, in the order in which data flows.
Writing: `sources` reads files, notes and sessions; `ingest` checks, redacts and extracts; `journal` stores every event
and its open deliveries; `ingest` delivers events to the backends, and deletes them there.
Reading: `recall` asks the backends, filters, merges, ranks and packs one block; `compare` answers one question twice.
Around both: `gateway` opens a home and connects these packages; `doors` are the ways in (CLI, HTTP, MCP, hooks);
`client` talks to a running server; `trust` decides which homes may be opened; `discover` finds what `fusion init`
offers.
Below: `contract` has the values and ports, `extension` what an adapter may add, `errors` the errors; `lib` has pure
functions on texts and ranks, `store` SQLite; `recipe` and `settings` hold every number that can be changed.
The backends are in the package `adapters`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fusion import version

if TYPE_CHECKING:
    from fusion.gateway.gateway import Gateway
    from fusion.recall.engine import Fused, FuseRequest

    Fusion = Gateway

__version__ = version.VERSION
__all__ = ["FuseRequest", "Fused", "Fusion", "Gateway", "__version__"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `fusion --help` must not load the engine."""
    if name in ("Gateway", "Fusion"):  # Fusion is the earlier name of Gateway
        from fusion.gateway.gateway import Gateway

        return Gateway
    if name in ("FuseRequest", "Fused"):
        from fusion.recall import engine

        return getattr(engine, name)
    raise AttributeError(f"module 'fusion' has no attribute {name!r}")
