"""The backend: runs the queries of one search, and ranks their results.

A search is one read transaction: the entities that the query names, the results of the database's own full-text and
vector indexes, then one or two hops from there. The three lists are fused by their ranks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import ClassVar, Self, TypeVar

from adapters.bolt.dialects import DIALECTS, Dialect, TextIndex, VectorIndex, searchable
from adapters.bolt.driver import Bolt, Row, Run
from adapters.bolt.errors import with_fix
from adapters.bolt.options import NAMES
from adapters.neo4j.cypher import CANDIDATES, Cypher
from adapters.neo4j.entity_linking import linked, significant_words, spellings
from adapters.neo4j.options import Options, server_of
from adapters.neo4j.rows import Node, Rows
from adapters.neo4j.traversal import Walk
from adapters.options import read, verified
from fusion.contract import NAME_PLACEHOLDER, Description, Embedder, Hit, Opening, PartialHits, Query, Where
from fusion.errors import FusionError, InvalidAnswer
from fusion.lib.rank_fusion import rank_fusion, ranked

T = TypeVar("T")

EMBED_SHARE = 0.5
"""share of a query's time for its vector; the searches by name and by word have the rest"""

NEAREST = 3
"""nodes with the nearest vectors from which a walk starts if the query names no entity, and their weight"""
NEAREST_WEIGHT = 0.5

OVERFETCH = 16
"""factor for a second request to an index without scopes, if too few of its results belong to the query's"""

SLOW = "run less on it meanwhile, or make an index on the names: it reads too much for one question"
"""how to fix a database that takes too long"""

log = logging.getLogger(__name__)


