"""Mem0's memories in a local Qdrant folder of the gateway: on one thread, cached in memory."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from bisect import insort
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters.mem0.library import Bare, Frugal, config, library
from adapters.mem0.replies import Change, changes_said
from adapters.qdrant.payload import MATCHED, Payload, conditions, event_of, hit_of, payload_of
from fusion.contract import NO_USER, Embedder, Event, Hit, Query, Scope
from fusion.errors import InvalidAnswer, NotFound, StoreDamaged, StoreFull
from fusion.lib.bm25 import Bm25, Frequencies, counted, terms
from fusion.lib.rank_fusion import reciprocal
from fusion.lib.words import content_hash, spoken

if TYPE_CHECKING:
    from fusion.contract import Floats


UNEMBEDDED = "unembedded"
"""takes the place of the model in the name of the collection of memories without a vector"""


class EmbeddedMem0:
    """mem0 and the Qdrant folder under it. Every method but ``__init__`` runs on one and the same thread."""

    def __init__(
        self, folder: Path, collection: str, embedder: Embedder | None, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._folder = folder
        self._prefix = f"{collection}-"
        self._collection = collection_of(collection, embedder)
        self._embedder = embedder
        self._loop = loop
        self._memory: Any = None
        self._hits: dict[str, Hit] = {}
        self._ends: dict[str, str] = {}
        """the expiry day of each memory that mem0 gave one"""
        self._documents: dict[tuple[Scope, str], list[tuple[int, int, str]]] = {}
        self._scopes: Counter[tuple[str, ...]] = Counter()
        self.refused: Sequence[str] = ()
        """the names of folders with points of an earlier version that were not read"""
        self.pending: dict[str, str] = {}
        """Memories without a vector of the present model, and the collection that each is in."""

    @property
    def _client(self) -> Any:
        return self._memory.vector_store.client

    def open(self) -> None:
        from adapters.mem0.unpickle import refused_in

        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        memory_class = library(self._folder)
        client = local_client(self._folder)
        self.refused = refused_in(self._folder)
        dimensions = self._embedder.dimensions if self._embedder else 1
        store = {"collection_name": self._collection, "client": client, "embedding_model_dims": dimensions}
        try:
            self._memory = memory_class.from_config(config(store))
        except BaseException:
            client.close()
            raise
        self._memory.embedding_model.connect(self._embedder, self._loop)
        self._memory.vector_store.client = Bare(self._memory.vector_store.client, self._ends)
        self._memory.vector_store = Frugal(self._memory.vector_store)
        names = {c.name for c in self._client.get_collections().collections if c.name.startswith(self._prefix)}
        for collection in (self._collection, *sorted(names - {self._collection})):
            self._load(collection)

    def _load(self, collection: str) -> None:
        """Load a collection into memory. Memories of another model's collection, or of none, wait for a vector."""
        count = self._client.count(collection).count
        points, _ = self._client.scroll(collection, limit=max(1, count), with_payload=True, with_vectors=False)
        stale = []
        for point in points:
            native_id = str(point.id)
            if native_id in self._hits:  # it was on its way to the present collection when the process ended
                stale.append(native_id)
                continue
            payload = point.payload or {}
            self._learn(native_id, hit_of(native_id, payload))
            if day := payload.get("expiration_date"):
                self._ends[native_id] = day
            if collection != self._collection or self._embedder is None:
                self.pending[native_id] = collection
        if stale:
            self._client.delete(collection, points_selector=stale)

    def _learn(self, native_id: str, hit: Hit) -> None:
        self._hits[native_id] = hit
        self._scopes[conditions(hit.scope)] += 1
        if hit.place is not None:
            document = self._documents.setdefault((hit.scope, hit.place.document), [])
            insort(document, (hit.place.start, hit.place.end, native_id))

    def missing(self, events: Sequence[Event]) -> list[Event]:
        """The events that are not stored yet, each once."""
        return list({event.event_id: event for event in events if event.event_id not in self._hits}.values())

    def store(self, events: Sequence[Event], vectors: Floats | None) -> None:
        rows = [row for row, event in enumerate(events) if event.event_id not in self._hits]
        if not rows:  # another delivery of the same events was faster
            return
        ids = [events[row].event_id for row in rows]
        payloads = [payload_of(events[row]) for row in rows]
        if vectors is None:
            self._park(ids, payloads)
        else:
            self._memory.vector_store.insert(vectors=vectors[rows].tolist(), payloads=payloads, ids=ids)
        for native_id, payload in zip(ids, payloads, strict=True):
            self._learn(native_id, hit_of(native_id, payload))

    def _park(self, ids: Sequence[str], payloads: Sequence[Payload]) -> None:
        """Store memories in the collection without vectors: with one number each, because Qdrant requires a vector."""
        from qdrant_client.models import Distance, PointStruct, VectorParams

        collection = self._prefix + UNEMBEDDED
        if not self._client.collection_exists(collection):
            self._client.create_collection(collection, vectors_config=VectorParams(size=1, distance=Distance.DOT))
        points = [PointStruct(id=i, vector=[1.0], payload=dict(p)) for i, p in zip(ids, payloads, strict=True)]
        self._client.upsert(collection, points=points)
        self.pending.update(dict.fromkeys(ids, collection))

    def waiting(self, limit: int) -> list[Hit]:
        return [self._hits[native_id] for native_id in list(self.pending)[:limit]]

    def move(self, ids: Sequence[str], vectors: Floats) -> None:
        """Move memories with their new vectors to the searched collection. Forgotten ones are left out."""
        sources = set()
        for native_id, vector in zip(ids, vectors.tolist(), strict=True):
            if (source := self.pending.get(native_id)) is None:
                continue
            [point] = self._client.retrieve(source, ids=[native_id], with_payload=True)
            self._memory.vector_store.insert(vectors=[vector], payloads=[point.payload], ids=[native_id])
            self._client.delete(source, points_selector=[native_id])
            del self.pending[native_id]
            sources.add(source)
        for emptied in sources.difference(self.pending.values()):
            self._client.delete_collection(emptied)

    def held(self, after: str, limit: int) -> list[tuple[Event, tuple[str, ...]]]:
        """See `fusion.contract.ListsEvents.events`."""
        ours = ((hit.event_id, native_id) for native_id, hit in self._hits.items() if hit.event_id is not None)
        ids = {event_id: native_id for event_id, native_id in ours if event_id > after}
        wanted = {ids[event_id]: event_id for event_id in sorted(ids)[:limit]}
        found: dict[str, Event] = {}
        for collection in {self.pending.get(native_id, self._collection) for native_id in wanted}:
            for point in self._client.retrieve(collection, ids=list(wanted), with_payload=True):
                if (event := event_of(point.payload or {})) is not None:
                    found[str(point.id)] = event
        return [(found[native_id], (native_id,)) for native_id in wanted if native_id in found]

    def count(self) -> int:
        """See `fusion.contract.CountsEvents.count`."""
        return int(self._client.count_points())

    def delete(self, ids: set[str]) -> bool:
        return self.delete_all([ids])[0]

    def delete_all(self, groups: Sequence[set[str]]) -> list[bool]:
        """Deletes the memories of every group, all or none; for each, whether there were any."""
        found: dict[str, int] = {}
        for number, ids in enumerate(groups):
            found.update({native_id: number for native_id in ids if native_id in self._hits and native_id not in found})
        with self._client.together():
            for native_id in found:
                if (source := self.pending.get(native_id)) is not None:
                    self._client.delete(source, points_selector=[native_id])
                else:
                    self._memory.vector_store.delete(native_id)
        for native_id in found:
            self._unlearn(native_id)
        had = set(found.values())
        return [number in had for number in range(len(groups))]

    def _unlearn(self, native_id: str) -> None:
        hit = self._hits.pop(native_id)
        self._ends.pop(native_id, None)
        self.pending.pop(native_id, None)
        self._scopes -= Counter([conditions(hit.scope)])
        if hit.place is not None:
            entry = (hit.place.start, hit.place.end, native_id)
            self._documents[hit.scope, hit.place.document].remove(entry)

    def search(self, query: Query, vector: Floats | None) -> list[Hit]:
        """mem0's own search; what has no vector is found by its words, and the two lists are merged by rank."""
        if vector is None:
            return self._lexical(query, self._hits)
        near = self._semantic(query, vector)
        if not self.pending:
            return near
        merged = [
            hit.scored(reciprocal(rank))
            for found in (near, self._lexical(query, self.pending))
            for rank, hit in enumerate(found, start=1)
        ]
        return sorted(merged, key=lambda hit: -(hit.score or 0.0))[: query.limit]

    def _semantic(self, query: Query, vector: Floats) -> list[Hit]:
        """Search by vector, as deep as necessary: mem0 cannot filter by time, and hidden hits must not count."""
        text = query.text.strip()  # as mem0 does before it asks for the vector
        self._memory.embedding_model.ready = {text: vector.tolist()}
        filters = self._filters(query.scope)
        depth = query.limit
        while True:
            self._memory.vector_store.depth = depth
            try:
                reply = self._memory.search(text, filters=filters, top_k=depth, threshold=0.0)
                ranked = [(str(item["id"]), float(item["score"])) for item in reply["results"]]
            except (KeyError, TypeError, ValueError) as error:
                raise InvalidAnswer(f"mem0 answered in another shape: {error}") from error
            known = [(self._hits[native_id], score) for native_id, score in ranked if native_id in self._hits]
            found = [hit.scored(score) for hit, score in known if query.admits(hit)]
            if len(found) >= query.limit or len(ranked) < depth:
                return found[: query.limit]
            depth *= 4

    def _filters(self, scope: Scope) -> dict[str, object]:
        """The scope as mem0's filters, without conditions that every stored memory meets."""
        asked: dict[str, object] = {"user_id": "*"}  # mem0 requires an owner in a query; this is any owner
        wanted = conditions(scope)
        for position, key in enumerate(MATCHED):
            named = key == "tenant" or getattr(scope, key) not in (None, NO_USER)  # the latter by `Query.admits`
            if named and any(stored[position] != wanted[position] for stored in self._scopes):
                asked[key] = wanted[position]
        if scope.audience == "group" and any(stored[-1] != "group" for stored in self._scopes):
            asked["audience"] = "group"
        return asked

    def _lexical(self, query: Query, among: Mapping[str, object]) -> list[Hit]:
        words = terms(query.text)
        hits = [hit for native_id in among if query.admits(hit := self._hits[native_id])]
        texts = [counted(spoken(hit.text, hit.speaker)) for hit in hits]
        counts = {term: sum(term in text.counts for text in texts) for term in set(words)}
        length = sum(text.length for text in texts) / max(1, len(texts))
        asked = Bm25(words, Frequencies(len(texts), length, counts))
        found = [hit.scored(score) for hit, text in zip(hits, texts, strict=True) if (score := asked.score(text)) > 0]
        return sorted(found, key=lambda hit: (-(hit.score or 0.0), hit.native_id))[: query.limit]

    def neighbours(self, ids: Sequence[str], span: int) -> list[list[Hit]]:
        return [self._neighbours(native_id, span) for native_id in ids]

    def _neighbours(self, native_id: str, span: int) -> list[Hit]:
        hit = self._hits.get(native_id)
        if hit is None or hit.place is None:
            return []
        document = self._documents[hit.scope, hit.place.document]
        here = document.index((hit.place.start, hit.place.end, native_id))
        near = document[max(0, here - span) : here] + document[here + 1 : here + 1 + span]
        return [self._hits[other] for *_, other in near]

    def history(self, native_id: str, scope: Scope) -> tuple[list[Change], str | None]:
        """A memory's changes, and the event that it superseded. Raises NotFound, also for another owner's memory."""
        if native_id not in self._hits or not scope.admits(self._hits[native_id].scope):
            raise NotFound(f"mem0 has no memory {native_id!r} here")
        collection = self.pending.get(native_id, self._collection)
        [point] = self._client.retrieve(collection, ids=[native_id], with_payload=True)
        return changes_said(point.payload), point.payload.get("supersedes")

    def counts(self) -> tuple[int, int]:
        """Memories, and those of them without a vector."""
        return len(self._hits), len(self.pending)

    def close(self) -> None:
        if self._memory is None:
            return
        client, memory, self._memory = self._client, self._memory, None
        memory.close()
        client.close()  # mem0 does not close it, so the folder would stay locked


def collection_of(prefix: str, embedder: Embedder | None) -> str:
    """The name of a collection of the gateway, with a readable and unique name of the model."""
    if embedder is None:
        return f"{prefix}-{UNEMBEDDED}"
    identity = embedder.identity
    return f"{prefix}-{re.sub(r'[^A-Za-z0-9]+', '-', identity)[:40].strip('-')}-{content_hash(identity)[:8]}"


def local_client(folder: Path) -> Any:
    """A client of Qdrant's engine on the points in ``folder``; those of qdrant-client's own format are brought over.

    Raises StoreBusy when another process has them, StoreDamaged for a file that cannot be read, StoreFull.
    """
    from adapters.mem0.local import open_client
    from adapters.mem0.unpickle import brought_over

    try:
        brought_over(folder)
        return open_client(folder)
    except (ValueError, KeyError, sqlite3.Error) as error:
        if isinstance(error, sqlite3.OperationalError) and "full" in str(error):
            raise StoreFull(f"there is no space left for {folder}: {error}") from error
        raise StoreDamaged(f"mem0's folder {folder} cannot be read; move it away: {error}") from error
