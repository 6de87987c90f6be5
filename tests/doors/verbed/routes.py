"""Routes of a system that a `Verbed` replaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fusion.contract import Query
from fusion.extension import Call, Route


async def look(backend: Any, call: Call, request: Mapping[str, object]) -> Mapping[str, object]:
    hits = await backend.search(Query(str(request["id"]), call.scope, call.now))
    return {"found": [hit.text for hit in hits], "asked": request}


async def healthy(backend: Any, call: Call, request: Mapping[str, object]) -> Mapping[str, object]:
    return {"status": "fine"}


ROUTES = (
    Route("GET", "/v1/things/{id}", look),
    Route("POST", "/v1/things/{id}", look),
    Route("GET", "/healthz", healthy, probe=True),
)