class Neo4j:
    """Native ids are ``node/…`` and ``edge/…``: the graph's own ids where ``id`` names them, else the database's."""

    dialects: ClassVar[Mapping[str, Dialect]] = DIALECTS

    def __init__(self, name: str, bolt: Bolt, options: Options, embedder: Embedder | None) -> None:
        self.features = options.features()
        self._name, self._bolt, self._options, self._embedder = name, bolt, options, embedder
        self._cypher = Cypher(options, bolt.dialect, embedder.dimensions if embedder else 0)
        self._indexes: Mapping[str, int | None] | None = None
        self._hubs: set[str | int] = set()
        self._fault = ""

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        """Does not connect: a server that is down now may be up at the first question. Raises ``SettingsError``."""
        options = read(Options, opening, also=NAMES)
        bolt = Bolt(server_of(opening), cls.dialects[options.dialect])
        return cls(opening.name, bolt, options, opening.embedder)

    @classmethod
    def verify(cls, options: Mapping[str, object]) -> str | None:
        """Raises ``SettingsError`` for a wrong option, or where the driver is not installed."""
        chosen = verified(Options, options, also=NAMES)
        server = server_of(Opening(NAME_PLACEHOLDER, Path(), options))
        return f"adapters.neo4j:Neo4j, {chosen.dialect} at {server.shown}"

    async def search(self, query: Query) -> Sequence[Hit]:
        limit = min(query.limit, self._options.limit)
        if limit < 1 or not query.text.strip() or _fits_nothing(query.where):
            return []
        loop = asyncio.get_running_loop()
        until = loop.time() + query.deadline_s
        try:
            await self._look_at_indexes(query.deadline_s)
            vector = await self._vector(query.text, (until - loop.time()) * EMBED_SHARE)
            return await self._bolt.reading_once_more(
                lambda run: _Search(run, self._cypher, query, vector, limit).hits(self._hubs), until - loop.time()
            )
        except InvalidAnswer:
            self._indexes = None  # an index may have gone: the next question looks, and says which
            raise

    async def describe(self) -> Description:
        """Count the nodes of its labels, and report faults of the setup with the fix."""

        async def look(run: Run) -> tuple[list[Row], list[Row]]:
            return await run(self._cypher.count()), await run(self._cypher.sampled())

        loop = asyncio.get_running_loop()
        until = loop.time() + self._bolt.describe_s
        try:
            self._indexes = None
            await self._look_at_indexes(self._bolt.describe_s)
            counted, sampled = await self._bolt.reading_once_more(look, until - loop.time())
        except FusionError as error:
            return Description(notes=(with_fix(error, f"[backends.{self._name}]", SLOW),), degraded=True)
        items = dict.fromkeys(self._options.labels, 0) | {str(row["label"]): int(row["n"]) for row in counted}
        wrong = [*self._misfits(), *self._unlike(items, sampled)]
        return Description(sum(items.values()), notes=(*wrong, *self._remarks()), degraded=bool(wrong))

    async def close(self) -> None:
        await self._bolt.close()

    # What the database has

    async def _look_at_indexes(self, deadline_s: float) -> None:
        """Raises ``InvalidAnswer`` where an index that is to be asked is not there."""
        wanted = self._options.indexes
        if not wanted or self._indexes is not None:
            return
        found = await self._bolt.indexes(deadline_s)
        for key, name in wanted.items():
            if name not in found:
                make = self._cypher.make(key)
                raise InvalidAnswer(
                    f"{self._bolt.shown} has no index {name}, only {', '.join(sorted(found)[:8]) or 'none'}. "
                    f"Fix: correct {key} of [backends.{self._name}]{f', or make it: {make}' if make else ''}"
                )
        self._indexes = found

    def _size(self) -> int | None:
        """Dimensions of the vector index, where it says them."""
        return (self._indexes or {}).get(self._options.vector_index)

    async def _vector(self, text: str, deadline_s: float) -> list[float] | None:
        """The question's vector; None where nothing can be asked by it, or its model fails: words are enough."""
        embedder = self._embedder
        if self._cypher.vectors is None or embedder is None or self._size() not in (None, embedder.dimensions):
            return None
        try:
            async with asyncio.timeout(deadline_s):
                vectors = await embedder.embed([text], keep=False)
        except (FusionError, OSError, RuntimeError, TimeoutError) as error:
            self._fault = f"the embedding model failed ({type(error).__name__}); names and words are searched alone"
            log.warning("%s: %s", self._bolt.shown, self._fault)
            return None
        self._fault = ""
        return [float(value) for value in vectors[0]]

    def _misfits(self) -> list[str]:
        size, name = self._size(), self._options.vector_index
        found = [self._fault] if self._fault else []
        if name and self._embedder is None:
            found.append(f"{name} is not searched, as there is no embedding model. Fix: configure [embedder]")
        elif self._embedder is not None and size not in (None, self._embedder.dimensions):
            found.append(
                f"{name} holds {size} dimensions and the embedding model has {self._embedder.dimensions}: names and "
                "words are searched alone. Fix: configure [embedder] with the model of its vectors, or leave "
                "vector_index out"
            )
        return found

    def _unlike(self, items: Mapping[str, int], sampled: Sequence[Row]) -> list[str]:
        """Labels and properties of which the graph has none, unless it is empty."""
        if not any(items.values()):
            return []
        found = [
            f"no node has the label {label}. Fix: correct entities or passages of [backends.{self._name}]"
            for label, count in items.items()
            if not count
        ]
        for row in sampled:
            label = str(row["label"])
            key = "names" if label in self._options.entities else "texts"
            if row["looked"] and not row["have"]:
                properties = " or ".join(getattr(self._options, key))
                found.append(f"none of {row['looked']} nodes {label} has {properties}. Fix: correct {key}")
        return found

    def _remarks(self) -> list[str]:
        """Notes on the configuration that are no faults."""
        found = []
        if self._options.entities and not self._options.name_index:
            found.append(
                "names are found as they are written, case aside. Fix: a full-text index on them (name_index), "
                "which finds more"
            )
        if self._hubs:
            found.append(
                f"{len(self._hubs)} nodes with more than {self._options.degree} relationships were met: of each the "
                f"first {self._options.degree} are followed. Fix: a greater degree, where that leaves out too much"
            )
        return found


def _fits_nothing(where: Where) -> bool:
    """Whether no hit of a graph fits a filter: they are notes and facts without place, speaker and properties."""
    kinds = frozenset(where.kind)
    return bool(where.folder or where.speaker or where.property or (kinds and kinds.isdisjoint(("note", "fact"))))


