"""Requests about facts with their validity, and the graph and the cards that are made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fusion import wire
from fusion.client.calls.call import Call

if TYPE_CHECKING:
    from datetime import datetime


def assert_fact(
    subject: str,
    predicate: str,
    object: str,
    *,
    sources: Sequence[str],
    object_type: str = "literal",
    valid_from: datetime | str | None = None,
    valid_to: datetime | str | None = None,
    supersedes: Sequence[str] = (),
    confidence_tier: str | None = None,
    asserted_by: str = "agent",
    **scope: str | None,
) -> Call[wire.FactWritten]:
    """Assert a fact about a subject; ``sources`` are refs of memories that say so."""
    return Call.post("/v1/facts", locals())


def retract_fact(
    fact: str,
    *,
    how: str = "invalidated",
    at: datetime | str | None = None,
    sources: Sequence[str] = (),
    asserted_by: str = "agent",
    **scope: str | None,
) -> Call[wire.FactWritten]:
    """Say that a fact does not hold any more, or with ``how`` retracted that it never held."""
    return Call.post("/v1/facts/retract", locals())


def current_facts(
    subject: str,
    *,
    predicate: str | None = None,
    at: datetime | str | None = None,
    include_stale: bool = False,
    **scope: str | None,
) -> Call[wire.CurrentFacts]:
    """The facts about a subject that hold now, or held ``at`` a time, and why others do not."""
    return Call.get("/v1/facts/current", {**locals(), "include_stale": "true" if include_stale else None})


def fact_timeline(
    subject: str | None = None, *, fact: str | None = None, predicate: str | None = None, **scope: str | None
) -> Call[wire.FactTimeline]:
    """All facts about a subject, those that ended too, oldest first; or those of a fact's predicate."""
    return Call.get("/v1/facts/timeline", locals())


def lint_facts(**scope: str | None) -> Call[wire.FactLint]:
    """What is wrong with the facts: sources that are gone, contradictions, unknown entities, cycles."""
    return Call.get("/v1/facts/lint", scope)


def fact_pack(
    subject: str,
    *,
    budget_tokens: int = 1200,
    max_items: int = 12,
    include_stale: bool = False,
    **scope: str | None,
) -> Call[wire.FactPackReply]:
    """The current facts about a subject as a context pack."""
    return Call.post("/v1/facts/pack", locals())


def rebuild_facts() -> Call[wire.FactsRebuilt]:
    """Delete the table of facts and derive it again from the memories."""
    return Call.post("/v1/facts/rebuild", {})


def graph_neighbors(
    entity: str, *, depth: int = 1, limit: int = 20, all_users: bool = False, **scope: str | None
) -> Call[wire.GraphNeighbours]:
    """The entities around one, nearest first, each with the path that justifies it."""
    return Call.post("/v1/graph/neighbors", locals())


def graph_impact(
    entity: str, *, depth: int = 1, limit: int = 20, all_users: bool = False, **scope: str | None
) -> Call[wire.GraphNeighbours]:
    """What uses an entity or is blocked by it, directly or over others."""
    return Call.post("/v1/graph/impact", locals())


def graph_path(entity: str, to: str, *, all_users: bool = False, **scope: str | None) -> Call[wire.GraphPath]:
    """The shortest way from one entity to another."""
    return Call.post("/v1/graph/path", locals())


def graph_overview(
    *,
    limit: int = 1000,
    around: Sequence[str] | None = None,
    depth: int = 1,
    at: datetime | str | None = None,
    all_users: bool | None = None,
    **scope: str | None,
) -> Call[wire.GraphOverview]:
    """The most connected entities of the graph, or of what is ``around`` some, and the edges between them."""
    return Call.post("/v1/graph/overview", locals())


def graph_match(idea: str, *, limit: int = 5, all_users: bool = False, **scope: str | None) -> Call[wire.GraphMatches]:
    """The projects that an idea fits, each with the path that leads to it."""
    return Call.post("/v1/graph/match", locals())


def graph_pages(**scope: str | None) -> Call[wire.GraphPages]:
    """The facts as pages of Markdown by file name."""
    return Call.get("/v1/graph/pages", scope)


def card(subject: str, **scope: str | None) -> Call[wire.SynthesisCard]:
    """The synthesis card of a subject, and whether it is fresh."""
    return Call.get("/v1/cards", locals())


def refresh_card(subject: str, **scope: str | None) -> Call[wire.SynthesisCard]:
    """Compile the synthesis card of a subject from what holds now."""
    return Call.post("/v1/cards/refresh", locals())


def lint_cards(**scope: str | None) -> Call[wire.CardLint]:
    """The synthesis cards that are stale, each with the reasons."""
    return Call.get("/v1/cards/lint", scope)
