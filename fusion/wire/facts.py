"""The replies about temporal facts (openclaw-mem.graph.fact.v0)."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import TypedDict


class FactSubject(TypedDict):
    """What a fact is about: the ref of an entity, and its name as it was written."""

    ref: str
    label: str


class FactObject(TypedDict):
    """The object of a fact: a text, the ref of an entity, or a JSON value."""

    type: str
    value: Any


class FactSource(TypedDict):
    """A source of a fact; ``status`` is ok, or what is wrong with it now: forgotten, replaced and so on."""

    ref: str
    status: str
    trust: str


class AssertionRef(TypedDict):
    """The memory that asserts a fact."""

    kind: Literal["memory"]
    ref: str


class TemporalFact(TypedDict):
    """One fact with its validity. Without ``authoritative`` it is no current truth, and ``reasons`` say why."""

    schema: str
    id: str
    subject: FactSubject
    predicate: str
    object: FactObject
    valid_from: str
    valid_to: str | None
    status: str
    confidence_tier: str
    source_refs: list[FactSource]
    assertion_ref: AssertionRef
    supersedes: list[str]
    superseded_by: list[str]
    created_at: str
    asserted_by: str
    authoritative: bool
    reasons: list[str]


class FactWritten(TypedDict):
    """A fact that was asserted or ended. To take that back, forget ``memory``."""

    writes_performed: bool
    fact: TemporalFact
    memory: str
    superseded: list[str]


class ExcludedFact(TypedDict):
    """A fact that does not hold, and why."""

    id: str
    status: str
    reason: str


class CurrentFacts(TypedDict):
    """What holds about a subject at a time."""

    schema: str
    subject: str
    at: str
    facts: list[TemporalFact]
    excluded: list[ExcludedFact]


class FactTimeline(TypedDict):
    """All facts about a subject, oldest first."""

    schema: str
    subject: str
    facts: list[TemporalFact]


class FactIssue(TypedDict):
    """One finding of the lint about a fact, or about a pair of facts."""

    code: str
    severity: Literal["error", "warning"]
    fact: str
    message: str
    other: str | None


class FactCounts(TypedDict):
    facts: int
    errors: int
    warnings: int
    stale: int


class FactLint(TypedDict):
    """What is wrong with the facts; ``ok`` is true without errors. ``stale`` has at most 500 facts."""

    schema: str
    ok: bool
    counts: FactCounts
    issues: list[FactIssue]
    stale: list[TemporalFact]


class LeftOutFact(TypedDict):
    fact_id: str
    reason: str


class FactPackTrace(TypedDict):
    """Which facts are in a pack, and why others are not."""

    subject: str
    includedFactIds: list[str]
    excluded: list[LeftOutFact]
    budgetTokens: int
    maxItems: int
    allIncludedHaveSources: bool


class FactCitation(TypedDict):
    url: str | None
    recordRef: str


class FactItem(TypedDict):
    """One fact of a pack as a line."""

    recordRef: str
    layer: str
    type: str
    importance: str
    trust: str
    text: str
    citations: FactCitation


class FactPackMeta(TypedDict):
    ts: str
    query: str
    scope: str | None
    budgetTokens: int
    maxItems: int


class FactPackNotes(TypedDict):
    how_to_use: list[str]


class FactBundle(TypedDict):
    """A context pack (openclaw-mem.context-pack.v1) of facts; ``bundle_text`` goes into the prompt as it is."""

    schema: str
    meta: FactPackMeta
    bundle_text: str
    items: list[FactItem]
    notes: FactPackNotes


class FactPackReply(TypedDict):
    """The current facts about a subject as a context pack, with its trace."""

    context_pack: FactBundle
    trace: FactPackTrace


class FactsRebuilt(TypedDict):
    """How many assertions the table of facts has, and had before it was deleted."""

    facts: int
    before: int