class _Search:
    """One question in one transaction."""

    def __init__(self, run: Run, cypher: Cypher, query: Query, vector: list[float] | None, limit: int) -> None:
        self._run, self._cypher, self._query = run, cypher, query
        self._vector, self._limit = vector, limit
        self._options = cypher.options
        self._rows = Rows(self._options, query.scope)
        self._values = cypher.values(query.scope)
        self.dropped = 0

    async def hits(self, hubs: set[str | int]) -> Sequence[Hit]:
        named = linked(self._query.text, await self._candidates())
        by_words = await self._by_words()
        near = await self._by_vector()
        starts = named or [(node, NEAREST_WEIGHT) for node in near[:NEAREST]]
        walk = Walk(self._query, self._rows, self._options.degree, starts)
        for depth in range(1, self._options.hops + 1):
            walk.hop(await self._related([one.node for one in walk.frontier]), depth)
        hubs |= walk.hubs
        found = fused(
            walk.ranked(self._limit),
            [self._rows.passage(node) for node in by_words],
            [self._rows.passage(node) for node in near if node.text],
        )
        hits = [hit for hit in found if self._query.admits(hit)][: self._limit]
        dropped = self.dropped + walk.dropped
        if dropped and not hits:
            raise InvalidAnswer(f"none of {dropped} rows is a node or a relationship")
        return PartialHits(hits, dropped) if dropped else hits

    async def _candidates(self) -> list[tuple[Node, Sequence[str]]]:
        """Entities that the question may name, with their names."""
        if not self._options.entities:
            return []
        if self._cypher.names is not None:
            rows = await self._indexed(self._cypher.names, {"words": searchable(significant_words(self._query.text))})
        else:
            names = spellings(self._query.text)
            rows = (
                await self._run(self._cypher.named(self._query.scope), {**self._values, "names": names})
                if names
                else []
            )
        return [
            (node, [name for name in row["called"] if isinstance(name, str)])
            for row, node in self._nodes(rows)
            if isinstance(row["called"], list)
        ]

    async def _by_words(self) -> list[Node]:
        if self._cypher.texts is None:
            return []
        rows = await self._indexed(self._cypher.texts, {"words": searchable(significant_words(self._query.text))})
        return [node for _, node in self._nodes(rows) if node.text]

    async def _by_vector(self) -> list[Node]:
        if self._cypher.vectors is None or self._vector is None:
            return []
        rows = await self._indexed(self._cypher.vectors, {"vector": self._vector})
        return [node for _, node in self._nodes(rows)]

    async def _indexed(self, index: TextIndex | VectorIndex, asked: Mapping[str, object]) -> list[Row]:
        """The visible results of an index. It knows no scopes, so a second, deeper request follows if few are left."""
        if not asked.get("words", True):
            return []
        statement = self._cypher.found(index, self._query.scope)
        rows = await self._run(statement, {**self._values, **asked, "k": CANDIDATES})
        if len(rows) < min(self._limit, CANDIDATES) and self._options.scope:
            rows = await self._run(statement, {**self._values, **asked, "k": CANDIDATES * OVERFETCH})
        return rows[:CANDIDATES]

    async def _related(self, nodes: Sequence[Node]) -> list[Row]:
        if not nodes:
            return []
        statement, origins = self._cypher.related([node.ident for node in nodes], self._query.scope)
        return await self._run(statement, {**self._values, **origins})

    def _nodes(self, rows: Sequence[Row]) -> list[tuple[Row, Node]]:
        """The valid nodes of the rows, each once, that hold at the time of the query."""
        found: dict[str | int, tuple[Row, Node]] = {}
        for row in rows:
            try:
                node = self._rows.node(row["node"])
            except (TypeError, ValueError, KeyError):
                self.dropped += 1
                continue
            if self._query.out_of_time(node) is None:
                found.setdefault(node.ident, (row, node))
        return list(found.values())


def fused(*lists: Sequence[Hit]) -> list[Hit]:
    """The reciprocal rank fusion of several lists. The first list that has a hit says how it was reached."""
    scores = rank_fusion(ranked(hit.native_id for hit in hits) for hits in lists)
    first: dict[str, Hit] = {}
    for hit in chain.from_iterable(lists):
        first.setdefault(hit.native_id, hit)
    best = sorted(scores, key=lambda native_id: -scores[native_id])  # stable: of equals the linked one comes first
    return [first[native_id].scored(round(scores[native_id], 6)) for native_id in best]
