"""The call on an open home that shows who read, changed and forgot memories."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from fusion import wire
from fusion.contract import Scope
from fusion.gateway.accesses import canonical
from fusion.gateway.in_tenant import in_tenant
from fusion.gateway.parts import TenantParts
from fusion.gateway.views import position_of
from fusion.journal.access_log import Access, AccessFilter
from fusion.lib.ids import cursor as cursor_of


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """Which accesses to list: those of a user, to a memory, of a kind, since a time.

    Questions whose block has the memory count as accesses to it as long as their receipts are kept.
    """

    scope: Scope
    limit: int = 50
    cursor: str | None = None
    action: str | None = None
    since: datetime | None = None
    ref: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class AuditCalls(TenantParts):
    """The call of an open home about its access log, for one tenant."""

    @in_tenant
    async def accesses(self, request: AuditRequest) -> wire.Audit:
        """A page of the access log, the newest first. Raises BadInput for an invalid cursor."""
        ref = None if request.ref is None else canonical(request.ref) or request.ref
        receipts = () if ref is None else await self.receipts.naming(ref, self.tenant)
        chosen = AccessFilter(
            request.action,
            None if request.since is None else request.since.timestamp(),
            request.scope.user_id,
            ref,
            receipts,
            position_of(request.cursor),
        )
        found = await self.access_log.listed(chosen, request.limit + 1)
        page = found[: request.limit]
        return {
            "accesses": [_shown(one) for _, one in page],
            "next_cursor": cursor_of(page[-1][0]) if len(found) > len(page) else None,
            "keep_days": self.settings.audit.keep_days,
            "waiting": self.access_log.waiting,
            "fault": self.access_log.fault,
        }


def _shown(one: Access) -> wire.Access:
    return {
        "at": datetime.fromtimestamp(one.at, UTC).isoformat(),
        "action": one.action,
        "call": one.call,
        "outcome": one.outcome,
        "key": one.key,
        "key_id": one.key_id,
        "role": one.role,
        "door": one.door,
        "user_id": one.user_id,
        "agent_id": one.agent_id,
        "session_id": one.session_id,
        "refs": list(one.refs),
        "count": one.total,
        "receipt_id": one.receipt_id,
        "decision": one.decision,
        "request_id": one.request_id,
    }
