"""Mem0: the real ``mem0ai`` library, in process, on a local Qdrant folder.

Three things about the library shape this file (measured with mem0ai 2.2.1, qdrant-client in local mode):

- Local Qdrant is not safe under concurrency: 300 adds beside 100 searches lost 16 memories. So everything that touches
  it runs on one thread, which is the lock; `Shelf` lives there, `Mem0` is its asynchronous front.
- ``Memory.add`` gives each memory a random id, takes one event a call, and copies its text into a history database that
  no forgetting reaches. Events go through ``Memory.vector_store.insert`` instead, as the library's own batches do, in
  the library's payload and with the event id as the memory's id: a retry is an upsert, a batch is one call, 0.4 ms CPU
  an event. ``Memory.search``, ``get``, ``get_all`` and ``delete`` see them like their own.
- A filter costs local Qdrant 7 µs a point, for it is tried on each of them in Python. A condition that every stored
  memory meets is left out: where a home has one user, a search of 2,000 memories takes 5 ms instead of 24.

Vectors of two models are never in one collection: its name carries the embedder's identity. What is stored without a
vector waits in a collection of its own, is searched by its words meanwhile, and moves over when the model is there.

mem0ai's own ``nlp`` extra would make the library fetch a spaCy model; this project does not install it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import re
import sqlite3
from bisect import insort
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from hashlib import md5
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, cast
from urllib.parse import quote, unquote

from fusion.contract import (
    DIMENSIONS,
    KINDS,
    Audience,
    Captured,
    Description,
    Embedder,
    Event,
    Features,
    Forgotten,
    Hit,
    Kind,
    Moment,
    Opening,
    Origin,
    Place,
    Precision,
    Query,
    Scope,
    Trust,
    Unit,
)
from fusion.errors import FusionError, InvalidAnswer, SettingsError, StoreBusy, StoreDamaged
from fusion.lib.bm25 import Bm25, Frequencies, counted, terms
from fusion.lib.words import content_hash, spoken

if TYPE_CHECKING:
    from fusion.contract import Floats

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

NOBODY = "_shared"
"""The user of a memory that belongs to nobody: mem0 wants at least one of user, agent and run."""

UNEMBEDDED = "unembedded"
"""Stands for the model in the name of the collection whose memories have no vector yet."""

BATCH = 32
"""Memories embedded and stored in one go: searches get their turn on the thread in between."""

RRF_K = 60
"""Cormack, Clarke & Büttcher, "Reciprocal rank fusion", 2009."""

_PLAIN = re.compile(r"[^\s*_]\S*")
_MATCHED = ("tenant", "user_id", "agent_id", "run_id", "session_id")

Payload = Mapping[str, Any]


class Mem0:
    """Remembers events in mem0. The native id of a memory is its event's id.

    Option ``collection`` ("memories") begins the names of its Qdrant collections.
    """

    features = Features(filters=frozenset(DIMENSIONS), tenants=True, as_of=True, kinds=frozenset(KINDS))

    def __init__(self, shelf: Shelf, worker: ThreadPoolExecutor, embedder: Embedder | None) -> None:
        self._shelf = shelf
        self._worker = worker
        self._embedder = embedder
        self._filling: asyncio.Task[None] | None = None
        self._fault: str | None = None
        self._closed = False

    @classmethod
    def verify(cls, options: Mapping[str, object]) -> None:
        for package in ("mem0", "qdrant_client"):
            if find_spec(package) is None:
                raise SettingsError(f"the mem0 backend needs {package}: pip install 'memory-fusion[mem0]'")

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        """Raises ``SettingsError`` without mem0ai, ``StoreBusy`` when another process has the folder."""
        collection = opening.options.get("collection", "memories")
        if not isinstance(collection, str) or not re.fullmatch(r"[\w-]{1,64}", collection):
            raise SettingsError("mem0's option collection is a name of up to 64 letters, digits, - and _")
        shelf = Shelf(opening.folder, collection, opening.embedder, asyncio.get_running_loop())
        self = cls(shelf, ThreadPoolExecutor(1, f"{opening.name}-mem0"), opening.embedder)
        try:
            await self._run(shelf.open)
        except BaseException:
            self._worker.submit(shelf.close)  # behind the opening, if that still runs: it must not keep the lock
            self._worker.shutdown(wait=False)
            raise
        self._fill()
        return self

    async def search(self, query: Query) -> Sequence[Hit]:
        if not query.text.strip() or query.limit < 1:
            return []
        vector = None
        if self._embedder is not None:
            try:
                vector = (await self._embedder.embed([query.text], keep=False))[0]
            except FusionError as error:  # without the model everything works lexically
                self._fail(error)
        return await self._run(self._shelf.search, query, vector)

    def accepts(self, event: Event) -> bool:
        """Blank memories are refused: mem0 itself leaves them out of every answer."""
        return bool(event.text.strip())

    async def remember(self, batch: Sequence[Captured]) -> Sequence[tuple[str, ...]]:
        events = [captured.event for captured in batch]
        for start in range(0, len(events), BATCH):
            new = await self._run(self._shelf.missing, events[start : start + BATCH])
            if new:
                vectors = await self._embed([spoken(event.text, event.speaker) for event in new])
                await self._run(self._shelf.store, new, vectors)
        self._fill()
        return [(event.event_id,) for event in events]

    async def forget(self, event_id: str, native_ids: Sequence[str]) -> Forgotten:
        return "deleted" if await self._run(self._shelf.delete, {event_id, *native_ids}) else "absent"

    async def neighbours(self, hits: Sequence[Hit], span: int) -> Sequence[Sequence[Hit]]:
        return await self._run(self._shelf.neighbours, [hit.native_id for hit in hits], span)

    async def describe(self) -> Description:
        items, pending = await self._run(self._shelf.counts)
        notes = []
        if self._embedder is None:
            notes.append(
                "No embedding model: mem0 is searched by words only, and what is stored now gets its vectors "
                "when the model is there. Mend: configure [embedder]."
            )
        elif pending and self._fault:
            notes.append(f"{pending} memories wait for their vectors and are found by their words only: {self._fault}")
        return Description(items, items - pending, pending, tuple(notes), self._fault is not None)

    async def settle(self) -> None:
        """Raises what keeps the vectors from filling in."""
        self._fill()
        if self._filling is not None:
            await asyncio.shield(self._filling)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._filling is not None:
            self._filling.cancel()
            with contextlib.suppress(asyncio.CancelledError, FusionError):
                await self._filling
        await self._run(self._shelf.close)
        self._worker.shutdown(wait=False)

    async def _run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """``work`` on the one thread. Given up before its turn it is not done; given up later it is done to its end."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, lambda: work(*args, **kwargs))

    async def _embed(self, texts: Sequence[str]) -> Floats | None:
        """Vectors, or ``None`` while there is no model: then the memories wait for theirs."""
        if self._embedder is None:
            return None
        try:
            vectors = await self._embedder.embed(texts)
        except FusionError as error:
            self._fail(error)
            return None
        self._fault = None
        return vectors

    def _fail(self, error: FusionError) -> None:
        if self._fault is None:
            log.warning("mem0 works by words only: %s", error)
        self._fault = str(error)

    def _fill(self) -> None:
        """Starts giving vectors to what has none, unless that is under way or there is nothing to do."""
        if self._embedder is None or self._closed or not self._shelf.pending:
            return
        if self._filling is None or self._filling.done():
            self._filling = asyncio.create_task(self._fill_in(self._embedder), name="mem0: vectors")
            self._filling.add_done_callback(_retrieve)

    async def _fill_in(self, embedder: Embedder) -> None:
        while waiting := await self._run(self._shelf.waiting, BATCH):
            try:
                vectors = await embedder.embed([spoken(hit.text, hit.speaker) for hit in waiting])
            except FusionError as error:
                self._fail(error)
                raise
            await self._run(self._shelf.move, [hit.native_id for hit in waiting], vectors)
        self._fault = None


