"""The fields of every request that ranks memories and says which of them may answer."""

from __future__ import annotations

from typing import TypeVar

from pydantic import Field

from fusion.doors.schemas.base import (
    AskerBody,
    AskerZone,
    Asking,
    Name,
    Names,
    Now,
    QueryText,
    Until,
    WhereField,
    where_of,
)
from fusion.gateway.recall_request import RecallRequest

R = TypeVar("R", bound=RecallRequest)


class RecallBody(Asking):
    """A question, who asks it, and which memories may answer."""

    query: QueryText
    as_of: Until | None = Field(default=None, description="what was true then; a date is the end of that day")
    known_at: Until | None = Field(default=None, description="what had been recorded by then")
    timezone: AskerZone = None
    now: Now = None
    where: WhereField = None
    backends: Names | None = Field(default=None, description="ask only these")
    recipe: Name | None = None
    timeout_ms: int | None = Field(default=None, ge=1, le=60_000, description="for everything, end to end")
    asker: AskerBody | None = None

    def _recall(self, kind: type[R], tenant: str) -> R:
        """The request for the gateway."""
        asker = None if self.asker is None else self.asker.asker()
        return self._as(kind, scope=self.scope(tenant), asker=asker, where=where_of(self.where))
