"""The requests about the graphs of a home."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.functional_validators import AfterValidator

from fusion.doors.schemas.base import Asking, Scoped, Until, one_line, printable
from fusion.gateway.graph import MAX_DEPTH, GraphRequest, MatchRequest, PathRequest
from fusion.gateway.graph_overview import MAX_NODES, OverviewRequest
from fusion.lib.temporal_facts import MAX_NAME_CHARS

_Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS), AfterValidator(one_line)]


class GraphBody(Asking):
    """From which entity to walk, and how far."""

    entity: _Name = Field(description="by name: Postgres 16")
    depth: int = Field(default=1, ge=1, le=MAX_DEPTH, description="edges from the entity at most")
    limit: int = Field(default=20, ge=1, le=100)

    def request(self, tenant: str) -> GraphRequest:
        return self._as(GraphRequest, scope=self.scope(tenant))


class GraphPathBody(Asking):
    """Between which entities to find the shortest way."""

    entity: _Name = Field(description="where it begins")
    to: _Name = Field(description="where it ends")

    def request(self, tenant: str) -> PathRequest:
        return self._as(PathRequest, scope=self.scope(tenant))


class GraphOverviewBody(Asking):
    """Which part of the graph to draw: what is around some entities, or all of it."""

    limit: int = Field(default=1000, ge=1, le=MAX_NODES, description="entities at most, the most connected first")
    around: Annotated[tuple[_Name, ...], Field(max_length=20, strict=False)] = Field(
        default=(), description="only what is around these entities"
    )
    depth: int = Field(default=1, ge=1, le=MAX_DEPTH, description="edges from one of them at most")
    at: Until | None = Field(default=None, description="as it was then; a date is the end of that day")

    def request(self, tenant: str) -> OverviewRequest:
        return self._as(OverviewRequest, scope=self.scope(tenant))


class GraphMatchBody(Asking):
    """For which idea to find projects."""

    idea: Annotated[str, Field(min_length=1, max_length=4000), AfterValidator(printable)] = Field(
        description="what you think of doing; the walk begins at the entities that it names"
    )
    limit: int = Field(default=5, ge=1, le=50)

    def request(self, tenant: str) -> MatchRequest:
        return self._as(MatchRequest, scope=self.scope(tenant))


class CardBody(Scoped):
    """Of which subject to compile the card."""

    subject: _Name


class CardQuery(Scoped):
    """Of which subject to read the card."""

    subject: _Name


class CardLintQuery(Scoped):
    """Whose cards to check."""


class GraphPagesQuery(Scoped):
    """Whose graph to export."""