def _retrieve(task: asyncio.Task[None]) -> None:
    """Its error was logged and stands in the description: nobody needs to hear of it again."""
    if not task.cancelled():
        task.exception()


class Shelf:
    """mem0 and the Qdrant folder under it. Every method but ``__init__`` runs on one and the same thread."""

    def __init__(
        self, folder: Path, collection: str, embedder: Embedder | None, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._folder = folder
        self._prefix = f"{collection}-"
        self._embedder = embedder
        self._loop = loop
        self._memory: Any = None
        self._dirty = False
        self._hits: dict[str, Hit] = {}
        self._documents: dict[tuple[Scope, str], list[tuple[int, int, str]]] = {}
        self._scopes: Counter[tuple[str, ...]] = Counter()
        self.pending: dict[str, str] = {}
        """Memories without a vector of the present model, and the collection that each is in."""

    @property
    def _collection(self) -> str:
        """Names the model, readably and beyond doubt."""
        if self._embedder is None:
            return self._prefix + UNEMBEDDED
        identity = self._embedder.identity
        return f"{self._prefix}{re.sub(r'[^A-Za-z0-9]+', '-', identity)[:40].strip('-')}-{content_hash(identity)[:8]}"

    @property
    def _client(self) -> Any:
        return self._memory.vector_store.client

    def open(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _require_free(self._folder / "qdrant" / ".lock")
        memory_class = _library(self._folder)
        dimensions = self._embedder.dimensions if self._embedder else 1
        store = {
            "collection_name": self._collection,
            "path": str(self._folder / "qdrant"),
            "embedding_model_dims": dimensions,
            "on_disk": True,
        }
        config = {
            "vector_store": {"provider": "qdrant", "config": store},
            "embedder": {"provider": "langchain", "config": {}},
            "llm": {"provider": "langchain", "config": {}},
            "history_db_path": ":memory:",  # the journal is the history; a copy here would outlive a forgotten event
        }
        try:
            self._memory = memory_class.from_config(config)
        except RuntimeError as error:
            raise StoreBusy(f"mem0 cannot open its folder: {error}") from error
        except (ValueError, KeyError, sqlite3.DatabaseError) as error:
            raise StoreDamaged(f"mem0's folder {self._folder} cannot be read; move it away: {error}") from error
        self._memory.embedding_model.connect(self._embedder, self._loop)
        self._memory.vector_store = Frugal(self._memory.vector_store)
        names = {c.name for c in self._client.get_collections().collections if c.name.startswith(self._prefix)}
        for collection in (self._collection, *sorted(names - {self._collection})):
            self._load(collection)

    def _load(self, collection: str) -> None:
        """Learns what a collection has. What another model embedded, or none, waits for a vector of this one."""
        count = self._client.count(collection).count
        points, _ = self._client.scroll(collection, limit=max(1, count), with_payload=True, with_vectors=False)
        stale = []
        for point in points:
            native_id = str(point.id)
            if native_id in self._hits:  # it was on its way to the present collection when the process ended
                stale.append(native_id)
                continue
            self._learn(native_id, hit_of(native_id, point.payload or {}))
            if collection != self._collection or self._embedder is None:
                self.pending[native_id] = collection
        if stale:
            self._client.delete(collection, points_selector=stale)

    def _learn(self, native_id: str, hit: Hit) -> None:
        self._hits[native_id] = hit
        self._scopes[_conditions(hit.scope)] += 1
        if hit.place is not None:
            document = self._documents.setdefault((hit.scope, hit.place.document), [])
            insort(document, (hit.place.start, hit.place.end, native_id))

    def missing(self, events: Sequence[Event]) -> list[Event]:
        """Those that are not stored yet, each once."""
        return list({event.event_id: event for event in events if event.event_id not in self._hits}.values())

    def store(self, events: Sequence[Event], vectors: Floats | None) -> None:
        rows = [row for row, event in enumerate(events) if event.event_id not in self._hits]
        if not rows:  # another delivery of the same events was quicker
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
        """Keeps memories in the collection that has no vectors: one number each, for Qdrant wants something."""
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
        """Brings memories, with their new vectors, to where mem0 searches. What was forgotten meanwhile stays away."""
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

    def delete(self, ids: set[str]) -> bool:
        known = [native_id for native_id in ids if native_id in self._hits]
        for native_id in known:
            hit = self._hits.pop(native_id)
            if (source := self.pending.pop(native_id, None)) is not None:
                self._client.delete(source, points_selector=[native_id])
            else:
                self._memory.vector_store.delete(native_id)
            self._dirty = True
            self._scopes -= Counter([_conditions(hit.scope)])
            if hit.place is not None:
                entry = (hit.place.start, hit.place.end, native_id)
                self._documents[hit.scope, hit.place.document].remove(entry)
        return bool(known)

    def search(self, query: Query, vector: Floats | None) -> list[Hit]:
        """mem0's own search; what has no vector is found by its words, and the two lists are merged by rank."""
        if vector is None:
            return self._lexical(query, self._hits)
        near = self._semantic(query, vector)
        if not self.pending:
            return near
        merged = [
            replace(hit, score=1 / (RRF_K + rank))
            for found in (near, self._lexical(query, self.pending))
            for rank, hit in enumerate(found, start=1)
        ]
        return sorted(merged, key=lambda hit: -(hit.score or 0.0))[: query.limit]

    def _semantic(self, query: Query, vector: Floats) -> list[Hit]:
        """By vector, as deep as it takes: what a time hides, which mem0 does not filter by, uses up no limit."""
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
            found = [replace(hit, score=score) for hit, score in known if visible(hit, query)]
            if len(found) >= query.limit or len(ranked) < depth:
                return found[: query.limit]
            depth *= 4

    def _filters(self, scope: Scope) -> dict[str, object]:
        """The scope as mem0's filters, less what every stored memory meets anyway."""
        asked: dict[str, object] = {"user_id": "*"}  # mem0 wants to be asked for somebody; this asks for anybody
        wanted = _conditions(scope)
        for position, key in enumerate(_MATCHED):
            named = key == "tenant" or getattr(scope, key) is not None
            if named and any(stored[position] != wanted[position] for stored in self._scopes):
                asked[key] = wanted[position]
        if scope.audience == "group" and any(stored[-1] != "group" for stored in self._scopes):
            asked["audience"] = "group"
        return asked

    def _lexical(self, query: Query, among: Mapping[str, object]) -> list[Hit]:
        words = terms(query.text)
        hits = [hit for native_id in among if visible(hit := self._hits[native_id], query)]
        texts = [counted(spoken(hit.text, hit.speaker)) for hit in hits]
        counts = {term: sum(term in text.counts for text in texts) for term in set(words)}
        length = sum(text.length for text in texts) / max(1, len(texts))
        asked = Bm25(words, Frequencies(len(texts), length, counts))
        found = [
            replace(hit, score=score) for hit, text in zip(hits, texts, strict=True) if (score := asked.score(text)) > 0
        ]
        return sorted(found, key=lambda hit: (-(hit.score or 0.0), hit.native_id))[: query.limit]

    def neighbours(self, ids: Sequence[str], span: int) -> list[list[Hit]]:
        return [self._beside(native_id, span) for native_id in ids]

    def _beside(self, native_id: str, span: int) -> list[Hit]:
        hit = self._hits.get(native_id)
        if hit is None or hit.place is None:
            return []
        document = self._documents[hit.scope, hit.place.document]
        here = document.index((hit.place.start, hit.place.end, native_id))
        near = document[max(0, here - span) : here] + document[here + 1 : here + 1 + span]
        return [self._hits[other] for *_, other in near]

    def counts(self) -> tuple[int, int]:
        """Memories, and those of them without a vector."""
        return len(self._hits), len(self.pending)

    def close(self) -> None:
        if self._memory is None:
            return
        client, memory, self._memory = self._client, self._memory, None
        if self._dirty:
            for file in self._folder.glob("qdrant/collection/*/storage.sqlite"):
                _scrub(file)
        memory.close()
        client.close()  # mem0 leaves it open, and with it the folder's lock


def _require_free(lock: Path) -> None:
    """Asks before Qdrant does: it takes its lock last, and leaves its files open when it is refused."""
    if not lock.exists():
        return
    with lock.open() as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StoreBusy(f"mem0's folder {lock.parent} is open in another process") from error


def _scrub(file: Path) -> None:
    """SQLite leaves what was deleted in its file's free pages; rewriting it removes the forgotten for good."""
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute("VACUUM")


class Bridge:
    """mem0's embedding model: hands it vectors of ours. It calls on the shelf's thread, never on the loop's."""

    def __init__(self, config: object = None) -> None:
        self.config = config
        self.ready: Mapping[str, list[float]] = {}
        self._embedder: Embedder | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def connect(self, embedder: Embedder | None, loop: asyncio.AbstractEventLoop) -> None:
        self._embedder, self._loop = embedder, loop

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        """The vector that was made ready; for a text that only mem0 knows of, the embedder is asked."""
        if (vector := self.ready.get(text)) is not None:
            return vector
        if self._embedder is None or self._loop is None:
            raise InvalidAnswer("mem0 asked for a vector, and there is no embedding model")
        vectors = asyncio.run_coroutine_threadsafe(self._embedder.embed([text], keep=False), self._loop).result()
        return cast("list[float]", vectors[0].tolist())

    def embed_batch(self, texts: Sequence[str], memory_action: str | None = None) -> list[list[float]]:
        return [self.embed(text, memory_action) for text in texts]


class NoModel:
    """mem0's language model: none. Events are stored as they are, so nothing is ever asked of it."""

    def __init__(self, config: object = None) -> None:
        self.config = config

    def generate_response(self, *_: object, **__: object) -> str:
        raise InvalidAnswer("mem0 asked for a language model, and none is configured")


class Frugal:
    """mem0's store, searched no deeper than ``depth``.

    mem0 asks for four times what it is asked for, to order that anew by keywords and entities. A store without these,
    as ours is, gives the same first ones; and to copy 400 payloads was most of what a search cost.
    """

    def __init__(self, store: Any) -> None:
        self._store = store
        self.depth = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def search(self, query: str, vectors: list[float], top_k: int = 5, filters: Any = None) -> Any:
        return self._store.search(query, vectors, top_k=min(top_k, self.depth or top_k), filters=filters)


def _library(folder: Path) -> Any:
    """mem0's ``Memory``, silenced. Imported late: it takes 0.7 s of CPU.

    mem0 reads these variables once, when it is imported; where others imported it before, its switches are turned.
    The names of its providers are fixed, so ours stand under one of them: "langchain" needs no server and no key.
    """
    os.environ["MEM0_TELEMETRY"] = "False"
    os.environ["MEM0_DIR"] = str(folder / "mem0")
    try:
        from mem0.configs.llms.base import BaseLlmConfig
        from mem0.memory import main, telemetry
        from mem0.utils.factory import EmbedderFactory, LlmFactory
    except ImportError as error:
        raise SettingsError("the mem0 backend needs mem0ai: pip install 'memory-fusion[mem0]'") from error
    main.MEM0_TELEMETRY = telemetry.MEM0_TELEMETRY = False
    # That its optional parts are missing (spaCy, fastembed) is as intended, and not worth two warnings a start.
    logging.getLogger("mem0").setLevel(logging.ERROR)
    EmbedderFactory.provider_to_class["langchain"] = f"{__name__}.Bridge"
    LlmFactory.provider_to_class["langchain"] = (f"{__name__}.NoModel", BaseLlmConfig)
    return main.Memory


def visible(hit: Hit, query: Query) -> bool:
    """Whether a memory is in the query's scope, and was true and recorded when the query says."""
    if not query.scope.admits(hit.scope):
        return False
    if query.known_at is not None and hit.recorded_at is not None and hit.recorded_at > query.known_at:
        return False
    if query.as_of is None:
        return True
    began = hit.valid_from or (hit.at.utc if hit.at else hit.recorded_at)
    return (began is None or began <= query.as_of) and (hit.valid_to is None or hit.valid_to > query.as_of)


# An event as mem0 keeps it, and back


def _encoded(value: str | None) -> str:
    """An id as mem0 takes it: no blanks, and neither its wildcard nor our own word for nobody. Reversible."""
    if value is None:
        return NOBODY
    return value if _PLAIN.fullmatch(value) else "_" + quote(value, safe="", errors="surrogatepass")


def _given(value: str | None) -> str | None:
    return None if value is None else _encoded(value)


def _decoded(value: str | None) -> str | None:
    if value is None or value == NOBODY:
        return None
    return unquote(value[1:], errors="surrogatepass") if value.startswith("_") else value


def _conditions(scope: Scope) -> tuple[str, ...]:
    """What a search compares: the encoded ids in the order of ``_MATCHED``, then the audience."""
    return (*(_encoded(getattr(scope, key)) for key in _MATCHED), scope.audience)


def payload_of(event: Event) -> dict[str, Any]:
    """An event in mem0's payload: its own keys first, then what only the gateway reads."""
    recorded = event.recorded_at.isoformat()
    scope, at, place = event.scope, event.at, event.place
    nobody = scope.user_id is scope.agent_id is scope.run_id is None
    payload: dict[str, Any] = {
        "data": event.text,
        "hash": md5(event.text.encode("utf-8", "replace"), usedforsecurity=False).hexdigest(),
        "created_at": recorded,
        "updated_at": recorded,
        "text_lemmatized": event.text,
        "actor_id": event.speaker,
        "user_id": NOBODY if nobody else _given(scope.user_id),
        "agent_id": _given(scope.agent_id),
        "run_id": _given(scope.run_id),
        "event_id": event.event_id,
        "tenant": _encoded(scope.tenant),
        "session_id": _given(scope.session_id),
        "project": scope.project,
        "audience": scope.audience,
        "kind": event.kind,
        "raw_kind": event.raw_kind,
        "at": at and at.utc.isoformat(),
        "at_precision": at and at.precision,
        "at_zone": at and at.zone,
        "document": place and place.document,
        "start": place and place.start,
        "end": place and place.end,
        "unit": place and place.unit,
        "source": event.source,
        "revision": event.revision or None,
        "trust": event.trust,
        "origin": event.origin,
        "valid_from": event.valid_from and event.valid_from.isoformat(),
        "valid_to": event.valid_to and event.valid_to.isoformat(),
        "supersedes": event.supersedes,
        "derived_from": list(event.derived_from) or None,
    }
    return {key: value for key, value in payload.items() if value is not None}


def hit_of(native_id: str, payload: Payload) -> Hit:
    """A payload as the hit that it will be, without a score. What is not ours has mem0's own keys only."""
    get = payload.get
    ours = "event_id" in payload
    ids = {key: _decoded(get(key)) if ours else get(key) for key in DIMENSIONS}
    at = _time(get("at"))
    return Hit(
        native_id=native_id,
        event_id=get("event_id"),
        text=get("data", ""),
        scope=Scope(
            **ids,
            tenant=_decoded(get("tenant")) or "default",
            project=get("project"),
            audience=cast("Audience", get("audience", "group")),
        ),
        kind=cast("Kind", get("kind", "note")),
        raw_kind=get("raw_kind"),
        speaker=get("actor_id"),
        at=Moment(at, cast("Precision", get("at_precision", "second")), get("at_zone")) if at else None,
        recorded_at=_time(get("created_at")),
        valid_from=_time(get("valid_from")),
        valid_to=_time(get("valid_to")),
        place=_place(payload) if "document" in payload else None,
        trust=cast("Trust", get("trust", "unknown")),
        origin=cast("Origin", get("origin", "owner")),
        derived_from=tuple(get("derived_from", ())),
    )


def _place(payload: Payload) -> Place:
    return Place(payload["document"], payload["start"], payload["end"], cast("Unit", payload["unit"]))


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
