"""The calls on an open home for its observations: append, query and search the episodes of an agent's sessions.

They are evidence, and no memories: no call of `fuse` reads them, and nothing here makes a memory of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast

from fusion import wire
from fusion.contract import Scope
from fusion.errors import BadInput, NotFound
from fusion.gateway import episode_search
from fusion.gateway.in_tenant import in_tenant
from fusion.gateway.parts import DEFAULT, TenantParts
from fusion.ingest.harvest import Harvested
from fusion.ingest.observe import SCOPE_REQUIRED, KeptObservation, is_scoped
from fusion.journal import observations
from fusion.journal.observations import Wanted
from fusion.journal.proposals import Decider
from fusion.lib.ids import EPISODE, parse_cursor
from fusion.lib.ids import cursor as cursor_of
from fusion.lib.importance import BY_HAND, VERSION, label_of
from fusion.lib.observation import EpisodeType, Lane, NewObservation, SearchMode
from fusion.lib.redact import redact

WORKING_SET = 12
"""observations of a session that its working set has by default"""
MAX_WORKING_SET = 100
MAX_REDACTED = 10_000
EMBED_LIMIT = 200
"""episodes that one request makes vectors of by default"""


@dataclass(frozen=True, slots=True)
class EpisodeQuery:
    """Which episodes to list, in the order of their times. ``scope.project`` filters, as openclaw-mem's scope does.

    No types and no lanes stand for all of them.
    """

    scope: Scope
    types: tuple[EpisodeType, ...] = ()
    lanes: tuple[Lane, ...] = ()
    after: datetime | None = None
    before: datetime | None = None
    limit: int = 50
    cursor: str | None = None
    newest_first: bool = False
    include_payload: bool = False
    all_users: bool = False


@dataclass(frozen=True, slots=True)
class EpisodeSearch:
    """A search among episodes. Other lanes than that of the episodes are searched only if they are named."""

    query: str
    scope: Scope
    mode: SearchMode = "lexical"
    lanes: tuple[Lane, ...] = ("episodes",)
    types: tuple[EpisodeType, ...] = ()
    after: datetime | None = None
    before: datetime | None = None
    limit: int = 20
    include_payload: bool = False
    trace: bool = False
    all_users: bool = False


class EpisodeCalls(TenantParts):
    """The calls of an open home on its observations, for one tenant."""

    __slots__ = ()

    @in_tenant
    async def append_episodes(
        self, items: Sequence[NewObservation], *, idempotency_key: str | None = None, tenant: str = DEFAULT
    ) -> Sequence[KeptObservation]:
        """Store observations durably, as `ObservationIntake.append`. They are visible to the next query."""
        return await self.observations.append(items, idempotency_key=idempotency_key)

    @in_tenant
    async def query_episodes(self, request: EpisodeQuery) -> wire.EpisodePage:
        """A page of episodes in the order of their times. Raises BadInput without a scope, and for a wrong cursor."""
        require_scope(request.scope, request.all_users)
        await self._catch_up()
        beyond = _position(request.cursor)
        rows = await self.journal.read(
            observations.page, wanted(request), request.limit + 1, beyond=beyond, newest_first=request.newest_first
        )
        page = rows[: request.limit]
        return {
            "episodes": [_shown(row, include_payload=request.include_payload) for row in page],
            "next_cursor": cursor_of(page[-1]["seq"]) if len(rows) > len(page) else None,
        }

    @in_tenant
    async def search_episodes(self, request: EpisodeSearch) -> wire.EpisodeSearchReply:
        """The episodes that fit a query, best first. Raises BadInput without a scope."""
        require_scope(request.scope, request.all_users)
        await self._catch_up()
        found = await episode_search.search(
            self.journal, self.embedders.configured, request.query, wanted(request), request.mode, request.limit
        )
        return {
            "mode": request.mode,
            "episodes": [
                {**_shown(row, include_payload=request.include_payload), "score": round(score, 4)}
                for row, score in found.matches
            ],
            "vector_status": found.vectors,
            "trace": found.trace() if request.trace else None,
        }

    @in_tenant
    async def embed_episodes(
        self, scope: Scope, limit: int = EMBED_LIMIT, *, lanes: tuple[Lane, ...] = (), all_users: bool = False
    ) -> wire.EpisodesEmbedded:
        """Make vectors of episodes that have none of the home's model, newest first. Raises BadInput without a model.

        Vectors of another model are replaced: they are never compared with those of this one.
        """
        require_scope(scope, all_users)
        embedder = self.embedders.configured
        if embedder is None:
            raise BadInput("there is no model for vectors: write a provider in [embedder], and open the home again")
        await self._catch_up()
        made, left = await episode_search.embed(self.journal, embedder, Wanted(scope, lanes=lanes), limit)
        return {"model": embedder.identity, "embedded": made, "left": left}

    @in_tenant
    async def working_set(self, scope: Scope, limit: int = WORKING_SET) -> Sequence[wire.Episode]:
        """The latest observations of the session that ``scope`` names, oldest first. Raises BadInput without one."""
        if scope.session_id is None:
            raise BadInput("a working set is that of a session: name its session_id")
        await self._catch_up()
        rows = await self.journal.read(observations.page, Wanted(scope), min(limit, MAX_WORKING_SET), newest_first=True)
        return [_shown(row) for row in reversed(rows)]

    @in_tenant
    async def episode(self, ref: str, scope: Scope) -> wire.Episode:
        """One observation with its payload. Raises NotFound, also for one out of scope."""
        await self._catch_up()
        return _shown(await self.journal.read(observations.find, ref, scope), include_payload=True)

    @in_tenant
    async def grade_episode(
        self, ref: str, scope: Scope, importance: float | Literal["unknown"], by: Decider, why: str = ""
    ) -> wire.Episode:
        """Set the importance of one observation by hand; no harvest changes it from then on.

        The reply says who decided, why, and what it replaces. Raises NotFound, also for one out of scope.
        """
        self.observations.require_writable()
        await self._catch_up()
        score = None if importance == "unknown" else importance
        graded = {
            "score": score,
            "label": label_of(score),
            "rationale": redact(why)[0],
            "method": BY_HAND,
            "version": VERSION,
            "graded_at": self.live.now().isoformat(),
            "by": by.who,
        }
        return _shown(await self.observations.grade_by_hand(ref, scope, graded))

    @in_tenant
    async def harvest_episodes(self, tenant: str = DEFAULT) -> Harvested:
        """Take what is not in the ledger yet into it: what was captured, and the files of `[episodes] paths`."""
        self.observations.require_writable()
        return await self.observations.harvest() + await self.observation_files.harvest()

    @in_tenant
    async def expire_episodes(self, tenant: str = DEFAULT, *, dry_run: bool = False) -> Mapping[str, int]:
        """Delete the episodes that are older than `[episodes]` keeps their type; their numbers by type."""
        return await self.observation_forgetter.expire(self.settings.episodes.kept_days, dry_run=dry_run)

    @in_tenant
    async def redact_episodes(self, scope: Scope, refs: Sequence[str] = (), *, dry_run: bool = False) -> int:
        """Replace all that was said in episodes, by ref or of a session; they stay in their places. Their number.

        Raises BadInput if neither refs nor a session are named, and NotFound if a ref is not there.
        """
        if not refs and scope.session_id is None:
            raise BadInput("say what to redact: refs, or a session_id")
        if refs:
            rows = await self.observation_forgetter.named(refs, scope)
            if missing := {*refs} - {f"{EPISODE}{row['seq']}" for row in rows}:
                raise NotFound(f"there is no episode {min(missing)!r} here; nothing was redacted")
        else:
            rows = await self.observation_forgetter.found(Wanted(scope), MAX_REDACTED)
        return len(rows) if dry_run else await self.observation_forgetter.redact(rows)

    async def _catch_up(self) -> None:
        """Harvest the little that may be left from an append during a fault."""
        self.journal.require_reachable()
        await self.observations.catch_up()


def require_scope(scope: Scope, all_users: bool) -> None:
    """Raise BadInput for a request that says nothing of whose observations it asks for."""
    if not all_users and not is_scoped(scope):
        raise BadInput(f"{SCOPE_REQUIRED}; or all_users (--all-users), as the home's owner")


def wanted(request: EpisodeQuery | EpisodeSearch) -> Wanted:
    """The filter of a request."""
    return Wanted(request.scope, request.types, request.lanes, request.after, request.before)


def _position(cursor: str | None) -> int | None:
    found = None if cursor is None else parse_cursor(cursor)
    if cursor is not None and found is None:
        raise BadInput("cursor: give next_cursor of the page before, as it is")
    return found


def _shown(row: Any, *, include_payload: bool = False) -> wire.Episode:
    return cast("wire.Episode", observations.shown(row, include_payload=include_payload))
