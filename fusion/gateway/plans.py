"""The call on an open home that lists plans."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from fusion import wire
from fusion.contract import Scope
from fusion.gateway.in_tenant import in_tenant
from fusion.gateway.parts import TenantParts
from fusion.journal.plans import plans
from fusion.journal.rows import Record
from fusion.lib.due import due_end
from fusion.lib.listing import record_ref

PlanStatus = Literal["due", "overdue", "upcoming", "undated"]


class PlanCalls(TenantParts):
    """The calls of an open home that list what is to be done."""

    __slots__ = ()

    @in_tenant
    async def plans(self, scope: Scope, limit: int = 20, *, everything: bool = False) -> wire.Plans:
        """A scope's plans that are due or overdue, the earliest first; with ``everything`` the others as well.

        A plan is done once it is archived.
        """
        now = self.live.now()
        found = await self.journal.read(plans, scope, limit + 1, by=None if everything else now)
        return {"plans": [_shown(record, now) for record in found[:limit]], "more": len(found) > limit}


def status_of(record: Record, now: datetime) -> PlanStatus:
    """Whether what a memory announces is to come, due, or over."""
    due = record.state.due
    if due is None:
        return "undated"
    end = due_end(due)
    if end is not None and end <= now:
        return "overdue"
    return "due" if due.utc <= now else "upcoming"


def _shown(record: Record, now: datetime) -> wire.Plan:
    due = record.state.due
    end = None if due is None else due_end(due)
    return {
        "ref": record.ref,
        "recordRef": record_ref(record.ref),
        "text": record.event.text,
        "kind": record.event.kind,
        "status": status_of(record, now),
        "due": None if due is None else due.utc.isoformat(),
        "until": None if end is None else end.isoformat(),
        "precision": None if due is None else due.precision,
        "trust": record.trust,
        "scope": {str(name): value for name, value in record.event.scope.named().items()},
    }
