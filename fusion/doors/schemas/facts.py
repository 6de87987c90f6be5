"""The requests about temporal facts."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.functional_validators import AfterValidator, BeforeValidator

from fusion.doors.schemas.base import Body, Scoped, Since, boolean, one_line, printable
from fusion.gateway.temporal_facts import MAX_SOURCES, EndRequest, FactPackRequest, FactRequest
from fusion.lib.budget import MAX_BUDGET_TOKENS
from fusion.lib.temporal_facts import MAX_NAME_CHARS, MAX_OBJECT_CHARS, By, How, ObjectType, Tier
from fusion.recall.context_pack import BUDGET_TOKENS, MAX_ITEMS

_Ref = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(one_line)]
_Subject = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS), AfterValidator(one_line)]
_Predicate = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(one_line)]
_Refs = Annotated[tuple[_Ref, ...], Field(max_length=MAX_SOURCES, strict=False)]
_Flag = Annotated[bool, BeforeValidator(boolean)]


class FactBody(Scoped):
    """What to assert about a subject, and the memories that say so."""

    subject: _Subject = Field(description="by name: api-gateway")
    predicate: _Predicate = Field(
        description="owns, uses, depends_on, replaces, status, configured_as, decision, source_of_truth or retired_by"
    )
    object: Annotated[str, Field(min_length=1, max_length=MAX_OBJECT_CHARS), AfterValidator(printable)] = Field(
        description="a text; JSON as text with object_type json; another subject as entity:postgres-16"
    )
    object_type: ObjectType = "literal"
    sources: _Refs = Field(description="memories and observations that say so: obs:m1z, ep:12; at least one")
    valid_from: Since | None = Field(default=None, description="from when on it holds; now by default")
    valid_to: Since | None = Field(default=None, description="until when; open by default")
    supersedes: _Refs = Field(default=(), description="ids of facts about the same subject whose place it takes")
    confidence_tier: Tier | None = Field(default=None, description="at most what its sources allow, the default")
    asserted_by: By = Field(default="agent", description="operator is the owner's to say")

    def request(self, tenant: str) -> FactRequest:
        return self._as(FactRequest, scope=self.scope(tenant))


class FactEndBody(Scoped):
    """Which fact does not hold any more, or never held."""

    fact: _Ref = Field(description="its id: fact:0123456789abcdef")
    how: How = Field(default="invalidated", description="invalidated: it ended; retracted: it never held")
    at: Since | None = Field(default=None, description="when it ended; now by default")
    sources: _Refs = Field(default=(), description="refs of memories that say so")
    asserted_by: By = Field(default="agent", description="operator is the owner's to say")

    def request(self, tenant: str) -> EndRequest:
        return self._as(EndRequest, scope=self.scope(tenant))


class FactsQuery(Scoped):
    """Of which subject to read the facts that hold, and at which time."""

    subject: _Subject
    predicate: _Predicate | None = Field(default=None, description="only facts with this predicate")
    at: Since | None = Field(default=None, description="what held then; now by default")
    include_stale: _Flag = Field(default=False, description="also facts that are no current truth, marked as stale")


class FactTimelineQuery(Scoped):
    """Of which subject to read all facts: it is named, or by one of its facts. Of a fact those of its predicate."""

    subject: _Subject | None = None
    fact: _Ref | None = Field(default=None, description="a fact, instead of a subject: fact:0123456789abcdef")
    predicate: _Predicate | None = Field(default=None, description="only facts with this predicate")


class FactLintQuery(Scoped):
    """Whose facts to check."""


class FactPackBody(Scoped):
    """Of which subject to pack the current facts."""

    subject: _Subject
    budget_tokens: int = Field(default=BUDGET_TOKENS, ge=1, le=MAX_BUDGET_TOKENS, description="frame included")
    max_items: int = Field(default=MAX_ITEMS, ge=1, le=100)
    include_stale: bool = Field(default=False, description="also facts that are no current truth, marked as stale")

    def request(self, tenant: str) -> FactPackRequest:
        return self._as(FactPackRequest, scope=self.scope(tenant))


class FactRebuildBody(Body):
    """Nothing: the whole table of facts of the tenant is built again."""
