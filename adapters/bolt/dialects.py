"""The differences between Memgraph and Neo4j. All other Cypher works on both.

Common to both, and enough: ``MERGE``, ``UNWIND $rows AS row``, ``-[*1..2]-``, ``EXISTS { pattern }``, ``CALL { … }``
without imports, ``LIMIT $n``. In only one of them: ``COUNT { }``, quantified paths, ``elementId``, ``IS ::``; and
``timestamp()`` counts milliseconds in Neo4j, microseconds in Memgraph, so times are written as integers or ISO strings.

Values are parameters, always. What cannot be one (labels, relationship types, property and index names) is a constant
of the program, or passes `allowed` first: elsewhere, labels chosen by callers were the way of Cypher injections.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

from fusion.errors import BadInput

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
"""a valid name in a schema; none needs quotes, so none can break out of them"""


def allowed(name: str, among: Collection[str]) -> str:
    """``name``, if it is one of ``among``. Raises ``BadInput``, which shows no more than 40 characters of it."""
    if name not in among:
        shown = name if len(name) <= 40 else f"{name[:39]}…"
        raise BadInput(f"{shown!r} is not a valid name in a query; valid are: {', '.join(sorted(among))}")
    return named(name)


def named(name: str) -> str:
    """``name``, if it is a plain one. Raises ``BadInput`` otherwise."""
    if not NAME.fullmatch(name):
        raise BadInput(
            f"{name[:40]!r} is no name for a label, type, property or index: letters, digits and _, up to 64"
        )
    return name


@dataclass(frozen=True, slots=True)
class VectorIndex:
    """Nearest neighbours by cosine of ``property``, a list of ``dimensions`` floats, on the nodes of ``label``."""

    name: str
    label: str
    property: str
    dimensions: int

    def __post_init__(self) -> None:
        for name in (self.name, self.label, self.property):
            named(name)
        if not 1 <= self.dimensions <= 4096:
            raise BadInput(f"a vector index has 1 to 4096 dimensions, not {self.dimensions}")


@dataclass(frozen=True, slots=True)
class TextIndex:
    """BM25 over one text ``property`` of the nodes of ``label``."""

    name: str
    label: str
    property: str

    def __post_init__(self) -> None:
        for name in (self.name, self.label, self.property):
            named(name)


@dataclass(frozen=True, slots=True)
class Schema:
    """The schema that a backend needs. ``unique`` and ``indexed`` are (label, property) pairs, ``related`` are
    (relationship type, property) pairs."""

    unique: Sequence[tuple[str, str]] = ()
    indexed: Sequence[tuple[str, str]] = ()
    related: Sequence[tuple[str, str]] = ()
    vectors: Sequence[VectorIndex] = ()
    texts: Sequence[TextIndex] = ()

    def __post_init__(self) -> None:
        for pair in (*self.unique, *self.indexed, *self.related):
            for name in pair:
                named(name)


class Dialect(Protocol):
    """One database's own statements.

    ``database`` is the default. ``existing`` lists what indexes there are; `names_of`
    reads its rows. Statements of ``ddl`` are run one by one, each in a transaction of its own.
    """

    name: str
    database: str | None
    existing: Sequence[str]

    def names_of(self, rows: Iterable[Mapping[str, object]]) -> Mapping[str, int | None]:
        """Index names in the rows of an ``existing`` statement, with the dimensions of those that are of vectors."""
        ...

    def ddl(self, schema: Schema, existing: Collection[str]) -> Sequence[str]:
        """Statements that create the missing parts of ``schema``; no effect on those that exist."""
        ...

    def drop(self, index: VectorIndex | TextIndex) -> str: ...

    def identity(self, element: str) -> str:
        """An expression: the database's own id of a node or relationship, which finds it at once while it exists."""
        ...

    def nearest(self, index: VectorIndex) -> str:
        """The head of a query, which continues with ``node`` and ``similarity``: the ``$k`` nodes nearest to
        ``$vector`` with their cosines, -1 to 1. Later filters apply to these ``$k``."""
        ...

    def matching(self, index: TextIndex) -> str:
        """The head of a query, which continues with ``node`` and ``score``: up to ``$k`` nodes that have some of
        ``$words``, which `searchable` makes; the higher the score the better."""
        ...

    def cosine(self, node: str, index: VectorIndex) -> str:
        """An expression: the exact cosine of ``node``'s vector and ``$vector``, both of unit length; -1 to 1."""
        ...


