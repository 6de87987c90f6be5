"""Routes that show what is known of a memory besides its text: its trust, and when it is due."""

from __future__ import annotations

from typing import Annotated

from fastapi.responses import Response

from fusion import wire
from fusion.doors import schemas
from fusion.doors.http.routing import Context, InQuery, Reference, checked_ref, problems, reply, router


@router.get("/v1/trust/{ref:path}", response_model=wire.TrustReport, responses=problems(404))
async def trust(context: Context, ref: Reference, query: Annotated[schemas.Scoped, InQuery]) -> Response:
    """Explain the trust of one memory: where it comes from, each change, and its use

    Use never raises trust. The reply has no text of the memory, so it also explains what is quarantined.
    """
    return reply(await context.gateway.inspect_trust(checked_ref(ref), query.scope(context.tenant)))


@router.get("/v1/plans", response_model=wire.Plans)
async def plans(context: Context, query: Annotated[schemas.PlansQuery, InQuery]) -> Response:
    """List plans that are due or overdue, the earliest first

    A plan is done once it is archived: POST /v1/state with archived true.
    """
    scope = query.scope(context.tenant)
    return reply(await context.gateway.plans(scope, query.limit, everything=query.everything))
