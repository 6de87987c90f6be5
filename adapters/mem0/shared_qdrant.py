"""Runs the mem0 library unchanged: on a Qdrant server that others share, or where mem0 itself derives the facts.

Nothing is cached here: every query goes to mem0, so memories that others have just stored are found. The connection to
a server is made at the first query, so a server that is down at the start may be up by then; a local folder has one
thread.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapters.hits import deeper
from adapters.mem0.embedded import collection_of, local_client
from adapters.mem0.library import Frugal, config, library
from adapters.mem0.options import Options
from adapters.mem0.replies import OWN, Change, changes_of, changes_said, hits_of, items_of
from adapters.qdrant.client import NEWER
from adapters.qdrant.collection_schema import Shape
from adapters.qdrant.payload import NOBODY, conditions, hit_of, is_id, payload_of
from fusion.contract import DIMENSIONS, Embedder, Event, Hit, LanguageModel, Opening, PartialHits, Query, Scope
from fusion.errors import (
    BackendError,
    BackendUnreachable,
    FusionError,
    HttpStatus,
    InvalidAnswer,
    NotFound,
)
from fusion.lib.words import spoken

if TYPE_CHECKING:
    from adapters.mem0.transport import Through
    from fusion.contract import Floats

_NOT_METADATA = frozenset({"data", "hash", "text_lemmatized", *OWN})


class Plain:
    """Every method but ``__init__`` runs on a thread of mem0's. Raises the `BackendError` that fits."""

    pending: dict[str, str] = {}  # noqa: RUF012  # nothing ever waits: without its vector it is not stored

    def __init__(self, opening: Opening, options: Options, embedder: Embedder, loop: asyncio.AbstractEventLoop) -> None:
        self._folder: Path = opening.folder
        self._options, self._embedder, self._loop = options, embedder, loop
        self._model: LanguageModel | None = opening.model
        self._collection = options.collection if options.url else collection_of(options.collection, embedder)
        self._opening = threading.Lock()
        self._memory: Any = None
        self._client: Any = None
        self._through: Through | None = None
        if options.url:
            from adapters.mem0 import transport

            self._through = transport.Through(loop, options.headers, options.timeout_ms / 1000, options.connect_s)

    def open(self) -> None:
        """A local folder is opened now, and its lock taken; a server is not asked yet."""
        if not self._options.url:
            self._opened()

    def missing(self, events: Sequence[Event]) -> list[Event]:
        """The events that are not stored yet, each once."""
        once = {event.event_id: event for event in events}
        with self._asking():
            found = self._client.retrieve(self._collection, list(once), with_payload=False)
        there = {str(point.id) for point in found}
        return [event for event_id, event in once.items() if event_id not in there]

    def store(self, events: Sequence[Event], vectors: Floats | None) -> None:
        """Raises BackendUnreachable without vectors: the delivery is tried again when the model is there."""
        if vectors is None:
            raise BackendUnreachable("the embedding model does not answer, and mem0's collection takes only vectors")
        with self._asking() as memory:
            store = memory.vector_store
            payloads = [payload_of(event) for event in events]
            store.insert(vectors=vectors.tolist(), payloads=payloads, ids=[event.event_id for event in events])

    def infer(self, event: Event) -> tuple[str, ...]:
        """Lets mem0 derive facts from an event; returns their ids. Idempotent: a retry returns the first call's ids."""
        with self._asking() as memory:
            if known := self._of_event(event.event_id):
                return tuple(known)
            payload = payload_of(event)
            whose = {key: payload[key] for key in OWN if key in payload}
            metadata = {key: value for key, value in payload.items() if key not in _NOT_METADATA} | {"inferred": True}
            message = {"role": "user", "content": spoken(event.text, event.speaker)}
            stored = items_of(memory.add([message], **whose, metadata=metadata, infer=True))
            return tuple(str(one["id"]) for one in stored if one.get("event") in ("ADD", "UPDATE"))

    def delete(self, ids: set[str]) -> bool:
        with self._asking() as memory:
            store = memory.vector_store
            inferred = [one for event_id in ids for one in self._of_event(event_id)]
            asked = [one for one in dict.fromkeys([*ids, *inferred]) if is_id(one)]
            found = [str(one.id) for one in self._client.retrieve(self._collection, asked, with_payload=False)]
            for native_id in found:
                store.delete(native_id)
            return bool(found)

    def delete_all(self, groups: Sequence[set[str]]) -> list[bool]:
        return [self.delete(ids) for ids in groups]

    def held(self, after: str, limit: int) -> list[tuple[Event, tuple[str, ...]]]:
        """None: a server also has memories of other programs."""
        return []

    def count(self) -> int | None:
        """Unknown, for the same reason."""
        return None

    def search(self, query: Query, vector: Floats | None) -> list[Hit]:
        if vector is None:
            raise BackendUnreachable("the embedding model does not answer, and mem0 searches by vectors")
        text, limit = query.text.strip(), min(query.limit, self._options.limit or query.limit)
        where = self._where(query)
        within = self._through.within(query.deadline_s) if self._through else nullcontext()
        with within, self._asking() as memory:
            memory.embedding_model.ready = {text: vector.tolist()}
            asked = limit
            while True:
                items = items_of(asked_of(memory, text, where, asked))
                hits, dropped = hits_of(items, query, self._options.tenant)
                if not (more := deeper(limit, len(hits), len(items), asked)):
                    return PartialHits(hits[:limit], dropped) if dropped else hits[:limit]
                asked = more

    def history(self, native_id: str, scope: Scope) -> tuple[list[Change], str | None]:
        """As `EmbeddedMem0.history`. mem0's own history ends with this process; then its payload is read."""
        with self._asking() as memory:
            asked = [native_id] if is_id(native_id) else []
            points = self._client.retrieve(self._collection, asked, with_payload=True) if asked else []
            payload = points[0].payload or {} if points else {}
            whose = hit_of(native_id, payload).scope
            if "event_id" not in payload:
                whose = replace(whose, tenant=self._options.tenant)
            if not points or not scope.admits(whose):
                raise NotFound(f"mem0 has no memory {native_id!r} here")
            return changes_of(memory.history(native_id)) or changes_said(payload), payload.get("supersedes")

    def counts(self) -> tuple[int, int]:
        with self._asking():
            return int(self._client.count(self._collection).count), 0

    def neighbours(self, ids: Sequence[str], span: int) -> list[list[Hit]]:
        """None: a server keeps no order of memories."""
        return [[] for _ in ids]

    def waiting(self, limit: int) -> list[Hit]:
        return []

    def move(self, ids: Sequence[str], vectors: Floats) -> None:
        """Nothing ever waits."""

    def close(self) -> None:
        memory, client, self._memory, self._client = self._memory, self._client, None, None
        if memory is not None:
            memory.close()
        if client is not None:
            client.close()
        if self._through is not None:
            self._through.shut()

    @contextmanager
    def _asking(self) -> Iterator[Any]:
        """mem0's memory, opened if needed, with its errors translated."""
        with named(self._options.url):
            yield self._opened()

    def _opened(self) -> Any:
        with self._opening:
            if self._memory is None:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                factory = library(self._folder)
                self._client = self._connected()
                try:
                    self._check()
                    store = {
                        "collection_name": self._collection,
                        "client": self._client,
                        "embedding_model_dims": self._embedder.dimensions,
                    }
                    memory = factory.from_config(config(store))
                except BaseException:
                    self._client.close()
                    raise
                memory.embedding_model.connect(self._embedder, self._loop)
                if self._model is not None:
                    memory.llm.connect(self._model, self._loop)
                self._memory = memory
            return self._memory

    def _connected(self) -> Any:
        if self._options.url:
            from qdrant_client import QdrantClient

            return QdrantClient(
                url=self._options.url, transport=self._through, trust_env=False, check_compatibility=False
            )
        return local_client(self._folder)

    def _check(self) -> None:
        """Raises HttpStatus where a server's collection is not what mem0 needs, with how to fix it."""
        if not self._options.url:
            return
        where = f"{self._options.url}: the collection {self._collection!r}"
        if not self._client.collection_exists(self._collection):
            if self._options.create:
                return
            fix = "Fix: collection = the name of one that is; or create = true, if mem0 is to make it"
            raise HttpStatus(f"{where} is not there. {fix}", 404)
        shape = Shape.of(self._client.get_collection(self._collection).model_dump(mode="json"))
        if fault := shape.fault("", self._options.dimensions or self._embedder.dimensions, "Cosine", ""):
            raise HttpStatus(f"{where} {fault}", 400)
        try:
            with named(self._options.url):
                self._client.query_points(self._collection, limit=1, with_payload=False)
        except HttpStatus as error:
            raise (HttpStatus(f"{error}. {NEWER}", 404) if error.status == 404 else error) from None

    def _where(self, query: Query) -> dict[str, str]:
        """The dimensions of the query, as stored; mem0 requires at least one owner."""
        asked = dict(zip(("tenant", *DIMENSIONS), conditions(query.scope), strict=False))
        return {"user_id": "*", **{dimension: asked[dimension] for dimension in query.scope.named()}}

    def _of_event(self, event_id: str) -> list[str]:
        """The facts that mem0 made of an event."""
        from qdrant_client.models import FieldCondition, Filter, MatchValue

        of_it = Filter(must=[FieldCondition(key="event_id", match=MatchValue(value=event_id))])
        points, _ = self._client.scroll(self._collection, scroll_filter=of_it, limit=100, with_payload=False)
        return [str(point.id) for point in points]


