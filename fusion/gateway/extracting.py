"""The call on an open home that extracts statements for review."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from fusion import wire
from fusion.contract import Event, Scope
from fusion.errors import BadInput, ModelMissing
from fusion.gateway.in_tenant import in_tenant
from fusion.gateway.proposing import ProposalCalls
from fusion.ingest.candidates import Candidate, Candidates, by_model, by_rules
from fusion.ingest.intake import NewMemory
from fusion.ingest.proposals import Proposed
from fusion.journal import listing
from fusion.journal.listing import Criteria
from fusion.journal.proposals import Decider
from fusion.lib.stated_fields import to_stated

MAX_CANDIDATES = 100
"""maximum candidates of one reply, which are as many as one request may propose"""


@dataclass(frozen=True, slots=True)
class ExtractRequest:
    """What to extract statements from: a text, memories by ref, or those of a scope that meet the criteria."""

    scope: Scope
    text: str | None = None
    speaker: str | None = None
    refs: tuple[str, ...] = ()
    document: str | None = None
    after: datetime | None = None
    before: datetime | None = None
    limit: int = 50
    by: Literal["rules", "model"] = "rules"
    propose: bool = False


class ExtractCalls(ProposalCalls):
    """The extraction for review, for one tenant."""

    __slots__ = ()

    @in_tenant
    async def extract(self, request: ExtractRequest, by: Decider) -> wire.Extracted:
        """Candidates for memories, with their evidence; with ``propose`` they are queued as proposals.

        No memory is stored in either case. Raises BadInput, NotFound, ModelMissing and BackendError.
        """
        events = await self._events_of(request)
        if request.by == "model":
            if self.model is None:
                raise ModelMissing("by: there is no language model; name one in [model] of fusion.toml, or use rules")
            found = await by_model([event for _, event in events], self.model)
        else:
            found = by_rules([event for _, event in events])
        sources = {event.event_id: (ref, event) for ref, event in events}
        shown = found.found[:MAX_CANDIDATES]
        queued: list[wire.ProposalOutcome] = []
        if request.propose and shown:
            # Policies decide on them later, so that this request writes no memory.
            given = [_proposal(one, sources, request.by) for one in shown]
            queued = (await self.propose(given, by, tenant=request.scope.tenant, decide_now=False))["proposals"]
        return {
            "writes_performed": False,
            "method": request.by,
            "read": len(events),
            "candidates": [_shown(one, sources) for one in shown],
            "left_out": _left_out(found, len(shown)),
            "proposals": queued,
        }

    async def _events_of(self, request: ExtractRequest) -> list[tuple[str, Event]]:
        """What is read, each event with its ref; that of a text that was sent is empty."""
        if request.text is not None:
            sent = NewMemory(request.text, request.scope, kind="turn", speaker=request.speaker)
            event = self.intake.prepared(sent, request.scope.tenant).event
            return [] if event is None else [("", event)]
        if request.refs:
            records = [await self.journal.find(ref, request.scope) for ref in dict.fromkeys(request.refs)]
            if any(record.trust == "quarantined" for record in records):
                raise BadInput("refs: a quarantined memory is not read; release it first: fusion state REF --trust …")
        else:
            criteria = Criteria(None, request.document, request.after, request.before)
            records = await self.journal.read(listing.matching, request.scope, criteria, request.limit)
        return [(one.ref, one.event) for one in records if one.live and one.trust != "quarantined"]


Sources = Mapping[str, tuple[str, Event]]
"""by event id, the refs and the events that were read"""


def _proposal(one: Candidate, sources: Sources, by: str) -> Proposed:
    """The proposal of a candidate: for the owner and the narrowest audience of the events that state it."""
    events = [sources[source][1] for source in one.sources]
    private = any(event.scope.audience == "private" for event in events)
    memory = NewMemory(
        one.text,
        replace(events[-1].scope, audience="private") if private else events[-1].scope,
        kind=one.kind,
        at=events[-1].at,
        trust=one.trust,
        origin="system",
        stated=to_stated(tags=[one.topic], importance=one.importance, confidence=one.confidence),
    )
    return Proposed(
        memory, f"extracted by {'the language model' if by == 'model' else 'rules'}", _evidence(one, sources)
    )


def _evidence(one: Candidate, sources: Sources) -> tuple[str, ...]:
    return tuple(ref for source in one.sources if (ref := sources[source][0]))


def _shown(one: Candidate, sources: Sources) -> wire.Candidate:
    return {
        "text": one.text,
        "kind": one.kind,
        "topic": one.topic,
        "importance": one.importance,
        "confidence": one.confidence,
        "trust": one.trust,
        "evidence": list(_evidence(one, sources)),
    }


def _left_out(found: Candidates, shown: int) -> dict[str, int]:
    """How many sentences are no candidates, by reason."""
    over = len(found.found) - shown
    return dict(found.rejected) | ({"over the limit": over} if over else {})
