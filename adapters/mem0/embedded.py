"""Mem0's memories in a local Qdrant folder of the gateway: on one thread, and read when they are found."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters.mem0.library import Bare, Frugal, config, library
from adapters.mem0.replies import Change, changes_said
from adapters.qdrant.payload import MATCHED, Payload, conditions, event_of, hit_of, payload_of
from fusion.contract import NO_USER, Embedder, Event, Hit, Place, Query, Scope
from fusion.errors import InvalidAnswer, NotFound, StoreDamaged, StoreFull
from fusion.lib.bm25 import Bm25, Frequencies, terms
from fusion.lib.rank_fusion import reciprocal
from fusion.lib.text_words import text_words
from fusion.lib.words import content_hash, spoken
from fusion.store.sqlite import read_only

if TYPE_CHECKING:
    from adapters.mem0.local import Engine
    from fusion.contract import Floats


UNEMBEDDED = "unembedded"
"""takes the place of the model in the name of the collection of memories without a vector"""
MAX_KEPT = 4096
"""memories in the cache"""
PORTION = 1000
"""memories read at a time where all are looked at"""


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
        self._kept: dict[str, Hit] = {}
        """a cache of the memories that were found last"""
        self.refused: Sequence[str] = ()
        """the names of folders with points of an earlier version that were not read"""
        self.pending: dict[str, str] = {}
        """Memories without a vector of the present model, and the collection that each is in."""

    @property
    def _client(self) -> Any:
        return self._memory.vector_store.client

    @property
    def _engine(self) -> Engine:
        return self._memory.vector_store.client.engine  # type: ignore[no-any-return]

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
        self._memory.vector_store.client = Bare(self._memory.vector_store.client, self._end_of)
        self._memory.vector_store = Frugal(self._memory.vector_store)
        names = {c.name for c in self._client.get_collections().collections if c.name.startswith(self._prefix)}
        for collection in (self._collection, *sorted(names - {self._collection})):
            self._sort_out(collection)
        if self._embedder is not None:
            self._engine.ready(self._collection)

    def _sort_out(self, collection: str) -> None:
        """Memories of another model's collection, or of none, wait for a vector."""
        if collection == self._collection and self._embedder is not None:
            return
        ids = [str(one) for one in self._engine.ids(collection)]
        held = self._engine.held(ids)
        # It was on its way to the present collection when the process ended.
        stale = [one for one in ids if collection != self._collection and self._collection in held[one]]
        self.pending.update(dict.fromkeys(ids, collection))
        for native_id in stale:
            del self.pending[native_id]
        if stale:
            self._client.delete(collection, points_selector=stale)

    def _known(self, ids: Iterable[str]) -> dict[str, Hit]:
        """The memories that exist, by native id."""
        wanted = list(ids)
        kept = self._kept
        if len(kept) > MAX_KEPT:
            kept.clear()
        missing = [one for one in wanted if one not in kept]
        for collection in {self.pending.get(one, self._collection) for one in missing}:
            for native_id, payload in self._engine.payloads(collection, missing).items():
                kept[str(native_id)] = hit_of(str(native_id), payload)
        return {one: hit for one in wanted if (hit := kept.get(one)) is not None}

    def _end_of(self, native_id: str) -> str | None:
        """The expiry day of a memory that mem0 gave one."""
        payloads = self._engine.payloads(self._collection, [native_id])
        return payloads[native_id].get("expiration_date") if native_id in payloads else None

    def missing(self, events: Sequence[Event]) -> list[Event]:
        """The events that are not stored yet, each once."""
        held = self._engine.held(event.event_id for event in events)
        return list({event.event_id: event for event in events if event.event_id not in held}.values())

    def store(self, events: Sequence[Event], vectors: Floats | None) -> None:
        held = self._engine.held(event.event_id for event in events)
        rows = [row for row, event in enumerate(events) if event.event_id not in held]
        if not rows:  # another delivery of the same events was faster
            return
        ids = [events[row].event_id for row in rows]
        payloads = [payload_of(events[row]) for row in rows]
        if vectors is None:
            self._park(ids, payloads)
        else:
            self._memory.vector_store.insert(vectors=vectors[rows].tolist(), payloads=payloads, ids=ids)

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
        return list(self._known(islice(self.pending, limit)).values())

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
        found: list[tuple[Event, tuple[str, ...]]] = []
        collections = sorted({self._collection, *self.pending.values()})
        while len(found) < limit:  # a memory that is no event is left out
            some = sorted(str(one) for name in collections for one in self._engine.ids(name, after, limit))[:limit]
            if not some:
                break
            payloads = {
                str(one): payload for name in collections for one, payload in self._engine.payloads(name, some).items()
            }
            events = [(event_of(payloads[native_id]), native_id) for native_id in some]
            found += [(event, (native_id,)) for event, native_id in events if event is not None]
            after = some[-1]
        return found[:limit]

    def count(self) -> int:
        """See `fusion.contract.CountsEvents.count`."""
        return self._engine.count_points()

    def delete(self, ids: set[str]) -> bool:
        return self.delete_all([ids])[0]

    def delete_all(self, groups: Sequence[set[str]]) -> list[bool]:
        """Deletes the memories of every group, all or none; for each, whether there were any."""
        held = self._engine.held(native_id for ids in groups for native_id in ids)
        found: dict[str, int] = {}
        for number, ids in enumerate(groups):
            found.update({native_id: number for native_id in ids if native_id in held and native_id not in found})
        with self._engine.together():
            for native_id in found:
                if (source := self.pending.get(native_id)) is not None:
                    self._client.delete(source, points_selector=[native_id])
                else:
                    self._memory.vector_store.delete(native_id)
        for native_id in found:
            self._kept.pop(native_id, None)
            self.pending.pop(native_id, None)
        had = set(found.values())
        return [number in had for number in range(len(groups))]

    def search(self, query: Query, vector: Floats | None) -> list[Hit]:
        """mem0's own search; what has no vector is found by its words, and the two lists are merged by rank."""
        if vector is None:
            return self._lexical(query, self._every_id())
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
            hits = self._known(native_id for native_id, _ in ranked)
            known = [(hits[native_id], score) for native_id, score in ranked if native_id in hits]
            found = [hit.scored(score) for hit, score in known if query.admits(hit)]
            if len(found) >= query.limit or len(ranked) < depth:
                return found[: query.limit]
            depth *= 4

    def _filters(self, scope: Scope) -> dict[str, object]:
        """The scope as mem0's filters."""
        wanted: dict[str, object] = dict(zip(MATCHED, conditions(scope), strict=False))
        named = {key for key in MATCHED if key == "tenant" or getattr(scope, key) not in (None, NO_USER)}
        # The items of NO_USER are chosen by `Query.admits`. mem0 requires an owner in a query: "*" is any owner.
        asked = {"user_id": "*"} | {key: value for key, value in wanted.items() if key in named}
        if scope.audience == "group":
            asked["audience"] = "group"
        return asked

    def _every_id(self) -> list[str]:
        return [str(one) for name in {self._collection, *self.pending.values()} for one in self._engine.ids(name)]

    def _lexical(self, query: Query, among: Iterable[str]) -> list[Hit]:
        words = terms(query.text)
        ids = iter(among)
        hits: list[Hit] = []
        while some := list(islice(ids, PORTION)):
            hits += [hit for hit in self._known(some).values() if query.admits(hit)]
        texts = [text_words(spoken(hit.text, hit.speaker)).terms for hit in hits]
        counts = {term: sum(term in text.counts for text in texts) for term in set(words)}
        length = sum(text.length for text in texts) / max(1, len(texts))
        asked = Bm25(words, Frequencies(len(texts), length, counts))
        found = [hit.scored(score) for hit, text in zip(hits, texts, strict=True) if (score := asked.score(text)) > 0]
        return sorted(found, key=lambda hit: (-(hit.score or 0.0), hit.native_id))[: query.limit]

    def neighbours(self, ids: Sequence[str], span: int) -> list[list[Hit]]:
        return [self._neighbours(native_id, span) for native_id in ids]

    def _neighbours(self, native_id: str, span: int) -> list[Hit]:
        hit = self._known([native_id]).get(native_id)
        if hit is None or hit.place is None or span < 1:
            return []
        collection = self.pending.get(native_id, self._collection)
        payload = self._engine.payloads(collection, [native_id])[native_id]
        before = self._nearby(hit, hit.place, payload, span, before=True)
        return [*reversed(before), *self._nearby(hit, hit.place, payload, span, before=False)]

    def _nearby(self, hit: Hit, place: Place, payload: Payload, span: int, *, before: bool) -> list[Hit]:
        """The ``span`` memories before or after one in its document and scope, the nearest first."""
        here = _order(place, hit.native_id)
        found: list[tuple[tuple[int, int, str], Hit]] = []
        for other_id, other in self._engine.of_document(payload, before=before):
            near = hit_of(str(other_id), other)
            if near.place is None or near.scope != hit.scope or near.place.document != place.document:
                continue
            at = _order(near.place, near.native_id)
            if len(found) >= span and at[0] != found[-1][0][0]:
                break
            if at < here if before else at > here:
                found.append((at, near))
        return [near for _, near in sorted(found, key=lambda one: one[0], reverse=before)[:span]]

    def history(self, native_id: str, scope: Scope) -> tuple[list[Change], str | None]:
        """A memory's changes, and the event that it superseded. Raises NotFound, also for another owner's memory."""
        hit = self._known([native_id]).get(native_id)
        if hit is None or not scope.admits(hit.scope):
            raise NotFound(f"mem0 has no memory {native_id!r} here")
        collection = self.pending.get(native_id, self._collection)
        [point] = self._client.retrieve(collection, ids=[native_id], with_payload=True)
        return changes_said(point.payload), point.payload.get("supersedes")

    def counts(self) -> tuple[int, int]:
        """Memories, and those of them without a vector."""
        return self._engine.count_points(), len(self.pending)

    def require_sound(self) -> None:
        """Let SQLite check the file, in any thread. Raises StoreDamaged."""
        from adapters.mem0.local import FILE

        path = self._folder / FILE
        try:
            with closing(read_only(path)) as db:
                [verdict] = db.execute("pragma quick_check(1)").fetchone()
        except sqlite3.DatabaseError as error:
            verdict = error
        if verdict != "ok":
            raise StoreDamaged(f"mem0's folder {self._folder} cannot be read; move it away: {verdict}")

    def check_some(self, after: int) -> int | None:
        """Read some memories, so that questions are answered in between; returns where to go on, None at the end.

        Raises StoreDamaged.
        """
        end = self._engine.check_some(after, PORTION)
        if end is None:
            self._engine.check_near()
        return end

    def close(self) -> None:
        if self._memory is None:
            return
        client, memory, self._memory = self._client, self._memory, None
        memory.close()
        client.close()  # mem0 does not close it, so the folder would stay locked


def _order(place: Place, native_id: str) -> tuple[int, int, str]:
    """The order of the memories of a document."""
    return place.start, place.end, native_id


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
