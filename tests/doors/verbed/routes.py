"""Routes of a system that a `Verbed` replaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fusion.contract import Query
from fusion.extension import Call, Route
from tests.doors.verbed.cli import Consult


async def look(backend: Any, call: Call, request: Mapping[str, object]) -> Mapping[str, object]:
    hits = await backend.search(Query(str(request["id"]), call.scope, call.now))
    return {"found": [hit.text for hit in hits], "asked": request}


async def healthy(backend: Any, call: Call, request: Mapping[str, object]) -> Mapping[str, object]:
    return {"status": "fine"}


async def consult(backend: Any, call: Call, request: Mapping[str, object]) -> Mapping[str, object]:
    return await Consult(str(request["query"]), str(request["whom"]) if "whom" in request else None)(backend, call)


ROUTES = (
    Route("GET", "/v1/things/{id}", look),
    Route("POST", "/v1/things/{id}", look),
    Route("POST", "/v1/consult", consult, asks=True),
    Route("GET", "/healthz", healthy, probe=True),
)
