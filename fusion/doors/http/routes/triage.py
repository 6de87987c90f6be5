"""Routes of triage: what needs a person, and the decision on one of these items."""

from __future__ import annotations

from typing import Annotated

from fastapi.responses import Response

from fusion import wire
from fusion.doors import schemas
from fusion.doors.http.routing import Context, InQuery, problems, reply, router


@router.get("/v1/triage", response_model=wire.Triage)
async def triage(context: Context, query: Annotated[schemas.TriageQuery, InQuery]) -> Response:
    """List what needs a person, the most urgent first

    Open proposals and conflicts, quarantined memories, untrusted ones that are used much, what failed, and records
    that a harvest of observations refused.
    """
    return reply(await context.gateway.triage(query.scope(context.tenant), query.limit))


@router.post("/v1/triage", response_model=wire.TriageDecided, responses=problems(404, 409, 507))
async def decide_triage(context: Context, body: schemas.TriageBody) -> Response:
    """Decide one item by a choice that it lists; POST /v1/decisions/undo takes it back

    Dead letters that were `seen` are no decision of the log: the list of them is kept in a file.
    """
    scope = body.scope(context.tenant)
    decided = context.gateway.decide_triage(
        body.item, body.choice, scope, context.decider, body.why, may_raise_trust=context.is_owner
    )
    return reply(await decided)
