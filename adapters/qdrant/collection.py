"""A Qdrant collection that others fill, as a read-only backend."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Self, cast

from adapters.hits import admitted, hit_of, read_each
from adapters.http import with_fix
from adapters.options import read, verified
from adapters.qdrant import sparse
from adapters.qdrant.client import NEWER, Client
from adapters.qdrant.collection_schema import Shape
from adapters.qdrant.options import Theirs
from adapters.qdrant.query import matching, question
from fusion.contract import (
    DIMENSIONS,
    Description,
    Embedder,
    Hit,
    Opening,
    Query,
    Scope,
)
from fusion.errors import (
    BackendError,
    BackendUnreachable,
    FusionError,
    HttpStatus,
    InvalidAnswer,
    SettingsError,
)

GRPC = 6334


class Collection:
    """Searches by vector, by words, or by both, whichever it has. Native ids are the points'."""

    def __init__(self, client: Client, options: Theirs, embedder: Embedder | None) -> None:
        self.features = options.features()
        self._client, self._options, self._embedder = client, options, embedder
        self._reader = Reader(options)
        self._known: Shape | None = None

    @classmethod
    def verify(cls, options: Mapping[str, object]) -> str:
        """The options are right and the key that they name is there; the rest its description says."""
        return verified(Theirs, options).reached()

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        """Does not connect: a server that is down now may be up at the first question."""
        options = read(Theirs, opening)
        if opening.embedder is None and not options.sparse:
            raise SettingsError(
                f"[backends.{opening.name}] is searched by vectors. Fix: configure [embedder], or sparse"
            )
        return cls(options.client(), options, opening.embedder)

    async def search(self, query: Query) -> Sequence[Hit]:
        limit = min(query.limit, self._options.limit or query.limit)
        if limit < 1 or not query.text.strip():
            return []
        until = asyncio.get_running_loop().time() + query.deadline_s
        shape = await self._shape(query.deadline_s)
        left = until - asyncio.get_running_loop().time()
        body = question(
            await self._vector(query.text, shape),
            self._words(query.text),
            self._where(query.scope),
            limit,
            self._options.merge,
        )
        if body is None:
            return []
        if self._options.min_score and "prefetch" not in body:
            body["score_threshold"] = self._options.min_score
        try:
            points = await self._client.query(self._options.collection, body, max(left, 0.001))
        except HttpStatus as error:
            self._known = None  # it may have been recreated with another shape
            raise await self._explained(error) from None
        return self._reader.hits(points[:limit], query.scope, rising=self._is_distance(shape))

    async def describe(self) -> Description:
        """Count the points and report faults of the collection."""
        try:
            await self._shape(self._options.describe_s)
            await self._client.require_search(self._options.collection, self._options.describe_s)
            where = {"must": [self._options.filter]} if self._options.filter else None
            items = await self._client.count(self._options.collection, where, self._options.describe_s)
        except BackendError as error:
            return Description(notes=(note(error, self._options.url),), degraded=True)
        return Description(items, items)

    async def close(self) -> None:
        await self._client.close()

    async def _shape(self, deadline_s: float) -> Shape:
        """The collection's, looked at once. Raises HttpStatus, as Qdrant itself would answer, with how to fix it."""
        if self._known is None:
            found = await self._client.info(self._options.collection, deadline_s)
            self._known = checked(found, self._options, self._embedder, self._client.server)
        return self._known

    async def _explained(self, error: HttpStatus) -> BackendError:
        """Why it was refused, if the collection's configuration shows that."""
        if error.status not in (400, 404):
            return error
        try:
            await self._shape(self._options.describe_s)
        except BackendError as found:
            return found
        return HttpStatus(
            f"{error}. {NEWER}" if error.status == 404 else f"{error}: it does not take the search", error.status
        )

    async def _vector(self, text: str, shape: Shape) -> tuple[str, list[float]] | None:
        if self._embedder is None or not shape.dense:
            return None
        try:
            return self._options.vector, (await self._embedder.embed([text], keep=False))[0].tolist()
        except FusionError as error:
            if self._options.sparse:  # without the model words find what they can
                return None
            raise BackendUnreachable(f"the embedding model: {error}") from error

    def _words(self, text: str) -> tuple[str, sparse.Sparse] | None:
        words = sparse.of_question(text) if self._options.sparse else None
        return (self._options.sparse, words) if words and words["indices"] else None

    def _where(self, scope: Scope) -> list[Mapping[str, Any]]:
        """The scope's conditions, as far as the payload has fields for them, and the configured ones."""
        fields = self._options.fields
        found = [matching(fields[d], value) for d, value in scope.named().items() if d in self.features.filters]
        if self.features.tenants:
            found.append(matching(fields["tenant"], scope.tenant))
        if "audience" in fields and scope.audience == "group":
            found.append({"must_not": [matching(fields["audience"], "private")]})
        return [*found, self._options.filter] if self._options.filter else found

    def _is_distance(self, shape: Shape) -> bool:
        """Whether a score is a distance, the lower the better."""
        dense = shape.dense.get(self._options.vector)
        return not self._options.sparse and dense is not None and dense.distance in ("Euclid", "Manhattan")


