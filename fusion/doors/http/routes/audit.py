"""The route about who read, changed and forgot memories."""

from __future__ import annotations

from typing import Annotated

from fastapi.responses import Response

from fusion import wire
from fusion.doors import schemas
from fusion.doors.http.routing import Context, InQuery, reply, router


@router.get("/v1/audit", name="audit", response_model=wire.Audit)
async def audit(context: Context, query: Annotated[schemas.AuditQuery, InQuery]) -> Response:
    """List who read, changed and forgot memories, newest first

    Of this tenant alone, by the name of the key and the door. No entry has a text, and entries stay when what they name
    is forgotten. Without a `user_id` it needs the home's token, or an API key with all_users = true.
    """
    if query.user_id is None:
        context.permit_all()
    return reply(await context.gateway.accesses(query.request(context.tenant)))
