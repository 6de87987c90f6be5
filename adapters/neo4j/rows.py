"""Reads the rows of `cypher` as nodes, relationships and hits. Pure functions.

The graph is external, so every value is validated: a value of a wrong type is left out, and a row without its required
values raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from adapters.hits import time_or_none
from adapters.neo4j.options import Options
from fusion.contract import DIMENSIONS, Fact, Hit, Moment, Scope


@dataclass(slots=True)
class Element:
    """The common base of a node and a relationship. ``ident`` is the database's own id, ``native_id`` the hit's."""

    ident: str | int
    native_id: str
    text: str
    at: datetime | None
    valid_from: datetime | None
    valid_to: datetime | None
    owners: Sequence[object]

    @property
    def began(self) -> datetime | None:
        return self.valid_from or self.at

    @property
    def recorded_at(self) -> None:
        """None: an external graph has no time of writing."""


@dataclass(slots=True)
class Node(Element):
    name: str
    labels: Sequence[str]
    is_entity: bool


@dataclass(slots=True)
class Edge(Element):
    predicate: str


_Common = tuple[str | int, str, str, datetime | None, datetime | None, datetime | None, Sequence[object]]


class Rows:
    """Reads the rows of one graph as nodes, relationships and hits."""

    def __init__(self, options: Options, scope: Scope) -> None:
        """``scope`` is the query's; elements without an owner belong to it as far as the graph is bound."""
        self._options = options
        self._entities = frozenset(options.entities)
        self._owners = tuple(options.scope)
        bound: dict[str, Any] = {d: options.bound[d] for d in DIMENSIONS if d in options.bound}
        tenant = scope.tenant if "tenant" in options.scope else options.tenant
        self._scopes: dict[tuple[str | None, ...], Scope] = {}
        self._whose = Scope(tenant=tenant, audience=options.audience, **bound)

    def node(self, row: Any) -> Node:
        """The node of a row. Raises ``TypeError`` or ``ValueError`` for an invalid one."""
        ident, labels, name, text, native, at, start, end, *owners = row
        if not isinstance(labels, list) or len(owners) != len(self._owners):
            raise TypeError("a node has labels, and a place for each of its owners")
        return Node(
            *_common("node", ident, native, text, at, start, end, owners),
            name=_plain(name),
            labels=labels,
            is_entity=not self._entities.isdisjoint(labels),
        )

    def edge(self, row: Any) -> Edge:
        """The relationship of a row. Raises ``TypeError`` or ``ValueError`` for an invalid one."""
        ident, predicate, text, native, at, start, end, *owners = row
        if not isinstance(predicate, str) or not predicate or len(owners) != len(self._owners):
            raise TypeError("a relationship has a type, and a place for each of its owners")
        return Edge(*_common("edge", ident, native, text, at, start, end, owners), predicate=predicate.lower())

    def passage(self, node: Node, path: tuple[str, ...] = (), score: float | None = None) -> Hit:
        """The text of a node as a hit."""
        raw_kind = node.labels[0] if node.labels else None
        return self._hit(node, node.text, self._owned(node.owners), path, score, "note", raw_kind)

    def triplet(
        self, subject: Node, edge: Edge, object_: Node, path: tuple[str, ...], score: float | None = None
    ) -> Hit:
        """A relationship as a hit: its own text, or the names of its ends."""
        scope = self._owned(_shared(edge.owners, subject.owners, object_.owners))
        hit = self._hit(edge, sentence(subject, edge, object_), scope, path, score, "fact", edge.predicate)
        hit.fact = Fact(subject.name, edge.predicate, object_.name)  # nobody else has the hit yet
        return hit

    def _hit(
        self,
        element: Element,
        text: str,
        scope: Scope,
        path: tuple[str, ...],
        score: float | None,
        kind: Literal["note", "fact"],
        raw_kind: str | None,
    ) -> Hit:
        return Hit(
            element.native_id,
            text,
            scope,
            score=score,
            kind=kind,
            raw_kind=raw_kind,
            at=Moment(element.at) if element.at else None,
            valid_from=element.valid_from,
            valid_to=element.valid_to,
            path=path,
        )

    def _owned(self, owners: Sequence[object]) -> Scope:
        if not self._owners:
            return self._whose
        said_by = tuple(owner if type(owner) is str else None for owner in owners)
        scope = self._scopes.get(said_by)
        if scope is None:
            scope = self._scopes[said_by] = self._scope(said_by)
        return scope

    def _scope(self, owners: Sequence[str | None]) -> Scope:
        said: dict[str, Any] = {}
        for name, value in zip(self._owners, owners, strict=True):
            if value is None:
                continue
            if name == "audience":
                said[name] = "group" if value == "group" else "private"
            else:
                said[name] = value
        return replace(self._whose, **said) if said else self._whose


def sentence(subject: Node, edge: Edge, object_: Node) -> str:
    """A relationship in words: "Julien corrected by bug gateway", where it has no sentence of its own."""
    return edge.text or f"{subject.name} {edge.predicate.replace('_', ' ')} {object_.name}"


def _common(
    kind: str, ident: Any, native: Any, text: Any, at: Any, start: Any, end: Any, owners: Sequence[object]
) -> _Common:
    if type(ident) is not str and type(ident) is not int:
        raise TypeError("a node or relationship has an id")
    name = native if native.__class__ in (str, int) and native != "" else ident
    return (
        ident,
        f"{kind}/{name}",
        text if type(text) is str and not text.isspace() else "",
        at if at is None else time_of(at),
        start if start is None else time_of(start),
        end if end is None else time_of(end),
        owners,
    )


def _plain(name: object) -> str:
    """A name as one line; a number is one, too."""
    if type(name) is str:
        return name if name.isascii() and name.isprintable() else " ".join(name.split())
    return str(name) if type(name) in (int, float) else ""


def _shared(edge: Sequence[object], subject: Sequence[object], object_: Sequence[object]) -> Sequence[object]:
    """The owners of a relationship: its own, else those that both ends share. One private end makes it private."""
    return [
        own if own is not None else (first if first == second else _narrower(first, second))
        for own, first, second in zip(edge, subject, object_, strict=True)
    ]


def _narrower(first: object, second: object) -> object:
    return "private" if "private" in (first, second) else None


def time_of(value: object) -> datetime | None:
    """A time of a graph, in UTC: the database's own type, or what `adapters.hits.time_of` reads; None for all else."""
    with suppress(ValueError, OverflowError):
        return time_or_none(value.to_native() if hasattr(value, "to_native") else value)
    return None