def asked_of(memory: Any, text: str, where: dict[str, str], limit: int) -> Any:
    """mem0's own search, called in the form of 2.x or of 1.x, which takes the user as an argument, and ``limit``."""
    if isinstance(memory.vector_store, Frugal):
        memory.vector_store.depth = limit
    if "top_k" in inspect.signature(memory.search).parameters:
        return memory.search(text, filters=where, top_k=limit, threshold=0.0)
    whose = {key: where[key] for key in OWN if where.get(key, "*") != "*"}
    rest = {key: value for key, value in where.items() if key not in OWN}
    return memory.search(text, **(whose or {"user_id": NOBODY}), limit=limit, filters=rest or None)


@contextmanager
def named(url: str) -> Iterator[None]:
    """Translate errors of the library and of Qdrant's client into the gateway's; the text quotes no header."""
    try:
        yield
    except FusionError:
        raise
    except Exception as error:  # noqa: BLE001  # each of the library's own errors ends here, under its name
        raise _fault(error, url or "mem0") from None


def _fault(error: Exception, server: str) -> BackendError:
    seen: BaseException | None = error
    while seen is not None:  # the library wraps what the client raises, and the client what our exchange raises
        if isinstance(seen, FusionError) and isinstance(seen, BackendError):
            return seen
        seen = getattr(seen, "source", None) or seen.__cause__ or seen.__context__
    return InvalidAnswer(f"{server}: mem0 failed: {type(error).__name__}")
