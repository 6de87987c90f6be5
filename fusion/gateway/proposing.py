"""The calls on an open home about proposals: queue them, look at them, and decide on them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Literal, cast

from fusion import wire
from fusion.contract import Scope
from fusion.errors import AlreadyDecided, BadInput, NotFound
from fusion.gateway.in_tenant import in_tenant
from fusion.gateway.parts import TenantParts
from fusion.ingest import proposals as ingest
from fusion.ingest.proposal_policy import Policy, deciding
from fusion.ingest.proposals import NO_EDIT, Edit, Proposed, Queued, importance_of, memory_of
from fusion.journal import proposals
from fusion.journal.proposals import Decider, Limits, Proposal, ProposalState, Verdict
from fusion.lib.stated_fields import stated_values
from fusion.settings import ProposalRule

log = logging.getLogger(__name__)

PAGE = 200
"""proposals that the job reads at once"""
EXPIRY = "policy expiry"
"""who decided, for a proposal that expired"""


class ProposalCalls(TenantParts):
    """The calls about proposals, for one tenant."""

    __slots__ = ()

    @in_tenant
    async def propose(
        self,
        given: Sequence[Proposed],
        by: Decider,
        *,
        tenant: str = "default",
        idempotency_key: str | None = None,
        decide_now: bool = True,
    ) -> wire.ProposeReply:
        """Queue proposals for a decision; no memory is stored, unless a rule of the settings approves one.

        Without ``decide_now`` the rules decide later, in the job. Raises as `fusion.ingest.proposals.propose`.
        """
        chosen = self.settings.proposals
        rules = ingest.Rules(chosen.max_chars, Limits(chosen.max_open, chosen.max_open_per_key))
        queued = await ingest.propose(
            self.journal, self.intake, given, by, rules, tenant=tenant, idempotency_key=idempotency_key
        )
        if decide_now and chosen.rules:
            for name in (one.name for one in queued if one.status == "proposed"):
                await self._decide_by_policy(name, Scope(tenant, audience="private"))
        outcomes = [await self._outcome_of(one, Scope(tenant, audience="private")) for one in queued]
        written = any(one["ref"] is not None for one in outcomes)
        return {"writes_performed": written, "proposal": outcomes[0], "proposals": outcomes}

    async def _outcome_of(self, one: Queued, tenant: Scope) -> wire.ProposalOutcome:
        found = None
        with suppress(NotFound):  # skipped; or forgotten since, if the request is a repeated one
            found = await self.journal.read(proposals.find, one.name, tenant)
        return {
            "id": one.name,
            "state": None if found is None else found.state,
            "status": one.status,
            "ref": None if found is None else found.ref,
            "redacted": one.redacted,
            "reason": one.reason,
        }

    @in_tenant
    async def proposals(
        self,
        scope: Scope,
        state: ProposalState | None = "open",
        limit: int = 20,
        *,
        cursor: str | None = None,
        by: str | None = None,
    ) -> wire.Proposals:
        """A page of a scope's proposals in a state, newest first, with ``by`` only those of this key.

        Raises BadInput for an invalid cursor.
        """
        before = None if cursor is None else proposals.parse_name(cursor)
        if cursor is not None and before is None:
            raise BadInput("cursor: it is invalid; send a page's next_cursor unchanged, or none for the first page")
        found = await self.journal.read(proposals.page, scope, limit + 1, in_state=state, before=before, by=by)
        return {
            "proposals": [shown(one) for one in found[:limit]],
            "counts": await self.journal.read(proposals.counts, scope, by=by),
            "next_cursor": found[limit - 1].name if len(found) > limit else None,
        }

    @in_tenant
    async def proposal(self, name: str, scope: Scope, *, by: str | None = None) -> wire.Proposal:
        """One proposal. Raises NotFound, also for another owner's, and with ``by`` for another key's."""
        return shown(await self.journal.read(proposals.find, name, scope, by=by))

    @in_tenant
    async def approve(
        self,
        name: str,
        scope: Scope,
        by: Decider,
        edit: Edit = NO_EDIT,
        why: str = "",
        *,
        may_raise_trust: bool = True,
    ) -> wire.ProposalDecided:
        """Store the memory of an open proposal as ``edit`` changes it.

        Raises NotFound, AlreadyDecided, as `Intake.remember`, and BadInput for trust that only the owner may give.
        """
        if edit.trust == "trusted" and not may_raise_trust:
            raise BadInput(
                "trust: only the owner can say trusted: with the home's token, or an API key with all_users = true in "
                "[[server.keys]]"
            )
        proposal = await self.journal.read(proposals.find, name, scope)
        kept = await ingest.approve(self.journal, self.intake, proposal, self._verdict(by, why), edit)
        status = cast('Literal["stored", "superseded", "duplicate"]', kept.status)
        stored = status in ("stored", "superseded")
        return await self._decided(name, scope, status, kept.ref, kept.redacted, stored=stored)

    @in_tenant
    async def reject(self, name: str, scope: Scope, by: Decider, why: str = "") -> wire.ProposalDecided:
        """Reject an open proposal. Raises NotFound and AlreadyDecided."""
        proposal = await self.journal.read(proposals.find, name, scope)
        await ingest.reject(self.journal, proposal, self._verdict(by, why))
        return await self._decided(name, scope, "rejected", None, 0, stored=False)

    async def _decide_by_policy(self, name: str, tenant: Scope) -> None:
        """Let the first rule that fits an open proposal decide on it. What a rule cannot store waits for a person."""
        proposal = await self.journal.read(proposals.find, name, tenant)
        policy = self._policy_for(proposal) if proposal.state == "open" else None
        if policy is None:
            return
        verdict = Verdict(policy.who, "", self.live.now())
        with suppress(AlreadyDecided):
            if policy.action == "reject":
                await ingest.reject(self.journal, proposal, verdict)
                return
            try:
                await ingest.approve(self.journal, self.intake, proposal, verdict)
            except (BadInput, NotFound) as error:
                log.info("%s waits for a person: %s", name, error)

    def _policy_for(self, proposal: Proposal) -> Policy | None:
        policies = [_policy(rule) for rule in self.settings.proposals.rules]
        return deciding(policies, proposal, self.live.now())

    @in_tenant
    async def tend_proposals(self, tenant: str = "default", *, dry_run: bool = False) -> dict[str, int]:
        """Let the rules decide on open proposals, let old ones expire, and delete those decided long ago; counts."""
        chosen, now, whole = self.settings.proposals, self.live.now(), Scope(tenant, audience="private")
        done = {"decided": 0, "expired": 0, "deleted": 0}
        expires = None if not chosen.expire_days else now - timedelta(days=chosen.expire_days)
        after = 0
        while found := await self.journal.read(proposals.open_of_tenant, tenant, PAGE, after):
            after = found[-1].id
            for one in found:
                if self._policy_for(one) is not None:
                    done["decided"] += 1
                    if not dry_run:
                        await self._decide_by_policy(one.name, whole)
                elif expires is not None and one.at < expires:
                    done["expired"] += 1
                    if not dry_run:
                        with suppress(AlreadyDecided):
                            verdict = Verdict(EXPIRY, f"open for {chosen.expire_days:g} days", now)
                            await ingest.reject(self.journal, one, verdict, "expired")
        if chosen.keep_days:
            before = now - timedelta(days=chosen.keep_days)
            work = partial(proposals.delete_decided, dry_run=dry_run)
            run = self.journal.read if dry_run else self.journal.write
            done["deleted"] = await run(work, tenant, before)
        return done

    def _verdict(self, by: Decider, why: str) -> Verdict:
        return Verdict(by.who, why, self.live.now())

    async def _decided(
        self,
        name: str,
        scope: Scope,
        status: Literal["stored", "superseded", "duplicate", "rejected"],
        ref: str | None,
        redacted: int,
        *,
        stored: bool,
    ) -> wire.ProposalDecided:
        now = shown(await self.journal.read(proposals.find, name, scope))
        return {
            "writes_performed": stored,
            "proposal": now,
            "ref": ref,
            "status": status,
            "redacted": redacted,
            "decision": now["decision"],
        }


def shown(proposal: Proposal) -> wire.Proposal:
    """A proposal as doors show it."""
    memory = memory_of(proposal)
    scope = {str(name): value for name, value in proposal.scope.named().items()}
    return {
        "id": proposal.name,
        "state": proposal.state,
        "text": memory.text,
        "kind": memory.kind,
        "raw_kind": memory.raw_kind,
        "importance": importance_of(memory),
        "trust": memory.trust,
        "origin": memory.origin,
        "source": memory.source,
        "supersedes": memory.supersedes,
        "tags": [value for name, value in memory.stated if name == "tag"],
        "provenance": stated_values(memory.stated).get("provenance", {}),
        "scope": scope | {"audience": proposal.scope.audience},
        "evidence": list(proposal.evidence),
        "reason": proposal.reason,
        "proposed_by": proposal.proposed_by,
        "role": proposal.role,
        "at": proposal.at.isoformat(),
        "decided_at": None if proposal.decided_at is None else proposal.decided_at.isoformat(),
        "decided_by": proposal.decided_by,
        "why": proposal.why,
        "ref": proposal.ref,
        "decision": proposal.decision,
        "forgotten_before": proposal.forgotten_before,
    }


def _policy(rule: ProposalRule) -> Policy:
    """A rule of the settings as a policy."""
    fields = rule.model_dump(exclude={"min_age_hours"})
    return Policy(**fields, min_age=timedelta(hours=rule.min_age_hours))
