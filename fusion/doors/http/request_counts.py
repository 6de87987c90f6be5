"""Counts the requests of a server by route, never by address: a path that no route has is `other`."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from starlette.types import Scope

from fusion.lib.histogram import Histogram

OTHER = "other"
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"})
_DOORS = ("mcp", "openclaw-mem", "mem0", "qmd", "compat")
"""the first parts of the paths of doors of their own; all other routes are the door `http`"""


@dataclass(slots=True)
class RequestCounts:
    """Requests since the start, of all tenants."""

    total: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    """by method, route and status"""
    seconds: defaultdict[str, Histogram] = field(default_factory=lambda: defaultdict(Histogram))
    """until the end of the reply, by door"""

    def note(self, scope: Scope, status: int, seconds: float) -> None:
        """Count a request whose reply has ended."""
        route = route_of(scope)
        method = scope["method"] if scope["method"] in _METHODS else OTHER
        self.total[method, route, status] += 1
        self.seconds[door_of(route)].observe(seconds)


def route_of(scope: Scope) -> str:
    """The route of a request as it is declared, such as /v1/memories/{ref}; `OTHER` if none has answered it."""
    declared: str | None = getattr(scope.get("route"), "path_format", None)
    if declared is not None:
        return declared
    # Starlette's own routes do not name themselves; without a parameter the path is the route.
    return scope["path"] if "endpoint" in scope and not scope.get("path_params") else OTHER


def door_of(route: str) -> str:
    """The door that a route belongs to."""
    first = route.split("/", 2)[1] if route.startswith("/") else ""
    return first if first in _DOORS else "http"
