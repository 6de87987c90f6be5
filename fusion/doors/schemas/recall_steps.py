"""The requests of progressive recall: an index of hits, what stands around a memory, and full texts."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fusion.doors.schemas.base import PageSize, Reference, Scoped
from fusion.doors.schemas.recall_body import RecallBody
from fusion.gateway.progressive import IndexRequest, RecordsRequest, TimelineRequest
from fusion.lib.budget import MAX_BUDGET_TOKENS
from fusion.recall.recall_steps import (
    INDEX_TOKENS,
    MAX_HITS,
    MAX_REFS,
    MAX_SPAN,
    RECORDS_TOKENS,
    SPAN,
    TIMELINE_TOKENS,
)

StepRefs = Annotated[
    tuple[Reference, ...],
    Field(min_length=1, max_length=MAX_REFS, strict=False, description="refs as they are cited: m1z or obs:m1z"),
]


class IndexBody(RecallBody):
    """A question that a list of hits answers, one line each."""

    limit: int = Field(default=20, ge=1, le=MAX_HITS, description="hits at most")
    budget_tokens: int = Field(
        default=INDEX_TOKENS, ge=1, le=MAX_BUDGET_TOKENS, description="tokens of all lines at most; one is always there"
    )

    def request(self, tenant: str) -> IndexRequest:
        return self._recall(IndexRequest, tenant)


class TimelineBody(Scoped):
    """Which memories to show in what stands around them."""

    refs: StepRefs
    before: int = Field(default=SPAN, ge=0, le=MAX_SPAN, description="memories before each at most")
    after: int = Field(default=SPAN, ge=0, le=MAX_SPAN, description="memories after each at most")
    budget_tokens: int = Field(
        default=TIMELINE_TOKENS,
        ge=1,
        le=MAX_BUDGET_TOKENS,
        description="tokens of all lines at most, in equal shares; each memory itself is always there",
    )

    def request(self, tenant: str) -> TimelineRequest:
        return self._as(TimelineRequest, scope=self.scope(tenant))


class WhyQuery(Scoped):
    """Whose memory the path names, and how many of the blocks and packs with it are listed."""

    limit: PageSize = 20


class RecordsBody(Scoped):
    """Which memories to read in full."""

    refs: StepRefs
    budget_tokens: int = Field(
        default=RECORDS_TOKENS, ge=1, le=MAX_BUDGET_TOKENS, description="tokens of all texts at most"
    )

    def request(self, tenant: str) -> RecordsRequest:
        return self._as(RecordsRequest, scope=self.scope(tenant))
