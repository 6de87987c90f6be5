"""Stores the gateway's own memories on a Qdrant server, for more than one machine.

A collection has a dense vector of the embedder's and a sparse one of the words (`adapters.qdrant.sparse`); a point is a
memory, its id the event's, its payload that of `adapters.qdrant.payload`. Vectors of two models are never in one
collection, for its name carries the model's identity: with another model there is a new one, which the memories of the
old are copied into. The old one stays, as another gateway may be using it; delete it if none does.
A forgotten memory is deleted from both. A memory stored while the model is unavailable has no dense vector: its words
find it, and the vector is computed in the background.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from adapters.hits import deeper, read_each
from adapters.index.backfill import Backfill
from adapters.index.encode import BestEffortEmbedding, memory_vectors
from adapters.options import FULL_FEATURES, read, verified
from adapters.qdrant import sparse
from adapters.qdrant.client import NEWER, Client
from adapters.qdrant.collection import note
from adapters.qdrant.collection_schema import Shape
from adapters.qdrant.options import Ours
from adapters.qdrant.payload import NOBODY, conditions, hit_of, is_id, payload_of
from adapters.qdrant.query import matching, question
from fusion.contract import (
    DIMENSIONS,
    Description,
    Embedder,
    Event,
    Extracted,
    Forgotten,
    Hit,
    Opening,
    PartialHits,
    Query,
    Scope,
    Where,
)
from fusion.errors import BackendError, HttpStatus
from fusion.lib.words import content_hash, spoken

DENSE, WORDS = "dense", "bm25"
KEYWORDS = ("tenant", *DIMENSIONS)
INDEXED = {
    **dict.fromkeys((*KEYWORDS, "audience", "document"), "keyword"),
    **dict.fromkeys(("began", "created_at", "valid_to"), "datetime"),
    "start": "integer",
}
"""the payload keys for filters and for the order of neighbours"""
WRITE_S, NEIGHBOURS_S = 30.0, 5.0
PAGE = 64
"""points read, embedded and written at once"""
LOOKED_AT = 1000
"""points of another model's collection that are looked for here at once"""
UNEMBEDDED = {"must_not": [{"has_vector": DENSE}]}


