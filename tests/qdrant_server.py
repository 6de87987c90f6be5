"""A Qdrant server on loopback: its REST shapes in front of qdrant-client's local mode, which does what the server does.

    async with Qdrant() as server:
        backend = await Collection.open(opening(folder, url=server.url, collection="facts"))

Bodies go through the models that Qdrant's own OpenAPI document was made into, which refuse what the server would not
understand; so does qdrant-client's HTTP transport read the replies. ``client`` is the local mode, for tests to look at.
Requests come one after another on the loop: local mode is not safe otherwise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from pydantic import BaseModel, ValidationError
from qdrant_client import QdrantClient, models

from tests.chaos import Behaviour, Call, Chaos

VERSION = "1.17.0"


class Qdrant(Chaos):
    """``key`` is what it asks for, if anything; ``before`` may answer a call in its place (then it returns True)."""

    def __init__(self, key: str = "") -> None:
        super().__init__(behaviour=self.answered)
        self.client = QdrantClient(":memory:")
        self.key = key
        self.before: Callable[[Call], Awaitable[bool]] | None = None
        self.faulty: Behaviour | None = None

    async def __aexit__(self, *raised: object) -> None:
        await super().__aexit__(*raised)
        self.client.close()

    async def answered(self, call: Call) -> None:
        if self.faulty is not None:
            return await self.faulty(call)
        given = call.headers.get("api-key", "")
        if self.key and not given:
            return await call.reply(b"Must provide an API key or an Authorization bearer token", 401)
        if given != self.key:
            return await call.reply(b"Invalid API key or JWT", 403)
        if self.before is not None and await self.before(call):
            return None
        try:
            result = self._result(call)
        except KeyError:
            return await call.reply(b"", 404)
        except ValidationError as error:
            return await self._refuse(call, 400, f"Format error in JSON body: {error.errors()[0]['msg']}")
        except ValueError as error:
            missing = re.search(r"not found|is not found in the collection", str(error))
            return await self._refuse(call, 404 if missing and "ector" not in str(error) else 400, str(error))
        return await call.reply(json.dumps({"result": result, "status": "ok", "time": 0.000132}).encode())

    async def _refuse(self, call: Call, status: int, why: str) -> None:
        body = {"status": {"error": why}, "time": 0.000021}
        await call.reply(json.dumps(body).encode(), status)

    def _result(self, call: Call) -> Any:
        address = urlsplit(call.path)
        unknown = set(parse_qs(address.query)) - {"wait", "ordering", "consistency", "timeout"}
        if unknown:
            raise ValueError(f"unknown parameters {unknown}")
        _, collections, *named = address.path.split("/")
        if collections != "collections":
            raise KeyError(address.path)
        name, *rest = named or [""]
        return ROUTES[call.method, "/".join(rest)](self.client, unquote(name), call.json if call.body else {})


def _dumped(value: BaseModel) -> Any:
    return value.model_dump(mode="json", exclude_none=True, by_alias=True)


def _collections(client: QdrantClient, name: str, body: Any) -> Any:
    """GET /collections, or one of them."""
    if not name:
        return _dumped(client.get_collections())
    return _dumped(client.get_collection(name))


def _exists(client: QdrantClient, name: str, body: Any) -> Any:
    return {"exists": client.collection_exists(name)}


def _create(client: QdrantClient, name: str, body: Any) -> Any:
    asked = models.CreateCollection.model_validate(body)
    return client.create_collection(name, vectors_config=asked.vectors, sparse_vectors_config=asked.sparse_vectors)


def _drop(client: QdrantClient, name: str, body: Any) -> Any:
    return client.delete_collection(name)


def _index(client: QdrantClient, name: str, body: Any) -> Any:
    models.CreateFieldIndex.model_validate(body)
    client.get_collection(name)
    return {"operation_id": 0, "status": "completed"}


def _upsert(client: QdrantClient, name: str, body: Any) -> Any:
    return _dumped(client.upsert(name, models.PointsList.model_validate(body).points))


def _vectors(client: QdrantClient, name: str, body: Any) -> Any:
    asked = models.UpdateVectors.model_validate(body)
    if len(client.retrieve(name, [point.id for point in asked.points])) < len(asked.points):
        raise ValueError("Point is not found in the collection")
    return _dumped(client.update_vectors(name, asked.points))


def _delete(client: QdrantClient, name: str, body: Any) -> Any:
    selector = (models.FilterSelector if "filter" in body else models.PointIdsList).model_validate(body)
    return _dumped(client.delete(name, selector))


def _retrieve(client: QdrantClient, name: str, body: Any) -> Any:
    asked = models.PointRequest.model_validate(body)
    found = client.retrieve(
        name, asked.ids, with_payload=asked.with_payload or True, with_vectors=asked.with_vector or False
    )
    return [_dumped(record) for record in found]


def _query(client: QdrantClient, name: str, body: Any) -> Any:
    return _points(client, name, models.QueryRequest.model_validate(body))


def _query_batch(client: QdrantClient, name: str, body: Any) -> Any:
    return [_points(client, name, asked) for asked in models.QueryRequestBatch.model_validate(body).searches]


def _points(client: QdrantClient, name: str, asked: models.QueryRequest) -> Any:
    found = client.query_points(
        name,
        query=asked.query,
        prefetch=asked.prefetch,
        using=asked.using,
        query_filter=asked.filter,
        limit=asked.limit or 10,
        score_threshold=asked.score_threshold,
        with_payload=asked.with_payload or False,
    )
    return {"points": [{"version": 0, **_dumped(point)} for point in found.points]}


def _scroll(client: QdrantClient, name: str, body: Any) -> Any:
    asked = models.ScrollRequest.model_validate(body)
    points, offset = client.scroll(
        name,
        scroll_filter=asked.filter,
        limit=asked.limit or 10,
        offset=asked.offset,
        with_payload=asked.with_payload if asked.with_payload is not None else True,
        with_vectors=asked.with_vector or False,
    )
    return {"points": [_dumped(point) for point in points], "next_page_offset": offset}


def _count(client: QdrantClient, name: str, body: Any) -> Any:
    asked = models.CountRequest.model_validate(body)
    return {"count": client.count(name, count_filter=asked.filter).count}


ROUTES: dict[tuple[str, str], Callable[[QdrantClient, str, Any], Any]] = {
    ("GET", ""): _collections,
    ("GET", "exists"): _exists,
    ("PUT", ""): _create,
    ("DELETE", ""): _drop,
    ("PUT", "index"): _index,
    ("PUT", "points"): _upsert,
    ("PUT", "points/vectors"): _vectors,
    ("POST", "points/delete"): _delete,
    ("POST", "points"): _retrieve,
    ("POST", "points/query"): _query,
    ("POST", "points/query/batch"): _query_batch,
    ("POST", "points/scroll"): _scroll,
    ("POST", "points/count"): _count,
}
