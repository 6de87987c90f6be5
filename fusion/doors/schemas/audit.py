"""The request for who read, changed and forgot memories."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fusion.contract import Scope
from fusion.doors.schemas.base import Body, PageCursor, PageSize, Reference, Since, UserId
from fusion.gateway.audit import AuditRequest

Action = Literal["ask", "read", "list", "remember", "edit", "forget", "state", "backend", "export", "import", "gap"]


class AuditQuery(Body):
    """Which accesses to list, newest first."""

    action: Action | None = Field(default=None, description="only those of this kind")
    since: Since | None = Field(default=None, description="only those at this time or later")
    user_id: UserId | None = Field(default=None, description="only those to the memories of this user")
    ref: Reference | None = Field(default=None, description="only those to this memory, also in an answer")
    limit: PageSize = 50
    cursor: PageCursor = None

    def request(self, tenant: str) -> AuditRequest:
        return self._as(AuditRequest, scope=Scope(tenant, self.user_id))
