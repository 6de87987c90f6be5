"""Another server that speaks our ``POST /v1/search``: a second gateway, or anything that gives the same JSON.

    [backends.archive]
    adapter = "adapters.remote:Remote"
    url = "http://127.0.0.1:8765"
    connect_ms = 250                    # milliseconds for a new connection; more for a distant server
    backend = "markdown"                # which of its backends; leave out where there is but one
    api_key_env = "ARCHIVE_API_KEY"     # the environment variable with its key or token; or, for one that is renewed:
    api_key_file = "/run/keys/archive"  # the file with it, read for each question: a gateway's is `token` in its home
    filters = ["user_id"]               # what its search filters by; all four unless said otherwise
    bound = { agent_id = "librarian" }  # what it holds the memories of, where it cannot filter

It is asked with ``{query, limit, user_id…, audience}`` and answers ``{"hits": [{native_id, text, …}]}``. Further fields
of a hit are those of `Hit`, with ``at``, ``place`` and ``scope`` nested as in our own JSON or flat. Read only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from adapters.hits import hit_of, hits_of
from adapters.http import Http, KeyedOptions, checked, with_fix
from adapters.options import choice, features_of, owner, read, verified
from fusion.contract import DIMENSIONS, Description, Hit, Opening, Query, Scope
from fusion.errors import BackendError, HttpStatus, SettingsError


@dataclass(frozen=True, slots=True)
class Options(KeyedOptions):
    """The keys of the backend's table, as the module explains them."""

    backend: str = ""
    filters: tuple[str, ...] = choice(DIMENSIONS, DIMENSIONS)
    bound: Mapping[str, str] = owner()

    def __post_init__(self) -> None:
        KeyedOptions.__post_init__(self)
        if not self.url:
            raise SettingsError("url is missing; write the server's, http://host:port")


class Remote:
    """Asks ``http``'s server; its option ``backend`` is the server's name for the memory system."""

    def __init__(self, http: Http, options: Options) -> None:
        self.features = features_of(options.filters, options.bound, options.tenant)
        self._http, self._backend = http, options.backend or None
        self._describe_s = options.describe_s

    @classmethod
    def verify(cls, options: Mapping[str, object]) -> str:
        """Its options are right."""
        return checked(verified(Options, options).url)

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        """Does not connect: a server that is down now may be up at the first question."""
        options = read(Options, opening)
        return cls(options.http(lambda: options.key_header("Authorization", "Bearer {key}")), options)

    async def search(self, query: Query) -> Sequence[Hit]:
        body: dict[str, object] = {"query": query.text, "limit": query.limit, "audience": query.scope.audience}
        body.update((dimension, value) for dimension, value in query.scope.named().items())
        if query.scope.project is not None:
            body["project"] = query.scope.project
        if self._backend is not None:
            body["backend"] = self._backend
        reply = await self._http.post("/v1/search", body, query.deadline_s)
        items = reply.get("hits") if isinstance(reply, dict) else None
        # The query was for this scope only, so an item without an owner gets that of the query. An item with an owner
        # keeps it, and the gateway's filter drops those of others.
        assumed = Scope(self.features.tenant, **query.scope.named(), audience=query.scope.audience)
        return hits_of(items, query.limit, lambda item: hit_of(item, assumed), self._http.server)

    async def describe(self) -> Description:
        """The count and state of the other server's backend; empty if the server is no memory-fusion."""
        try:
            reply = await self._http.get("/v1/backends", self._describe_s)
        except BackendError as error:
            if isinstance(error, HttpStatus) and error.status in (404, 405):
                return Description()  # it gives the same JSON for a search, and need not know this route
            return Description(notes=(with_fix(error),), degraded=True)
        rows = reply.get("backends") if isinstance(reply, dict) else None
        known = {row["name"]: row for row in rows or () if isinstance(row, dict) and isinstance(row.get("name"), str)}
        if self._backend is None and len(known) == 1:
            return _described(*known.values())
        if self._backend in known:
            return _described(known[self._backend])
        lacking = f"it has no backend {self._backend!r}" if self._backend else "it has several backends"
        names = ", ".join(sorted(known)) or "none"
        return Description(notes=(f"{self._http.server}: {lacking}. Fix: backend = one of {names}",), degraded=True)

    async def close(self) -> None:
        await self._http.close()


def _described(row: Mapping[str, object]) -> Description:
    """A backend of another server by its row there; the fix for a fault is on that server."""
    items, vectors = (count if isinstance(count := row.get(name), int) else 0 for name in ("items", "vectors"))
    status = row.get("status")
    if status in ("ready", None):
        return Description(items, vectors)
    return Description(
        items, vectors, notes=(f"there it is {str(status)[:40]}. Fix: fusion doctor over there",), degraded=True
    )
