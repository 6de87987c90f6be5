"""Ask all of an agent's memories at once; get one block that fits its prompt, and a receipt that says why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fusion.gateway.gateway import Gateway
    from fusion.recall.engine import Fused, FuseRequest

    Fusion = Gateway

__version__ = "0.1.0"
__all__ = ["FuseRequest", "Fused", "Fusion", "Gateway", "__version__"]


def __getattr__(name: str) -> Any:
    """The public names, imported when first used: `fusion --help` must not pay for the engine."""
    if name in ("Gateway", "Fusion"):  # Fusion is the name that it had before
        from fusion.gateway.gateway import Gateway

        return Gateway
    if name in ("FuseRequest", "Fused"):
        from fusion.recall import engine

        return getattr(engine, name)
    raise AttributeError(f"module 'fusion' has no attribute {name!r}")
