"""The HTTP API of openclaw-cortex for its clients, below /compat/cortex or at the root of a separate port.

Replies have the fields of openclaw-cortex; errors have the form of this gateway's other routes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from adapters.cortex import cli
from adapters.cortex.maintenance_verbs import Stats
from adapters.cortex.requests import check_fields, draft_of, texts
from fusion.errors import BadInput
from fusion.extension import Call, Route

if TYPE_CHECKING:
    from adapters.cortex.cortex import Cortex

Sent = Mapping[str, object]


async def remember(cortex: Cortex, call: Call, sent: Sent) -> object:
    ((event_id, became),) = await call.gateway.remember([draft_of(sent, call)])
    return {"id": event_id, "stored": became in ("stored", "superseded", "duplicate")}


async def recall(cortex: Cortex, call: Call, sent: Sent) -> object:
    asked = _checked(sent, message=str, project=str, budget=int, include_history=bool)
    found = await cli.Recall(**asked)(cortex, call)
    return {name: found[name] for name in ("context", "memory_count", "tokens_used")}


async def search(cortex: Cortex, call: Call, sent: Sent) -> object:
    asked = _checked(sent, message=str, project=str, limit=int, include_history=bool)
    return await cli.Search(**asked)(cortex, call)


async def get(cortex: Cortex, call: Call, sent: Sent) -> object:
    return await cli.Get(_checked(sent, id=str)["id"])(cortex, call)


async def put(cortex: Cortex, call: Call, sent: Sent) -> object:
    """Replace a memory by a new version with a new id; the old version stays in its history."""
    asked = _checked(sent, id=str, content=str, type=str, scope=str, tags=list, confidence=(int, float))
    if "scope" in asked:
        asked["lifetime"] = asked.pop("scope")
    if "tags" in asked:
        asked["tags"] = texts("tags", asked["tags"])
    return await cli.Update(**asked)(cortex, call)


async def delete(cortex: Cortex, call: Call, sent: Sent) -> object:
    return {"deleted": (await cli.Forget(_checked(sent, id=str)["id"])(cortex, call))["deleted"]}


async def stats(cortex: Cortex, call: Call, sent: Sent) -> object:
    return await Stats()(cortex, call)


async def healthz(cortex: Cortex, call: Call, sent: Sent) -> object:
    return {"status": "ok"}


def _checked(sent: Sent, **kinds: type | tuple[type, ...]) -> dict[str, Any]:
    """The fields that were sent and are not null; the first of ``kinds`` is required. Raises ``BadInput``."""
    first = next(iter(kinds))
    if not sent.get(first):
        raise BadInput(f"{first}: is missing")
    check_fields(sent, kinds)
    return {name: value for name, value in sent.items() if value is not None}


ROUTES = (
    Route("POST", "/v1/remember", remember),
    Route("POST", "/v1/recall", recall, asks=True),
    Route("POST", "/v1/search", search, asks=True),
    Route("GET", "/v1/memories/{id}", get),
    Route("PUT", "/v1/memories/{id}", put),
    Route("DELETE", "/v1/memories/{id}", delete),
    Route("GET", "/v1/stats", stats),
    Route("GET", "/healthz", healthz, probe=True),
)