def checked(info: Mapping[str, Any] | None, options: Theirs, embedder: Embedder | None, server: str) -> Shape:
    """A collection's shape. Raises HttpStatus, as Qdrant itself would answer a search of it, with how to fix it."""
    named = f"{server}: the collection {options.collection!r}"
    if info is None:
        raise HttpStatus(f"{named} is not there. Fix: collection = the name of one that is, or fill it first", 404)
    shape = Shape.of(info)
    by_words_alone = embedder is None or bool(options.sparse and not shape.dense)
    wanted = None if by_words_alone else options.vector
    if fault := shape.fault(wanted, embedder.dimensions if embedder else 0, options.distance, options.sparse):
        raise HttpStatus(f"{named} {fault}", 400)
    return shape


def note(error: BackendError, url: str) -> str:
    """The text of a failure for a description, with the fix."""
    if f":{GRPC}" in url and isinstance(error, BackendUnreachable | InvalidAnswer):
        return f"{error}. Fix: url = that of REST, usually port 6333; {GRPC} is usually gRPC's"
    return with_fix(error, "start Qdrant (compose/qdrant.yaml), or correct url")


class Reader:
    """Reads points as hits, each field from the payload key in the options."""

    def __init__(self, options: Theirs) -> None:
        self._paths = {name: tuple(path.split(".")) for name, path in options.fields.items()}
        self._given = Scope(options.tenant, **cast("dict[str, Any]", dict(options.bound)))

    def hits(self, points: Sequence[Any], scope: Scope, *, rising: bool = False) -> Sequence[Hit]:
        """The hits that ``scope`` may see. Raises InvalidAnswer if no point can be read.

        ``rising`` says that scores are distances.
        """
        fault = "none of {} points has a text where fields.text says. Fix: correct fields"
        hits, dropped = read_each(points, lambda point: self._hit(point, rising), fault)
        return admitted(hits, scope, dropped)

    def _hit(self, point: Any, rising: bool) -> Hit:
        payload, score = point["payload"], point.get("score")
        said = {name: value for name, path in self._paths.items() if (value := _at(payload, path)) is not None}
        if not said.get("text"):
            raise ValueError("a memory has a text")
        for name in _AS_TEXT & said.keys():
            said[name] = str(said[name])
        score = -score if rising and isinstance(score, float | int) else score
        return hit_of({**said, "native_id": str(point["id"]), "score": score}, self._given)


_AS_TEXT = frozenset({"tenant", *DIMENSIONS, "project", "event_id", "speaker", "kind"})
"""fields that may be numbers in a payload"""


def _at(payload: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(payload, dict):
            return None
        payload = payload.get(name)
    return payload
