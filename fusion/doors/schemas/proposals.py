"""The requests about proposals: memories that somebody asks to store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator
from pydantic.functional_validators import AfterValidator

from fusion.contract import Audience, Kind, Trust
from fusion.doors.schemas.base import (
    MAX_BATCH,
    Id,
    MemoryText,
    PageSize,
    Reference,
    Scoped,
    Share,
    Since,
    StatedProvenance,
    Tags,
    When,
    printable,
)
from fusion.doors.validation import MANY, ONE
from fusion.gateway.extracting import ExtractRequest
from fusion.ingest.intake import MAX_TEXT_CHARS, NewMemory
from fusion.ingest.proposals import MAX_REASON_CHARS, Edit, Proposed
from fusion.lib.stated_fields import to_stated

MAX_EVIDENCE = 32
Category = Literal["fact", "preference", "decision", "entity", "task", "other"]
KIND_OF: Mapping[Category, Kind] = {
    "fact": "fact",
    "preference": "preference",
    "decision": "decision",
    "entity": "fact",
    "task": "plan",
    "other": "note",
}
"""the kind of each category of openclaw-mem"""
Reason = Annotated[str, Field(max_length=MAX_REASON_CHARS), AfterValidator(printable)]


class ProposalBody(Scoped):
    """One memory to propose. Nothing of it is remembered until somebody approves it."""

    text: MemoryText = Field(max_length=MAX_TEXT_CHARS, description="one statement; [proposals] max_chars at most")
    audience: Audience = Field(default="group", description="the widest audience that may read it")
    kind: Kind = "note"
    category: Category | None = Field(default=None, description="openclaw-mem's word for its kind, instead of kind")
    at: When | None = Field(default=None, description="when it happened, as precisely as it is known")
    valid_to: Since | None = None
    importance: Share | None = None
    trust: Literal["unknown", "untrusted", "quarantined"] = Field(
        default="unknown", description="trusted is for whoever approves it"
    )
    tags: Tags = ()
    source: Reference | None = Field(default=None, description="where it comes from")
    provenance: StatedProvenance | None = None
    supersedes: Reference | None = Field(default=None, description="the ref of the memory that it would replace")
    derived_from: Annotated[list[Reference], Field(max_length=MAX_EVIDENCE)] = Field(
        default=[], description="refs of the memories that it follows from, for whoever decides"
    )
    reason: Reason = Field(default="", description="why it is worth keeping, for whoever decides")

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        if self.category is not None and "kind" in self.model_fields_set:
            raise ValueError("kind and category both say what it is; give one of them")
        return self

    def proposed(self) -> Proposed:
        """The proposal for `fusion.ingest`, which adds the tenant."""
        memory = self._as(
            NewMemory,
            scope=self.scope("default"),
            raw_kind=self.category,
            origin="agent",
            stated=to_stated(tags=self.tags, importance=self.importance, provenance=self.provenance),
            derived_from=(),
        )
        if self.category is not None:
            memory = replace(memory, kind=KIND_OF[self.category])
        return Proposed(memory, self.reason, tuple(self.derived_from))


ProposalsBody = Annotated[
    Annotated[ProposalBody, Tag(ONE)]
    | Annotated[Annotated[list[ProposalBody], Field(min_length=1, max_length=MAX_BATCH)], Tag(MANY)],
    Discriminator(lambda body: MANY if isinstance(body, list) else ONE),
]


class ProposalsQuery(Scoped):
    """Which proposals to list, newest first."""

    state: Literal["open", "approved", "rejected", "expired", "any"] = Field(
        default="open", description="only those in this state; any: all of them"
    )
    limit: PageSize = 20
    cursor: Annotated[str, Field(max_length=32)] | None = Field(
        default=None, description="next_cursor of the page before"
    )


class ApproveBody(Scoped):
    """The changes to the draft that is approved; fields that are left out stay as they were proposed."""

    text: MemoryText | None = Field(default=None, max_length=MAX_TEXT_CHARS, description="what the memory says instead")
    kind: Kind | None = None
    importance: Share | None = None
    trust: Trust | None = Field(default=None, description="trusted is the owner's to say")
    why: Reason = Field(default="", description="the reason, for the log")

    def edit(self) -> Edit:
        return self._as(Edit)


class RejectBody(Scoped):
    """Why a proposal is rejected."""

    why: Reason = Field(default="", description="the reason, for the log and for whoever proposed it")


class ExtractBody(Scoped):
    """What to extract statements from: a text, memories by ref, or a scope's memories of a document or a time."""

    text: MemoryText | None = Field(default=None, max_length=MAX_TEXT_CHARS, description="a text of yours")
    speaker: Id | None = Field(default=None, description="who says the text")
    refs: Annotated[list[Reference], Field(min_length=1, max_length=MAX_BATCH)] | None = Field(
        default=None, description="these memories"
    )
    document: Reference | None = Field(default=None, description="memories of this conversation or file")
    after: Since | None = Field(default=None, description="memories not before this; a date is its beginning, UTC")
    before: Since | None = Field(default=None, description="memories before this; a date is its beginning, UTC")
    limit: int = Field(default=50, ge=1, le=200, description="memories that are read at most, the oldest first")
    by: Literal["rules", "model"] = Field(default="rules", description="by rules, or by the model of [model]")
    propose: bool = Field(default=False, description="queue the candidates as proposals")

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        criteria = self.document is not None or self.after is not None or self.before is not None
        if (self.text is not None) + (self.refs is not None) + criteria != 1:
            raise ValueError("give text, refs, or document, after and before: one of the three")
        return self

    def request(self, tenant: str) -> ExtractRequest:
        return self._as(ExtractRequest, scope=self.scope(tenant), refs=tuple(self.refs or ()))
