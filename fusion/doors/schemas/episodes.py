"""The requests about episodes: append, list, search and embed the observations of an agent's sessions."""

from __future__ import annotations

from typing import Annotated

from pydantic import Discriminator, Field, JsonValue, Tag
from pydantic.functional_validators import AfterValidator, BeforeValidator

from fusion.doors.schemas.base import (
    MAX_BATCH,
    Asking,
    Id,
    Importance,
    PageCursor,
    QueryText,
    Refs,
    Scoped,
    Since,
    Until,
    integer,
    printable,
)
from fusion.doors.schemas.proposals import Reason
from fusion.doors.validation import MANY, ONE
from fusion.gateway.episodes import EMBED_LIMIT, MAX_WORKING_SET, WORKING_SET, EpisodeQuery, EpisodeSearch
from fusion.lib.observation import EpisodeType, Lane, NewObservation, SearchMode

MAX_SUMMARY_CHARS = 10_000
"""characters of a summary that are accepted; it is cut to 220"""

_Types = Annotated[tuple[EpisodeType, ...], Field(max_length=16, strict=False)]
_Lanes = Annotated[tuple[Lane, ...], Field(max_length=16, strict=False)]


class EpisodeBody(Scoped):
    """One observation to keep as evidence. It names a user, an agent, a session or a project.

    The same event_id of one user and agent is stored once.
    """

    type: EpisodeType
    summary: Annotated[str, Field(max_length=MAX_SUMMARY_CHARS), AfterValidator(printable)] = Field(
        default="", description="one line of at most 220 characters; without one, the beginning of the payload"
    )
    payload: JsonValue = Field(
        default=None, description="what was said, called or returned; cut to 2,048, 4,096 or 8,192 bytes by type"
    )
    refs: dict[str, JsonValue] | None = Field(default=None, description="what it belongs to; at most 1,024 bytes")
    ts: Since | None = Field(default=None, description="when it happened, if not now")
    event_id: Id | None = None
    tool: Id | None = Field(default=None, description="the name of the tool")
    lane: Lane | None = Field(default=None, description="by default that of the tool: what it read, or an episode")
    kind: Id | None = Field(default=None, description="the source's own word for it")
    source: Id | None = Field(default=None, description="where it comes from")

    def observation(self) -> NewObservation:
        """The observation for `fusion.ingest`, which adds the tenant."""
        return self._as(NewObservation, scope=self.scope("default"), raw_kind=self.kind)


EpisodesBody = Annotated[
    Annotated[EpisodeBody, Tag(ONE)]
    | Annotated[list[EpisodeBody], Field(min_length=1, max_length=MAX_BATCH), Tag(MANY)],
    Discriminator(lambda body: MANY if isinstance(body, list) else ONE),
]


class _Episodes(Asking):
    """Which episodes: here the project filters, as the scope of openclaw-mem does."""

    types: _Types = Field(default=(), description="of these types; none: of all")
    after: Since | None = Field(default=None, description="that happened then or later")
    before: Until | None = Field(default=None, description="…or earlier; a date is the end of that day")
    include_payload: bool = Field(default=False, description="with payload and refs, which may be long")


class EpisodeQueryBody(_Episodes):
    """Which episodes to list, in the order of their times."""

    lanes: _Lanes = Field(default=(), description="of these lanes; none: of all")
    limit: Annotated[int, Field(ge=1, le=500)] = 50
    newest_first: bool = False
    cursor: PageCursor = None

    def request(self, tenant: str) -> EpisodeQuery:
        return self._as(EpisodeQuery, scope=self.scope(tenant))


class WorkingSetQuery(Scoped):
    """How much of a session to show. It names session_id; here the project filters."""

    limit: Annotated[int, Field(ge=1, le=MAX_WORKING_SET), BeforeValidator(integer)] = WORKING_SET


class EpisodeGradeBody(Scoped):
    """The importance that a person gives an episode."""

    importance: Importance
    why: Reason = Field(default="", description="the reason, which the episode shows")


class EpisodeSearchBody(_Episodes):
    """A search among episodes, by words, by meaning, or both."""

    query: QueryText
    mode: SearchMode = Field(default="lexical", description="vector and hybrid need vectors: POST /v1/episodes/embed")
    lanes: _Lanes = Field(default=("episodes",), description="other lanes are searched only if they are named")
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    trace: bool = Field(default=False, description="with the rank of each episode by words and by vectors")

    def request(self, tenant: str) -> EpisodeSearch:
        return self._as(EpisodeSearch, scope=self.scope(tenant))


class EpisodeEmbedBody(Asking):
    """Which episodes to make vectors of: those of the scope that have none of the home's model, newest first."""

    lanes: _Lanes = Field(default=(), description="of these lanes; none: of all")
    limit: Annotated[int, Field(ge=1, le=10_000)] = EMBED_LIMIT


class EpisodeRedactBody(Scoped):
    """Which episodes to redact: by ref, or all of a session."""

    refs: Refs = Field(default=(), description="none: all episodes of session_id")
    dry_run: bool = Field(default=False, description="change nothing, and count")
