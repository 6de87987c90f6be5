"""The Cypher statements for a graph, for both Neo4j and Memgraph; a `Dialect` has their differences.

Every statement only reads. It contains validated names from the configuration; all else is a parameter. It is bounded
in the relationships of each node that it scans and returns.
"""

from __future__ import annotations

from collections.abc import Sequence

from adapters.bolt.dialects import Dialect, Schema, TextIndex, VectorIndex
from adapters.neo4j.options import Options
from fusion.contract import Scope
from fusion.store.rows import storable

HUB_SCAN_FACTOR = 16
"""factor on ``degree``: relationships of one node that are searched for those that the question may see"""

CANDIDATES = 64
"""maximum nodes that an index is asked for, or that have one name"""

TIMES = ("at", "valid_from", "valid_to")

ARMS = (1, 4, 16)
"""arms of a statement: a database plans a query for each of these numbers, not for all between"""

Values = dict[str, object]


class Cypher:
    """The statements for one graph. Nodes and relationships come back as the lists that `rows.Rows` reads."""

    def __init__(self, options: Options, dialect: Dialect, dimensions: int = 0) -> None:
        self.options, self.dialect = options, dialect
        label = (*options.entities, *options.passages)[0]
        passage = (*options.passages, *options.entities)[0]
        self.names = TextIndex(options.name_index, label, options.names[0]) if options.name_index else None
        self.texts = TextIndex(options.text_index, passage, options.texts[0]) if options.text_index else None
        self.vectors = (
            VectorIndex(options.vector_index, passage, options.vector_property, dimensions)
            if options.vector_index and dimensions
            else None
        )

    # What is seen

    def values(self, scope: Scope) -> Values:
        """The parameters that every statement takes."""
        owners = {dimension: getattr(scope, dimension) for dimension in ("tenant", *self.options.filtered)}
        return {
            "labels": list(self.options.labels),
            "entities": list(self.options.entities),
            "passages": list(self.options.passages),
            "scanned": self.options.degree * HUB_SCAN_FACTOR,
            **{f"_{name}": storable(value) for name, value in owners.items() if value is not None},
        }

    def _owned(self, scope: Scope) -> list[tuple[str, str]]:
        """Properties that have to have a value, with its parameter."""
        wanted = [(self.options.scope["tenant"], "$_tenant")] if "tenant" in self.options.scope else []
        named = scope.named()
        return wanted + [(self.options.scope[d], f"$_{d}") for d in self.options.filtered if d in named]

    def node_seen(self, node: str, scope: Scope, labels: str = "$labels") -> str:
        """Cypher: the node has one of the labels and an owner in ``scope``; a node without an owner never matches."""
        terms = [f"any(label IN labels({node}) WHERE label IN {labels})"]
        terms += [f"{node}.{name} = {value}" for name, value in self._owned(scope)]
        if "audience" in self.options.scope and scope.audience != "private":
            terms.append(f"coalesce({node}.{self.options.scope['audience']}, 'group') = 'group'")
        return " AND ".join(terms)

    def edge_seen(self, edge: str, scope: Scope) -> str:
        """A relationship without an owner belongs to the owner of its two ends."""
        terms = [f"({edge}.{name} IS NULL OR {edge}.{name} = {value})" for name, value in self._owned(scope)]
        if "audience" in self.options.scope and scope.audience != "private":
            terms.append(f"coalesce({edge}.{self.options.scope['audience']}, 'group') = 'group'")
        return " AND ".join(terms)

    def _more(self, element: str) -> list[str]:
        """The common columns of a node and a relationship: id, times, owners."""
        options = self.options
        names = [options.id, *(getattr(options, time) for time in TIMES), *options.scope.values()]
        return [f"{element}.{name}" if name else "null" for name in names]

    def node(self, node: str) -> str:
        options = self.options
        known = [
            self.dialect.identity(node),
            f"labels({node})",
            _first(node, options.names),
            _first(node, options.texts),
        ]
        return f"[{', '.join((*known, *self._more(node)))}]"

    def edge(self, edge: str) -> str:
        known = [self.dialect.identity(edge), f"type({edge})", _first(edge, self.options.facts)]
        return f"[{', '.join((*known, *self._more(edge)))}]"

    def called(self, node: str) -> str:
        """All names of a node, a list in which some are null."""
        names = ", ".join(f"{node}.{name}" for name in self.options.names)
        return " + ".join((f"[{names}]", *(f"coalesce({node}.{name}, [])" for name in self.options.aliases)))

    # Statements

    def named(self, scope: Scope) -> str:
        """The entities that have one of ``$names``, as written: an arm for each property, which an index may serve."""
        arms = [
            f"MATCH (n:{label}) WHERE {condition} AND {self.node_seen('n', scope)} "
            f"RETURN {self.node('n')} AS node, {self.called('n')} AS called LIMIT {CANDIDATES}"
            for label in self.options.entities
            for condition in (
                *(f"n.{name} IN $names" for name in self.options.names),
                *(f"any(name IN [] + n.{alias} WHERE name IN $names)" for alias in self.options.aliases),
            )
        ]
        return " UNION ALL ".join(arms)

    def found(self, index: TextIndex | VectorIndex, scope: Scope) -> str:
        """The ``$k`` best nodes of an index, by ``$words`` or by ``$vector``, best first."""
        if isinstance(index, VectorIndex):
            head, score, labels = self.dialect.nearest(index), "similarity", "$labels"
        else:
            head, score = self.dialect.matching(index), "score"
            labels = "$entities" if index is self.names else "$passages"
        return (
            f"{head} WHERE {self.node_seen('node', scope, labels)} WITH node, {score} AS score "
            f"RETURN {self.node('node')} AS node, {self.called('node')} AS called, score ORDER BY score DESC"
        )

    def related(self, origins: Sequence[str | int], scope: Scope) -> tuple[str, Values]:
        """The relationships of each of at most 16 ``origins``: one arm for each, so that each is cut off separately,
        regardless of degree. Unused arms match null, which matches nothing."""
        many = next(arms for arms in ARMS if arms >= len(origins))
        values: Values = {f"from{n}": origins[n] if n < len(origins) else None for n in range(many)}
        types = f":{'|'.join(self.options.relationships)}" if self.options.relationships else ""
        seen = " AND ".join(filter(None, (self.node_seen("b", scope), self.edge_seen("r", scope))))
        statement = " UNION ALL ".join(
            f"MATCH (a) WHERE {self.dialect.identity('a')} = $from{n} MATCH (a)-[r{types}]-(b) "
            f"WITH a, r, b LIMIT $scanned WHERE {seen} "
            f"RETURN {n} AS origin, startNode(r) = a AS forward, {self.edge('r')} AS edge, {self.node('b')} AS node "
            f"LIMIT {self.options.degree + 1}"
            for n in range(many)
        )
        return statement, values

    def count(self) -> str:
        """Nodes by label, where there are any; one that has two of them counts twice."""
        return " UNION ALL ".join(f"MATCH (n:{x}) RETURN '{x}' AS label, count(n) AS n" for x in self.options.labels)

    def sampled(self) -> str:
        """The number of nodes with a name or a text, among a hundred of each label."""
        parts = {**dict.fromkeys(self.options.passages, self.options.texts)}
        parts |= dict.fromkeys(self.options.entities, self.options.names)
        return " UNION ALL ".join(
            f"MATCH (n:{label}) WITH n LIMIT 100 "
            f"RETURN '{label}' AS label, count(n) AS looked, count({_first('n', names)}) AS have"
            for label, names in parts.items()
        )

    def make(self, key: str) -> str:
        """The statement that makes the index of this option, to show to people; never run, "" without such an index."""
        index = {"name_index": self.names, "text_index": self.texts, "vector_index": self.vectors}[key]
        if index is None:
            return ""
        schema = Schema(vectors=[index]) if isinstance(index, VectorIndex) else Schema(texts=[index])
        return next(iter(self.dialect.ddl(schema, ())), "")


def _first(element: str, names: Sequence[str]) -> str:
    properties = [f"{element}.{name}" for name in names]
    return f"coalesce({', '.join(properties)})" if len(properties) > 1 else properties[0] if properties else "null"
