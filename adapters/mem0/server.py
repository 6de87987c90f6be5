"""Mem0's own server (:8888) as a backend, read and written; memories that others stored there are found as well.

    [backends.mem0]
    adapter = "adapters.mem0:Mem0Server"
    url = "http://127.0.0.1:8888"
    api_key_env = "MEM0_API_KEY"

It gives each memory its own id; the event's id is in the metadata, so a retried delivery stores nothing twice. A server
of 1.x takes the user next to the query, one of 2.x in ``filters``; the version is detected at the first query, and
again after an upgrade of the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Self
from urllib.parse import quote
from uuid import UUID

from adapters.hits import deeper
from adapters.http import Http, checked, with_fix
from adapters.mem0.options import ServerOptions
from adapters.mem0.replies import OWN, Change, changes_of, hit_of_item, hits_of, items_of
from adapters.options import read, verified
from adapters.qdrant.payload import NOBODY, conditions, payload_of
from fusion.contract import (
    DIMENSIONS,
    Description,
    Event,
    Extracted,
    Forgotten,
    Hit,
    Opening,
    PartialHits,
    Query,
    Scope,
)
from fusion.errors import BackendError, HttpStatus, InvalidAnswer, NotFound
from fusion.lib.words import spoken

_NOT_METADATA = frozenset({"data", "hash", "created_at", "updated_at", "text_lemmatized", *OWN})
_REFUSED = (400, 422, 500)
"""the replies of a server of one version to requests of the other"""


class Mem0Server:
    """Asks mem0's server. Native ids are its memories'."""

    def __init__(self, http: Http, options: ServerOptions) -> None:
        self.features = options.features()
        self._http, self._options = http, options
        self._version = options.version or "2"

    @classmethod
    def verify(cls, options: Mapping[str, object]) -> str:
        """The options are right and the key that they name is there; whether it answers, its description says."""
        chosen = verified(ServerOptions, options)
        return f"{checked(chosen.url)}, {'with a key' if chosen.headers() else 'without a key'}"

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        """Does not connect: a server that is down now may be up at the first question."""
        options = read(ServerOptions, opening)
        return cls(options.http(options.headers), options)

    async def search(self, query: Query) -> Sequence[Hit]:
        text = query.text.strip()
        limit = min(query.limit, self._options.limit or query.limit)
        if limit < 1 or not text:
            return []
        until = asyncio.get_running_loop().time() + query.deadline_s
        where = self._where(query)
        asked = limit
        while True:
            left = max(until - asyncio.get_running_loop().time(), 0.001)
            items = (await self._asked(text, where, asked, left, self._options.threshold))[:asked]
            hits, dropped = hits_of(items, query, self.features.tenant)
            if not (more := deeper(limit, len(hits), len(items), asked)):
                return PartialHits(hits[:limit], dropped) if dropped else hits[:limit]
            asked = more

    def accepts(self, event: Event) -> bool:
        """Refuse blank events, which mem0 does not store, and those of other tenants."""
        ours = self.features.tenants or event.scope.tenant == self.features.tenant
        return ours and bool(event.text.strip())

    async def remember(self, batch: Sequence[Extracted]) -> Sequence[tuple[str, ...]]:
        """One after another: mem0 takes one at a time."""
        return [await self._remember(extracted.event) for extracted in batch]

    async def forget(self, event_id: str, native_ids: Sequence[str]) -> Forgotten:
        """Delete by the ids returned when it was stored; without them, by its metadata (only 2.x can)."""
        ids = (
            native_ids
            if native_ids or self._version == "1"
            else await self._stored(event_id, event_id, {"user_id": "*"})
        )
        found = [one for one in dict.fromkeys(ids) if await self._exists(one)]
        for one in found:
            await self._http.delete(f"/memories/{quote(one, safe='')}", self._timeout_s)
        return "deleted" if found else "absent"

    async def history(self, native_id: str, scope: Scope) -> tuple[Sequence[Change], str | None]:
        """A memory's changes as its server reports them, and the event that it superseded. Raises NotFound.

        The owner is checked first, because the history does not contain it.
        """
        path = f"/memories/{quote(native_id, safe='')}"
        try:
            found = await self._got(native_id)
            hit = hit_of_item(found, Scope(), self.features.tenant)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise NotFound(f"{self._http.server} has no memory {native_id!r}") from None
        bound = self.features.bound.items()
        if not scope.admits(hit.scope) or any(getattr(hit.scope, d) not in (None, who) for d, who in bound):
            raise NotFound(f"{self._http.server} has no memory {native_id!r}")
        changes = changes_of(await self._http.get(f"{path}/history", self._timeout_s))
        return changes, (found.get("metadata") or {}).get("supersedes")

    async def describe(self) -> Description:
        """Check that it answers; mem0 does not report a count."""
        try:
            await self._asked("memory", {"user_id": NOBODY}, 1, self._options.describe_s)
        except BackendError as error:
            return Description(notes=(with_fix(error, "start mem0's server, or correct url"),), degraded=True)
        return Description()

    async def close(self) -> None:
        await self._http.close()

    @property
    def _timeout_s(self) -> float:
        return self._options.timeout_ms / 1000

    def _where(self, query: Query) -> dict[str, str]:
        """The dimensions of the query, as stored; mem0 requires at least one owner."""
        asked = dict(zip(("tenant", *DIMENSIONS), conditions(query.scope), strict=False))
        named: dict[str, str] = {d: asked[d] for d in query.scope.named() if d not in self.features.bound or d in OWN}
        return named if named.keys() & set(OWN) else {"user_id": "*", **named}

    async def _asked(
        self, text: str, where: Mapping[str, str], limit: int, deadline_s: float, threshold: float = 0.0
    ) -> list[Any]:
        """The results, in the version that the server speaks."""
        version = self._version  # of this question; another one may find it out first
        try:
            return await self._ask(question(version, text, where, limit, threshold), deadline_s)
        except (HttpStatus, InvalidAnswer) as error:
            if self._options.version or (isinstance(error, HttpStatus) and error.status not in _REFUSED):
                raise
            other = "1" if version == "2" else "2"
            try:
                found = await self._ask(question(other, text, where, limit, threshold), deadline_s)
            except BackendError:
                raise error from None
            self._version = other
            return found

    async def _ask(self, body: Mapping[str, Any], deadline_s: float) -> list[Any]:
        try:
            return items_of(await self._http.post("/search", body, deadline_s))
        except InvalidAnswer as error:
            raise InvalidAnswer(f"{self._http.server}: {error}") from None

    async def _remember(self, event: Event) -> tuple[str, ...]:
        """Store one event. Raises InvalidAnswer if the server does not return what it stored."""
        payload = payload_of(event)
        whose = {key: payload[key] for key in OWN if key in payload}
        if known := await self._stored(event.text, event.event_id, whose):
            return tuple(known)
        metadata = {key: value for key, value in payload.items() if key not in _NOT_METADATA}
        if event.speaker:
            metadata["speaker"] = event.speaker  # its own name for that, actor_id, mem0 takes out of metadata
        if self._options.infer:
            metadata["inferred"] = True
        message = {"role": "user", "content": spoken(event.text, event.speaker) if self._options.infer else event.text}
        body = {"messages": [message], **whose, "metadata": metadata, "infer": self._options.infer}
        stored = items_of(await self._http.post("/memories", body, self._timeout_s))
        ids = [str(one["id"]) for one in stored if isinstance(one, dict) and "id" in one]
        if not ids and not self._options.infer:
            raise InvalidAnswer(f"{self._http.server}: it does not say what it stored")
        return tuple(ids)

    async def _stored(self, text: str, event_id: str, whose: Mapping[str, str]) -> list[str]:
        """The memories of an event, by its id in their metadata."""
        found = await self._asked(text.strip() or event_id, {**whose, "event_id": event_id}, 100, self._timeout_s)
        metadata = ((one, one.get("metadata") or {}) for one in found if isinstance(one, dict))
        return [str(one["id"]) for one, said in metadata if said.get("event_id") == event_id]

    async def _exists(self, native_id: str) -> bool:
        found = await self._got(native_id)
        return isinstance(found, dict) and bool(found.get("id"))

    async def _got(self, native_id: str) -> Any:
        """The memory on the server; None if it does not exist.

        A server of 1.x answers 500 for a missing memory, and one over PostgreSQL 502 for an id that is no UUID. Both
        count only while it answers other requests.
        """
        try:
            return await self._http.get(f"/memories/{quote(native_id, safe='')}", self._timeout_s)
        except HttpStatus as error:
            if error.status == 404:
                return None
            no_id = error.status == 502 and not _is_uuid(native_id)
            if error.status not in _REFUSED and not no_id:
                raise
            await self._asked("memory", {"user_id": NOBODY}, 1, self._timeout_s)  # which finds out the version, too
            if self._version != "1" and not no_id:
                raise
            return None


def _is_uuid(native_id: str) -> bool:
    try:
        UUID(native_id)
    except ValueError:
        return False
    return True


def question(version: str, text: str, where: Mapping[str, str], limit: int, threshold: float) -> dict[str, Any]:
    """The body of POST /search."""
    if version == "2":
        return {"query": text, "filters": dict(where), "top_k": limit, "threshold": threshold}
    whose = {key: where[key] for key in OWN if where.get(key, "*") != "*"}
    return {"query": text, **whose, "filters": {k: v for k, v in where.items() if k not in OWN}, "limit": limit}
