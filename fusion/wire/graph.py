"""The replies about the graphs of a home."""

from __future__ import annotations

from typing_extensions import TypedDict


class GraphStep(TypedDict):
    """One edge of a path. ``relation`` is its kind, "" for a free one; ``refs`` assert it: memories and facts."""

    subject: str
    predicate: str
    object: str
    relation: str
    refs: list[str]


class GraphEntity(TypedDict):
    """An entity with the path that justifies it: ``Hjul → uses → Postgres 16``, and the refs of all its edges."""

    name: str
    kind: str
    hops: int
    score: float
    path: str
    edges: list[GraphStep]
    refs: list[str]


class GraphNeighbours(TypedDict):
    """What was found from an entity on, nearest first."""

    entity: str
    found: list[GraphEntity]


class GraphPath(TypedDict):
    """The shortest way between two entities; None if there is none."""

    entity: str
    to: str
    way: GraphEntity | None


class GraphMatches(TypedDict):
    """The projects that an idea fits, best first, and the entities that it names."""

    idea: str
    entities: list[str]
    projects: list[GraphEntity]


class GraphNode(TypedDict):
    """An entity of the graph; ``degree`` counts all its edges, also those to entities that are left out."""

    name: str
    type: str
    degree: int


class DrawnEdge(TypedDict):
    """An edge between two nodes, by their names; ``refs`` are the first five memories and facts that assert it."""

    source: str
    target: str
    relation: str
    valid_from: str | None
    valid_to: str | None
    refs: list[str]


class GraphOverview(TypedDict):
    """The most connected entities first, the edges between them, and how many entities are left out."""

    nodes: list[GraphNode]
    edges: list[DrawnEdge]
    left_out: int


class CardText(TypedDict):
    """One line of a card, and the first ref that says so; ``refs`` are all."""

    ref: str
    refs: list[str]
    text: str


class SynthesisCard(TypedDict):
    """A compiled summary of a subject. A stale one, with its reasons, shows no lines: refresh it."""

    subject: str
    fresh: bool
    reasons: list[str]
    lines: list[CardText]
    digest: str
    method: str
    """what made the lines: a version of the rules, or the name of a language model"""
    made_at: str


class StaleCard(TypedDict):
    subject: str
    reasons: list[str]


class CardLint(TypedDict):
    """How many cards there are, and which of them are stale; ``ok`` is true if none is."""

    ok: bool
    cards: int
    stale: list[StaleCard]


class GraphPages(TypedDict):
    """Pages of Markdown by file name."""

    pages: dict[str, str]
