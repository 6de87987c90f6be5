"""The call on an open home that explains the trust of a memory."""

from __future__ import annotations

from typing import Any, cast

from fusion import wire
from fusion.contract import Provenance, Scope, Trust
from fusion.gateway.decisions import shown
from fusion.gateway.in_tenant import in_tenant
from fusion.gateway.parts import TenantParts
from fusion.journal import external_refs, state
from fusion.journal.external_refs import is_external
from fusion.lib.listing import record_ref
from fusion.lib.provenance import provenance_of

MAX_DECISIONS = 1000
"""latest decisions on a memory in which changes of its trust are looked for"""
RULE = "Use never raises trust. Only the owner does, by a decision that can be undone."


class TrustCalls(TenantParts):
    """The calls of an open home that explain trust and use."""

    __slots__ = ()

    @in_tenant
    async def inspect_trust(self, ref: str, scope: Scope) -> wire.TrustReport:
        """The trust of a memory now, where it comes from, each change of it, and how the memory was used; no text.

        Raises NotFound, also for a memory out of scope.
        """
        if is_external(ref):
            await self.external_refs.flush()
            item = await self.journal.read(external_refs.resolve, ref, scope)
            kept = (await self.journal.read(state.externals)).get(item.ref)
            stated = item.hit.trust
            now = (kept.trust if kept is not None else None) or stated
            report = _report(item.ref, now, stated, item.hit.origin, None, Provenance("opaque", item.backend))
            used = item.ref
        else:
            record = await self.journal.find(ref, scope)
            event = record.event
            provenance = provenance_of(event, record.state)
            report = _report(record.ref, record.trust, event.trust, event.origin, event.source, provenance)
            used = event.event_id
        made = await self.journal.read(state.log, scope, MAX_DECISIONS, ref=report["ref"])
        changes = [shown(one) for one in made if any("trust" in change.after for change in one.changes)]
        return cast(wire.TrustReport, {**report, "changes": changes, **await self.use_of(used)})

    async def use_of(self, item: str) -> dict[str, Any]:
        """How often an event or an external item was part of a block or retrieved, and when last."""
        known, found = await self.use.counts(item)
        return {
            "included": known.included if known else 0,
            "last_included_at": known and known.last_included_at,
            "retrieved": found.retrieved if found else 0,
            "last_retrieved_at": found and found.last_retrieved_at,
        }


def _report(
    ref: str, now: Trust, stated: Trust, origin: str, source: str | None, provenance: Provenance
) -> dict[str, Any]:
    quarantined = now == "quarantined"
    return {
        "ref": ref,
        "recordRef": record_ref(ref),
        "trust": now,
        "stated_trust": stated,
        "quarantined": quarantined,
        "packEligibility": "excluded_by_quarantine" if quarantined else "eligible_subject_to_pack_policy",
        "origin": origin,
        "source": source,
        "provenance": {"kind": provenance.kind, "ref": provenance.ref},
        "rule": RULE,
    }