_WORD = re.compile(r"\w+")
_WORDS = 64
"""maximum words of one question: both engines bound how many clauses a query has"""


def searchable(text: str) -> str:
    """A user's text as the query of a text index: its words, any of which may occur; empty without a word.

    Only letters, digits and _ are left, in lower case: no operator of Lucene's or Tantivy's survives, neither a sign
    nor AND, OR, NOT or TO, which they know in capitals only.
    """
    # Accents stay, as Neo4j's and Tantivy's default analysers keep them.
    words = _WORD.findall(unicodedata.normalize("NFC", text).lower())
    return " ".join(list(dict.fromkeys(words))[:_WORDS])


_INDEXED = 1000
"""maximum bytes of a text in a property index; Neo4j fails the whole write for a key of more than about 8,000"""


def indexable(text: str) -> str:
    """``text`` if it fits a property index, else its beginning and its hash."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= _INDEXED:
        return text
    return f"{text[:64]}…{blake2b(data, digest_size=16).hexdigest()}"


class Neo4j:
    """Neo4j 5 and later, and AuraDB."""

    name = "neo4j"
    database: str | None = None  # the server knows its user's home database
    existing: Sequence[str] = ("SHOW INDEXES YIELD name, options",)

    def names_of(self, rows: Iterable[Mapping[str, object]]) -> Mapping[str, int | None]:
        return {str(row["name"]): _dimensions(row.get("options")) for row in rows}

    def ddl(self, schema: Schema, existing: Collection[str]) -> Sequence[str]:
        return (
            *(
                f"CREATE CONSTRAINT {_slug(label, prop)}_unique IF NOT EXISTS "
                f"FOR (n:{label}) REQUIRE n.{prop} IS UNIQUE"
                for label, prop in schema.unique
            ),
            *(
                f"CREATE INDEX {_slug(label, prop)} IF NOT EXISTS FOR (n:{label}) ON (n.{prop})"
                for label, prop in schema.indexed
            ),
            *(
                f"CREATE INDEX {_slug(kind, prop)} IF NOT EXISTS FOR ()-[r:{kind}]-() ON (r.{prop})"
                for kind, prop in schema.related
            ),
            *(
                f"CREATE VECTOR INDEX {index.name} IF NOT EXISTS FOR (n:{index.label}) ON (n.{index.property}) OPTIONS "
                f"{{indexConfig: {{`vector.dimensions`: {index.dimensions}, `vector.similarity_function`: 'cosine'}}}}"
                for index in schema.vectors
            ),
            *(
                f"CREATE FULLTEXT INDEX {index.name} IF NOT EXISTS FOR (n:{index.label}) ON EACH [n.{index.property}]"
                for index in schema.texts
            ),
            "CALL db.awaitIndexes(300)",  # built in the background; an index that is not online cannot be searched
        )

    def drop(self, index: VectorIndex | TextIndex) -> str:
        return f"DROP INDEX {index.name} IF EXISTS"

    def identity(self, element: str) -> str:
        return f"elementId({element})"

    def nearest(self, index: VectorIndex) -> str:
        # The procedure's own score is reckoned on quantised vectors (up to .006 off on small ones), and thresholds are
        # compared with it: the few that were found are scored again, exactly.
        return (
            f"CALL db.index.vector.queryNodes('{index.name}', $k, $vector) YIELD node "
            f"WITH node, {self.cosine('node', index)} AS similarity"
        )

    def matching(self, index: TextIndex) -> str:
        return (
            f"CALL db.index.fulltext.queryNodes('{index.name}', $words, {{limit: $k}}) YIELD node, score "
            "WITH node, score"
        )

    def cosine(self, node: str, index: VectorIndex) -> str:
        # Neo4j maps a cosine to 0..1 by (1 + cos) / 2.
        return f"2 * vector.similarity.cosine({node}.{index.property}, $vector) - 1"


class Memgraph:
    """Memgraph 3.6 and later: text indexes are a part of it since."""

    name = "memgraph"
    database: str | None = None
    existing: Sequence[str] = ("SHOW VECTOR INDEX INFO", "SHOW INDEX INFO")

    CAPACITY = 10_000
    """initial capacity of an index in vectors; it grows automatically"""

    def names_of(self, rows: Iterable[Mapping[str, object]]) -> Mapping[str, int | None]:
        found: dict[str, int | None] = {}
        for row in rows:
            if "index_name" in row:
                dimension = row.get("dimension")
                found[str(row["index_name"])] = dimension if isinstance(dimension, int) else None
            # SHOW INDEX INFO has no column for names: a text index says "label_text (name: memory_words)".
            elif match := re.search(r"name: ([A-Za-z0-9_]+)", str(row.get("index type", ""))):
                found[match[1]] = None
        return found

    def ddl(self, schema: Schema, existing: Collection[str]) -> Sequence[str]:
        # Making a constraint or a plain index again is harmless; vector and text indexes know no IF NOT EXISTS.
        return (
            *(f"CREATE CONSTRAINT ON (n:{label}) ASSERT n.{prop} IS UNIQUE" for label, prop in schema.unique),
            # Memgraph creates no index for a constraint.
            *(f"CREATE INDEX ON :{label}({prop})" for label, prop in (*schema.unique, *schema.indexed)),
            *(f"CREATE EDGE INDEX ON :{kind}({prop})" for kind, prop in schema.related),
            *(
                f"CREATE VECTOR INDEX {index.name} ON :{index.label}({index.property}) WITH CONFIG "
                f'{{"dimension": {index.dimensions}, "capacity": {self.CAPACITY}, "metric": "cos"}}'
                for index in schema.vectors
                if index.name not in existing
            ),
            *(
                f"CREATE TEXT INDEX {index.name} ON :{index.label}({index.property})"
                for index in schema.texts
                if index.name not in existing
            ),
        )

    def drop(self, index: VectorIndex | TextIndex) -> str:
        return f"DROP {'VECTOR' if isinstance(index, VectorIndex) else 'TEXT'} INDEX {index.name}"

    def identity(self, element: str) -> str:
        return f"id({element})"

    def nearest(self, index: VectorIndex) -> str:
        # `distance` is 1 - cos by the definition of the metric; the manual does not define `similarity`.
        return (
            f'CALL vector_search.search("{index.name}", $k, $vector) YIELD node, distance '
            "WITH node, 1 - distance AS similarity"
        )

    def matching(self, index: TextIndex) -> str:
        return f'CALL text_search.search_all("{index.name}", $words, {{limit: $k}}) YIELD node, score WITH node, score'

    def cosine(self, node: str, index: VectorIndex) -> str:
        # A procedure in some versions, a function in others; vectors are of unit length, so their dot product is it.
        return (
            f"reduce(dot = 0.0, i IN range(0, size({node}.{index.property}) - 1) | "
            f"dot + {node}.{index.property}[i] * $vector[i])"
        )


def _slug(label: str, prop: str) -> str:
    return f"{label}_{prop}".lower()


def _dimensions(options: object) -> int | None:
    config = options.get("indexConfig") if isinstance(options, Mapping) else None
    size = config.get("vector.dimensions") if isinstance(config, Mapping) else None
    return size if isinstance(size, int) else None


NEO4J: Dialect = Neo4j()
MEMGRAPH: Dialect = Memgraph()
DIALECTS: Mapping[str, Dialect] = {dialect.name: dialect for dialect in (MEMGRAPH, NEO4J)}