class Qdrant:
    """Remembers events in a collection of its own. The native id of a memory is its event's id."""

    features = replace(FULL_FEATURES, no_user=False)

    def __init__(self, client: Client, options: Ours, embedder: Embedder | None) -> None:
        self._client, self._options, self._embedder = client, options, embedder
        self._name = collection_of(options.collection, embedder)
        self._preparing = asyncio.Lock()
        self._ready = False
        self._backfill = Backfill(f"qdrant: {self._name}", self._fill)
        self._embedding = BestEffortEmbedding("Qdrant")
        self._closed = False

    @classmethod
    def verify(cls, options: Mapping[str, object]) -> str:
        """The options are right and the key that they name is there; the rest its description says."""
        return verified(Ours, options).reached()

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        """Does not wait for the server: one that is down now may be up at the first question."""
        options = of_tenant(read(Ours, opening), opening.tenant)
        self = cls(options.client(f"wait=true&ordering={options.ordering}"), options, opening.embedder)
        self._backfill.start()
        return self

    async def search(self, query: Query) -> Sequence[Hit]:
        if query.limit < 1 or not query.text.strip():
            return []
        words = sparse.of_question(query.text)
        by_words = (WORDS, words) if words["indices"] else None
        vector = await self._embedding.query_vector(self._embedder, query.text)
        by_vector = None if vector is None else (DENSE, vector.tolist())
        until = asyncio.get_running_loop().time() + query.deadline_s
        asked = query.limit
        while True:  # Qdrant does not know all of a filter: others may take the places
            body = question(by_vector, by_words, where(query), asked, self._options.merge)
            if body is None:
                return []
            points = await self._found(body, max(until - asyncio.get_running_loop().time(), 0.001))
            hits, dropped = hits_of_points(points)
            seen = [hit for hit in hits if query.admits(hit)][: query.limit]
            more = deeper(query.limit, len(seen), len(points), asked) if query.where else 0
            if not more:
                return PartialHits(seen, dropped) if dropped else seen
            asked = more

    async def _found(self, body: Mapping[str, Any], deadline_s: float) -> Sequence[Any]:
        """The points of a search; none before anything was remembered."""
        try:
            return await self._client.query(self._name, body, deadline_s)
        except HttpStatus as error:
            if error.status != 404:
                raise
            if await self._client.info(self._name, deadline_s) is not None:
                raise HttpStatus(f"{error}. {NEWER}", 404) from None
            if not self._ready:
                return []  # nothing was ever remembered
            raise self._gone() from None

    def accepts(self, event: Event) -> bool:
        """Blank memories are refused: nothing finds them."""
        return bool(event.text.strip())

    async def remember(self, batch: Sequence[Extracted]) -> Sequence[tuple[str, ...]]:
        events = [extracted.event for extracted in batch]
        if events:
            await self._prepare()
        try:
            await self._store(events)
        except HttpStatus:
            self._ready = False  # the collection may be gone, or another by now; the next delivery looks
            raise
        self._backfill.start()
        return [(event.event_id,) for event in events]

    async def _store(self, events: Sequence[Event]) -> None:
        """Store the new ones of these events; those of a retried delivery keep their vectors."""
        for start in range(0, len(events), PAGE):
            asked = {event.event_id: event for event in events[start : start + PAGE]}
            there = await self._client.present(self._name, list(asked), WRITE_S)
            page = [event for one, event in asked.items() if one not in there]
            if not page:
                continue
            texts = [spoken(event.text, event.speaker) for event in page]
            made = await self._embedding.vectors(self._embedder, [(event.text, event.speaker) for event in page])
            vectors = [None] * len(page) if made is None else made.tolist()
            points = [
                {"id": event.event_id, "vector": vectors_in(text, vector), "payload": stored(event)}
                for event, text, vector in zip(page, texts, vectors, strict=True)
            ]
            await self._client.upsert(self._name, points, WRITE_S)

    async def forget(self, event_id: str, native_ids: Sequence[str]) -> Forgotten:
        ids = [one for one in dict.fromkeys((event_id, *native_ids)) if is_id(one)]
        await self._prepare()
        found = False
        for name in (self._name, *await self._others(WRITE_S)) if ids else ():
            if present := await self._client.present(name, ids, WRITE_S):
                await self._client.delete(name, present, WRITE_S)
                found = True
        return "deleted" if found else "absent"

    async def neighbours(self, hits: Sequence[Hit], span: int) -> Sequence[Sequence[Hit]]:
        """The neighbours in the same document and scope, by place; one request for all hits."""
        placed = [hit for hit in hits if hit.place is not None]
        if not placed or span < 1:
            return [[] for _ in hits]
        bodies = [side for hit in placed for side in neighbour_filters(hit, span)]
        found = await self._client.query_each(self._name, bodies, NEIGHBOURS_S)
        near = iter([before + after for before, after in zip(found[::2], found[1::2], strict=True)])
        return [nearest(hit, next(near), span) if hit.place is not None else [] for hit in hits]

    async def describe(self) -> Description:
        """Count the memories and those without a vector; report faults with the fix."""
        notes, describe_s = [], self._options.describe_s
        if self._embedder is None:
            notes.append("No embedding model: Qdrant is searched by words only. Fix: configure [embedder].")
        try:
            info = await self._client.info(self._name, describe_s)
            if info is None and self._ready:
                raise self._gone()
            if info is None:
                return Description(notes=tuple(notes))
            self._check(info)
            await self._client.require_search(self._name, describe_s)
            others = await self._others(describe_s)
            items = await self._client.count(self._name, None, describe_s)
            pending = await self._client.count(self._name, UNEMBEDDED, describe_s) if self._embedder else items
        except BackendError as error:
            return Description(notes=(*notes, note(error, self._options.url)), degraded=True)
        if others:
            fix = "Fix: delete what no gateway uses any more"
            notes.append(f"Copied from another model's collection, which is left as it is: {', '.join(others)}. {fix}.")
        if fault := self._embedding.fault or (pending and self._backfill.error):
            notes.append(f"{pending} memories wait for their vectors and are found by their words only: {fault}")
        return Description(items, items - pending, pending, tuple(notes), bool(fault))

    async def settle(self) -> None:
        """Raises the error that prevents computing the vectors."""
        await self._backfill.settle()
        if self._backfill.error is not None:
            raise self._backfill.error

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._backfill.close()
        await self._client.close()

    # The collection

    async def _prepare(self) -> None:
        """Create the collection if needed, and copy the memories of another model's collection. Done once."""
        async with self._preparing:
            if self._ready:
                return
            info = await self._client.info(self._name, WRITE_S)
            if info is None:
                await self._create()
            else:
                self._check(info)
                await self._index(info.get("payload_schema") or {})
            for other in await self._others(WRITE_S):
                await self._copy(other)
            self._ready = True

    async def _others(self, deadline_s: float) -> list[str]:
        """The collections of this name that are of another model: an older one, or another gateway's."""
        ours = re.compile(rf"{self._options.collection}\.[\w-]+\.[0-9a-f]{{8}}")
        names = await self._client.collections(deadline_s)
        return sorted(name for name in names if name != self._name and ours.fullmatch(name))

    def _gone(self) -> HttpStatus:
        fix = 'Fix: collection = "another name", which the memories of the journal are brought into'
        return HttpStatus(f"{self._client.server}: the collection {self._name!r} is gone. {fix}", 404)

    async def _create(self) -> None:
        options = self._options
        dimensions = self._embedder.dimensions if self._embedder else 1
        body = {
            "vectors": {DENSE: {"size": dimensions, "distance": "Cosine", "on_disk": options.on_disk}},
            "sparse_vectors": {WORDS: {"modifier": "idf"}},
            "shard_number": options.shards,
            "replication_factor": options.replicas,
            "write_consistency_factor": options.write_consistency,
        }
        if await self._client.create(self._name, body, WRITE_S):
            await self._index({})

    async def _index(self, there: Mapping[str, Any]) -> None:
        """Create the payload indexes that are not ``there`` yet: an older gateway created fewer."""
        for field, schema in INDEXED.items():
            if field not in there:
                await self._client.index(self._name, field, schema, WRITE_S)

    def _check(self, info: Mapping[str, Any]) -> None:
        """Raises HttpStatus if the collection was changed and cannot be used."""
        dimensions = self._embedder.dimensions if self._embedder else 1
        shape = Shape.of(info)
        fault = shape.fault(DENSE, dimensions, "Cosine", WORDS)
        if not fault and not shape.sparse[WORDS]:
            fault = f"does not weigh {WORDS!r} by idf"
        if fault:
            fault = fault.partition(" Fix:")[0]
            fix = 'Fix: collection = "another name", which the memories of the journal are brought into'
            raise HttpStatus(f"{self._client.server}: the collection {self._name!r} {fault}. {fix}", 400)

    async def _copy(self, other: str) -> None:
        """Brings the memories of another model's collection here that are not, without its vectors."""
        ids_only: dict[str, object] = {"limit": LOOKED_AT, "with_payload": False, "with_vector": False}
        offset: object = None
        while True:
            points, offset = await self._client.scroll(
                other, ids_only | ({"offset": offset} if offset else {}), WRITE_S
            )
            ids = [str(point["id"]) for point in points]
            there = set(await self._client.present(self._name, ids, WRITE_S)) if ids else set()
            new = [id_ for id_ in ids if id_ not in there]
            for start in range(0, len(new), PAGE):
                these = {"must": [{"has_id": new[start : start + PAGE]}]}
                whole = {"limit": PAGE, "filter": these, "with_payload": True, "with_vector": [WORDS]}
                found, _ = await self._client.scroll(other, whole, WRITE_S)
                if found:
                    await self._client.upsert(self._name, [_without_vector(point) for point in found], WRITE_S)
            if offset is None:
                break

    # Vectors

    async def _fill(self) -> bool:
        """Copies what another model's collection has, then gives vectors to what has none."""
        names = await self._client.collections(WRITE_S)
        if not any(name.startswith(f"{self._options.collection}.") for name in names):
            return False
        await self._prepare()
        if self._embedder is None:
            return False
        body = {"limit": PAGE, "with_payload": True, "with_vector": False, "filter": UNEMBEDDED}
        while points := (await self._client.scroll(self._name, body, WRITE_S))[0]:
            said = [(point["payload"]["data"], point["payload"].get("actor_id")) for point in points]
            vectors = await memory_vectors(self._embedder, said)
            self._embedding.fault = None
            await self._give(
                [{"id": p["id"], "vector": {DENSE: v}} for p, v in zip(points, vectors.tolist(), strict=True)]
            )
        return False

    async def _give(self, points: Sequence[Mapping[str, Any]]) -> None:
        """Store vectors. Points that have been forgotten are left out."""
        try:
            await self._client.set_vectors(self._name, points, WRITE_S)
        except HttpStatus as error:
            if error.status not in (400, 404):
                raise
            there = set(await self._client.present(self._name, [str(point["id"]) for point in points], WRITE_S))
            left = [point for point in points if str(point["id"]) in there]
            if len(left) == len(points):
                raise
            if left:
                await self._give(left)


