"""The call on an open home that explains one memory: where it is from, what became of it, and what it was used for."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import cast

from typing_extensions import TypedDict

from fusion import wire
from fusion.contract import Event, Scope
from fusion.errors import NotFound
from fusion.gateway import decisions
from fusion.gateway.in_tenant import in_tenant
from fusion.gateway.parts import TenantParts
from fusion.journal import audit, distil_queue, external_refs, inclusions, layers, outbox, rows, state
from fusion.journal.browsing import standing_of
from fusion.journal.external_refs import is_external
from fusion.journal.inclusions import Inclusion
from fusion.journal.rows import RETIRED
from fusion.lib.ids import parse_short_ref
from fusion.lib.listing import no_memory, plain_ref, record_ref
from fusion.lib.provenance import provenance_of
from fusion.recall.contradictions import explained

MAX_CHANGES = 50
"""state changes that are shown: the latest ones"""
RECEIPTS_READ = 5
"""receipts that are read for what contradicted a memory: those of the latest answers with it"""


class WhyCalls(TenantParts):
    """The call that explains a memory, for one tenant."""

    __slots__ = ()

    @in_tenant
    async def why(self, ref: str, scope: Scope, limit: int = 20) -> wire.Why:
        """Where a memory is from, every change of its state, its copies, and the latest ``limit`` blocks and packs with
        it.

        Of a forgotten memory it says when and by what it was forgotten, and what each backend did. Raises NotFound.
        """
        ref = plain_ref(ref)
        if is_external(ref):
            return await self._why_item(ref, scope, limit)
        try:
            record = await self.journal.find(ref, scope)
        except NotFound:
            return await self._why_forgotten(ref, scope)
        event = record.event
        default = rows.default_state(event.scope.project)
        stated = provenance_of(event, record.state)
        return {
            "ref": record.ref,
            "recordRef": record_ref(record.ref),
            "status": standing_of(record, self.live.now()),
            "provenance": {
                "kind": stated.kind,
                "ref": stated.ref,
                "source": event.source,
                "origin": event.origin,
                "document": event.place.document if event.place else None,
                "position": event.place.start if event.place else None,
                "speaker": event.speaker,
                "recorded_at": event.recorded_at.isoformat(),
                "trust": record.trust,
                "derived_from": await self._refs_of(event.derived_from, scope),
            },
            "supersedes": await self._ref_of(event.supersedes, scope),
            "superseded_by": await self._ref_of(record.superseded_by, scope),
            "state": dict(decisions.shown_state(record.state, default)),
            "copies": await self._copies(record.ref),
            "facts": [] if record.trust == "quarantined" else await self._stated_facts(event),
            "layers": await self._layers(event.event_id),
            **await self._used(event.event_id, record.ref, scope, limit),
            "changes": await self._changes(record.ref, scope),
            "forgotten": None,
        }

    async def _why_item(self, ref: str, scope: Scope, limit: int) -> wire.Why:
        """What is known of an item that only one backend has. Raises NotFound."""
        await self.external_refs.flush()
        item = await self.journal.read(external_refs.resolve, ref, scope)
        place = item.hit.place
        return {
            "ref": item.ref,
            "recordRef": record_ref(item.ref),
            "status": "current",
            "provenance": {
                "kind": "none",
                "ref": "",
                "source": item.backend,
                "origin": item.hit.origin,
                "document": place.document if place else None,
                "position": place.start if place else None,
                "speaker": item.hit.speaker,
                "recorded_at": None,
                "trust": item.hit.trust,
                "derived_from": [],
            },
            "supersedes": None,
            "superseded_by": None,
            "state": {},
            "copies": {item.backend: "its own"},
            "facts": [],
            "layers": {},
            **await self._used(item.ref, item.ref, scope, limit),
            "changes": await self._changes(item.ref, scope),
            "forgotten": None,
        }

    async def _why_forgotten(self, ref: str, scope: Scope) -> wire.Why:
        """What is known of a memory that was forgotten. Raises NotFound for one that never was, or is out of scope."""
        entry = await self.journal.read(audit.of, scope, ref)
        if entry is None:
            missing = no_memory(ref)
            raise NotFound(f"{missing}, and none was forgotten" if missing.endswith("here") else missing)
        return {
            "ref": entry.ref,
            "recordRef": record_ref(entry.ref),
            "status": "forgotten",
            "provenance": None,
            "supersedes": None,
            "superseded_by": None,
            "state": {},
            "copies": {},
            "facts": [],
            "layers": {},
            "included": 0,
            "inclusions": [],
            "contradictions": [],
            "changes": [],
            "forgotten": {"at": entry.at.isoformat(), "by": entry.by, "backends": dict(entry.backends)},
        }

    async def _stated_facts(self, event: Event) -> list[wire.StatedFact]:
        """The triples that the graphs got with an event."""
        distilled = await self.journal.read(distil_queue.extractions, [event.event_id]) if event.derived_from else {}
        extraction = distilled.get(event.event_id) or self.deliverer.extraction(event)
        return [{"subject": one.subject, "predicate": one.predicate, "object": one.object} for one in extraction.facts]

    async def _used(self, item: str, ref: str, scope: Scope, limit: int) -> _Used:
        """The latest blocks and packs with a memory, how many there are, and what contradicted it in them."""
        await self.inclusions.flush()
        since = self.live.now() - timedelta(days=self.settings.receipts.keep_days)
        found, total = await self.journal.read(inclusions.of, item, since, limit, scope.user_id)
        return {
            "included": total,
            "inclusions": [_shown(one) for one in found],
            "contradictions": [row for one in found[:RECEIPTS_READ] for row in await self._contradicted(ref, one)],
        }

    async def _contradicted(self, ref: str, inclusion: Inclusion) -> list[wire.Contradiction]:
        """What contradicted a memory in an answer that had it, by the receipt of the answer if that is kept still."""
        try:
            body = await self.receipts.read(inclusion.receipt_id, self.tenant)
        except NotFound:
            return []
        rows = (row for row in body.get("contradictions", ()) if ref in row["refs"])
        return [cast("wire.Contradiction", {"receipt_id": inclusion.receipt_id, **row}) for row in explained([*rows])]

    async def _changes(self, ref: str, scope: Scope) -> list[wire.Decision]:
        """The decisions on a memory, the newest first."""
        return [decisions.shown(one) for one in await self.journal.read(state.log, scope, MAX_CHANGES, ref=ref)]

    async def _copies(self, ref: str) -> dict[str, str]:
        """By backend, whether it has a memory: done, pending or failed."""
        seq = parse_short_ref(ref) or 0
        return (await self.journal.read(outbox.outcomes, [seq])).get(seq, {})

    async def _layers(self, event_id: str) -> dict[str, str]:
        """What made the stored layers of a memory, by maker."""
        await self.layers.flush()
        return await self.journal.read(layers.methods_of, event_id)

    async def _ref_of(self, event_id: str | None, scope: Scope) -> str | None:
        """The ref of a version of a memory; None where there is none, or it is out of scope."""
        if event_id is None or event_id == RETIRED:
            return None
        return next(iter(await self._refs_of([event_id], scope)), None)

    async def _refs_of(self, event_ids: Iterable[str], scope: Scope) -> list[str]:
        """The refs of those of these events that are in a scope."""
        records = (await self.journal.records([*event_ids])).values()
        return [record.ref for record in records if scope.admits(record.event.scope)]


class _Used(TypedDict):
    """What `why` says of the use of a memory."""

    included: int
    inclusions: list[wire.Inclusion]
    contradictions: list[wire.Contradiction]


def _shown(one: Inclusion) -> wire.Inclusion:
    helps = "" if one.probability is None else f", helps with probability {one.probability:.3f}"
    found = f"found by {', '.join(one.found_by)}" if one.found_by else "a neighbour of what was found"
    return {
        "receipt_id": one.receipt_id,
        "at": one.at.isoformat(),
        "kind": one.kind,
        "place": one.place,
        "why": f"number {one.place} with score {one.score:.3f}{helps}; {found}",
    }
