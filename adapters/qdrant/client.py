"""A client of Qdrant's REST interface. Bodies and results are Qdrant's own JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

from adapters.http import Http
from fusion.errors import HttpStatus, InvalidAnswer

NEWER = "Fix: Qdrant 1.13 or newer"

Json = Mapping[str, Any]
T = TypeVar("T")


class Client:
    """``read`` and ``write`` are the query strings of searches and of writes.

    Every method raises the `fusion.errors.BackendError` that fits; times are in seconds.
    """

    def __init__(self, http: Http, read: str = "", write: str = "wait=true") -> None:
        self.server = http.server
        self._http = http
        self._read = f"?{read}" if read else ""
        self._write = f"?{write}"

    async def collections(self, deadline_s: float) -> list[str]:
        found = self._part(await self._http.get("/collections", deadline_s), "collections", list)
        return [one["name"] for one in found if isinstance(one, dict) and isinstance(one.get("name"), str)]

    async def info(self, collection: str, deadline_s: float) -> Json | None:
        """The description of a collection; None if it does not exist."""
        try:
            reply = await self._http.get(_path(collection), deadline_s)
        except HttpStatus as error:
            if error.status == 404:
                return None
            raise
        return self._result(reply, dict)

    async def create(self, collection: str, body: Json, deadline_s: float) -> bool:
        """Whether this call created it; another process may have been faster."""
        try:
            await self._http.put(_path(collection), body, deadline_s)
        except HttpStatus as error:
            if error.status == 409 or (error.status == 400 and await self.info(collection, deadline_s)):
                return False
            raise
        return True

    async def index(self, collection: str, field: str, schema: object, deadline_s: float) -> None:
        body = {"field_name": field, "field_schema": schema}
        await self._http.put(f"{_path(collection)}/index{self._write}", body, deadline_s)

    async def query(self, collection: str, body: Json, deadline_s: float) -> list[Any]:
        reply = await self._http.post(f"{_path(collection)}/points/query{self._read}", body, deadline_s)
        return self._part(reply, "points", list)

    async def require_search(self, collection: str, deadline_s: float) -> None:
        """Raises HttpStatus with the fix if a server has the collection but not this search API."""
        try:
            await self.query(collection, {"limit": 1, "with_payload": False}, deadline_s)
        except HttpStatus as error:
            raise (HttpStatus(f"{error}. {NEWER}", 404) if error.status == 404 else error) from None

    async def query_each(self, collection: str, bodies: Sequence[Json], deadline_s: float) -> list[list[Any]]:
        """The points of several questions in one request, in their order."""
        path = f"{_path(collection)}/points/query/batch{self._read}"
        found = self._result(await self._http.post(path, {"searches": list(bodies)}, deadline_s), list)
        if len(found) != len(bodies):
            raise InvalidAnswer(f"{self.server}: {len(found)} replies to {len(bodies)} questions")
        return [self._part({"result": one}, "points", list) for one in found]

    async def scroll(self, collection: str, body: Json, deadline_s: float) -> tuple[list[Any], object]:
        """A page of points, and the offset of the next page; None after the last."""
        reply = await self._http.post(f"{_path(collection)}/points/scroll", body, deadline_s)
        return self._part(reply, "points", list), self._result(reply, dict).get("next_page_offset")

    async def count(self, collection: str, where: Json | None, deadline_s: float) -> int:
        body = {"exact": True, **({"filter": where} if where else {})}
        return self._part(await self._http.post(f"{_path(collection)}/points/count", body, deadline_s), "count", int)

    async def present(self, collection: str, ids: Sequence[str], deadline_s: float) -> list[str]:
        """The ids among ``ids`` that have a point."""
        body = {"ids": list(ids), "with_payload": False, "with_vector": False}
        reply = await self._http.post(f"{_path(collection)}/points", body, deadline_s)
        return [str(point["id"]) for point in self._result(reply, list) if isinstance(point, dict) and "id" in point]

    async def upsert(self, collection: str, points: Sequence[Json], deadline_s: float) -> None:
        await self._http.put(f"{_path(collection)}/points{self._write}", {"points": list(points)}, deadline_s)

    async def set_vectors(self, collection: str, points: Sequence[Json], deadline_s: float) -> None:
        """Add these vectors to existing points. Raises HttpStatus 404 if a point is gone."""
        await self._http.put(f"{_path(collection)}/points/vectors{self._write}", {"points": list(points)}, deadline_s)

    async def delete(self, collection: str, ids: Sequence[str], deadline_s: float) -> None:
        await self._http.post(f"{_path(collection)}/points/delete{self._write}", {"points": list(ids)}, deadline_s)

    async def close(self) -> None:
        await self._http.close()

    def _result(self, reply: Any, kind: type[T]) -> T:
        result = reply.get("result") if isinstance(reply, dict) else None
        if not isinstance(result, kind):
            raise InvalidAnswer(f"{self.server}: the reply is not Qdrant's")
        return result

    def _part(self, reply: Any, name: str, kind: type[T]) -> T:
        part = self._result(reply, dict).get(name)
        if not isinstance(part, kind):
            raise InvalidAnswer(f"{self.server}: the reply has no {name}")
        return part


def _path(collection: str) -> str:
    return f"/collections/{quote(collection, safe='')}"