def of_tenant(options: Ours, tenant: str) -> Ours:
    """The options for a tenant: its memories are in a collection of their own, for Qdrant counts how rare a word is
    over the whole of a collection, regardless of a query's filter."""
    if tenant == Scope().tenant:
        return options
    prefix = options.collection[:40]
    whose = tenant if prefix == options.collection else f"{options.collection}\0{tenant}"
    return replace(options, collection=f"{prefix}-t{content_hash(whose)[:16]}")


def collection_of(prefix: str, embedder: Embedder | None) -> str:
    """The name of a collection, with its model in it, readably and beyond doubt."""
    identity = embedder.identity if embedder else "none"
    slug = re.sub(r"[^A-Za-z0-9]+", "-", identity)[:40].strip("-") or "model"
    return f"{prefix}.{slug}.{content_hash(identity)[:8]}"


def stored(event: Event) -> dict[str, Any]:
    """An event's payload; ``began`` is since when it holds, which questions of the past are filtered by."""
    return {**payload_of(event), "began": event.began.isoformat()}


def vectors_in(text: str, vector: list[float] | None) -> dict[str, Any]:
    return {WORDS: sparse.of_memory(text), **({DENSE: vector} if vector is not None else {})}


def where(query: Query) -> list[Mapping[str, Any]]:
    """The scope, the filter and the times of a query as Qdrant's conditions."""
    scope = query.scope
    asked = dict(zip(KEYWORDS, conditions(scope), strict=False))
    found = [matching(key, asked[key]) for key in KEYWORDS if key == "tenant" or getattr(scope, key) is not None]
    if scope.audience == "group":
        found.append(matching("audience", "group"))
    if query.known_at is not None:
        found.append({"key": "created_at", "range": {"lte": query.known_at.isoformat()}})
    if query.as_of is not None:
        found.append({"key": "began", "range": {"lte": query.as_of.isoformat()}})
    found += _fitting(query.where)
    ended = {"key": "valid_to", "range": {"lte": (query.as_of or query.now).isoformat()}}
    found.append({"must_not": [ended]})
    return found


