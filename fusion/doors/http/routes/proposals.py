"""Routes for proposals: memories that wait for a decision before they are stored."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import Body, Request
from fastapi.responses import Response

from fusion import wire
from fusion.doors import schemas
from fusion.doors.http.routes.memories import IdempotencyKey
from fusion.doors.http.routing import Context, InQuery, Name, problems, reply, router, while_connected
from fusion.doors.roles import PROPOSER, allows, require_role


@router.post("/v1/store/propose", response_model=wire.ProposeReply, responses=problems(404, 409, 507))
async def propose(
    context: Context,
    body: Annotated[schemas.ProposalsBody, Body()],
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Propose one memory or up to a hundred; somebody else decides whether it is stored

    Nothing of an open proposal is remembered, searched or answered. The same words proposed again are one proposal.
    """
    given = [one.proposed() for one in (body if isinstance(body, list) else [body])]
    return reply(
        await context.gateway.propose(given, context.decider, tenant=context.tenant, idempotency_key=idempotency_key)
    )


@router.get("/v1/proposals", response_model=wire.Proposals)
async def proposals(context: Context, query: Annotated[schemas.ProposalsQuery, InQuery]) -> Response:
    """List proposals, newest first

    A key that may not decide on proposals sees its own.
    """
    state = None if query.state == "any" else query.state
    scope, mine = query.scope(context.tenant), _only_own(context)
    return reply(await context.gateway.proposals(scope, state, query.limit, cursor=query.cursor, by=mine))


@router.get("/v1/proposals/{proposal}", response_model=wire.Proposal, responses=problems(404))
async def proposal(context: Context, proposal: Name, query: Annotated[schemas.Scoped, InQuery]) -> Response:
    """Read one proposal, with what was decided on it"""
    return reply(await context.gateway.proposal(proposal, query.scope(context.tenant), by=_only_own(context)))


@router.post("/v1/proposals/{proposal}/approve", response_model=wire.ProposalDecided, responses=problems(404, 409, 507))
async def approve(context: Context, proposal: Name, body: schemas.ApproveBody) -> Response:
    """Approve a proposal, as it is or edited: it is stored as every memory is

    The approval is a decision: POST /v1/decisions/undo archives the memory and opens the proposal again.
    """
    scope = body.scope(context.tenant)
    decided = context.gateway.approve(
        proposal, scope, context.decider, body.edit(), body.why, may_raise_trust=context.is_owner
    )
    return reply(await decided, HTTPStatus.OK)


@router.post("/v1/proposals/{proposal}/reject", response_model=wire.ProposalDecided, responses=problems(404, 409, 507))
async def reject(context: Context, proposal: Name, body: schemas.RejectBody) -> Response:
    """Reject a proposal: nothing is stored, and its proposer sees why

    The rejection is a decision: POST /v1/decisions/undo opens the proposal again.
    """
    scope = body.scope(context.tenant)
    return reply(await context.gateway.reject(proposal, scope, context.decider, body.why))


@router.post("/v1/store/extract", response_model=wire.Extracted, responses=problems(404, 507))
async def extract(request: Request, context: Context, body: schemas.ExtractBody) -> Response:
    """Extract statements for review, with the memories that state them; no memory is stored

    With propose they are queued as proposals, which needs the role proposer.
    """
    if body.propose:
        require_role(context.role, PROPOSER, "propose")
    work = context.gateway.extract(body.request(context.tenant), context.decider)
    return reply(await while_connected(request, work))


def _only_own(context: Context) -> str | None:
    """The name of a key that may see its own proposals alone; None for one that may see all."""
    may_decide = allows(context.role, context.settings.proposals.decided_by)
    return None if may_decide else context.decider.name