def _fitting(asked: Where) -> list[Mapping[str, Any]]:
    """Conditions that a point meets if it fits a filter by kind and time; what has no place or speaker is left out.

    They are not sufficient, because Qdrant compares texts by case: `Where.admits` decides.
    """
    found: list[Mapping[str, Any]] = []
    if asked.kind:
        there = {"key": "kind", "match": {"any": list(asked.kind)}}
        found.append({"should": [there, {"is_empty": {"key": "kind"}}]} if "note" in asked.kind else there)
    times = {name: at.isoformat() for name, at in (("gte", asked.after), ("lt", asked.before)) if at is not None}
    if times:
        recorded = [{"is_empty": {"key": "at"}}, {"key": "created_at", "range": times}]
        found.append({"should": [{"key": "at", "range": times}, {"must": recorded}]})
    found += [
        {"must_not": [{"is_empty": {"key": key}}]}
        for key, among in (("document", asked.folder), ("actor_id", asked.speaker))
        if among
    ]
    return found


def neighbour_filters(hit: Hit, span: int) -> list[Mapping[str, Any]]:
    """The requests for the memories before a hit in its document and for those after it, nearest first.

    Memories that begin at the same position may be on either side, so both requests return them.
    """
    place, scope = hit.place, hit.scope
    if place is None:
        raise ValueError("a hit without a place has no neighbours")
    encoded = dict(zip(KEYWORDS, conditions(scope), strict=False))
    same = [matching("document", place.document), matching("unit", place.unit), matching("audience", scope.audience)]
    for key in KEYWORDS:
        if key == "tenant" or getattr(scope, key) is not None:
            same.append(matching(key, encoded[key]))
        else:
            same.append({"should": [{"is_empty": {"key": key}}, matching(key, NOBODY)]})
    return [
        {
            "query": {"order_by": {"key": "start", "direction": direction}},
            "filter": {
                "must": [*same, {"key": "start", "range": {side: place.start}}],
                "must_not": [{"has_id": [hit.native_id]}],
            },
            "limit": span,
            "with_payload": True,
        }
        for side, direction in (("lte", "desc"), ("gte", "asc"))
    ]


def nearest(hit: Hit, points: Sequence[Any], span: int) -> list[Hit]:
    """The neighbours of ``hit`` among ``points``: at most ``span`` before and after it, in document order."""
    found, _ = hits_of_points(points)
    same = {other.native_id: other.scored(None) for other in found if other.place and other.scope == hit.scope}
    order = sorted(same.values(), key=_position)
    here = sum(_position(other) < _position(hit) for other in order)
    return [*order[max(0, here - span) : here], *order[here : here + span]]


def _position(hit: Hit) -> tuple[int, int, str]:
    place = hit.place
    return (place.start, place.end, hit.native_id) if place else (0, 0, hit.native_id)


def hits_of_points(points: Sequence[Any]) -> tuple[list[Hit], int]:
    """Points as hits, and the number of invalid points. Raises InvalidAnswer if all are invalid."""
    return read_each(points, _hit, "none of {} points is a memory of this gateway's")


def _hit(point: Any) -> Hit:
    hit = hit_of(str(point["id"]), point["payload"])
    if not hit.text or hit.event_id is None:
        raise ValueError("a memory has a text and an event")
    hit.score = point.get("score")  # the hit is new and not shared yet
    return hit


def _without_vector(point: Mapping[str, Any]) -> dict[str, Any]:
    words = (point.get("vector") or {}).get(WORDS) or sparse.of_memory(point["payload"]["data"])
    return {"id": point["id"], "vector": {WORDS: words}, "payload": point["payload"]}
