"""The requests in the shapes of other systems: OpenClaw's memory tools and Memory Cortex."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Literal

from pydantic import ConfigDict, Field

from fusion.contract import Asker, Audience, Scope
from fusion.doors.schemas.base import (
    AskerZone,
    Asking,
    Body,
    Id,
    MemoryText,
    Names,
    QueryText,
    Scoped,
    Until,
    UserId,
    WhereField,
    Zone,
    where_of,
)
from fusion.gateway.memory_flush import Access, Context, Rules, Trigger
from fusion.ingest.intake import MAX_TEXT_CHARS
from fusion.lib.budget import DAILY_LOG_CHARS, MAX_BUDGET_CHARS
from fusion.recall.document import MAX_LINES, PAGE_LINES
from fusion.recall.engine import FuseRequest
from fusion.sources.histories import agent_of

MAX_MESSAGES = 50_000
MAX_RESULTS = 100
AS_CORTEX = ConfigDict(extra="ignore")
"""the configuration of bodies that ignore unknown fields, as Memory Cortex's routes do"""


class FlushBody(Body):
    """The use of a session's context window. Rules that are not set come from the settings."""

    context_window: int = Field(ge=1, le=2**40, description="tokens that the model takes")
    total_tokens: int | None = Field(default=None, ge=0, le=2**40, description="tokens in use; none: not known")
    message: str = Field(default="", description="what comes next, which has to fit as well")
    transcript_bytes: int | None = Field(default=None, ge=0, le=2**53, description="size of the session's transcript")
    compactions: int = Field(default=0, ge=0, le=2**31, description="of this session so far")
    flushed_at: int | None = Field(default=None, ge=0, le=2**31, description="`compactions` at the last flush")
    overflowed: bool = Field(default=False, description="the model has refused the context already")
    trigger: Trigger = Field(default="user", description="what the turn answers to; only a user's is flushed")
    workspace: Access = Field(default="rw", description="what the agent may do there; only rw is flushed")
    cli_backend: bool = Field(default=False, description="another program's command line runs the turns")
    zone: Zone | None = Field(default=None, description="the user's time zone: Europe/Berlin")
    reserve_floor_tokens: int | None = Field(default=None, ge=0, le=2**40, description="kept free for the reply")
    soft_threshold_tokens: int | None = Field(default=None, ge=0, le=2**40, description="how long before that")
    force_transcript_bytes: int | None = Field(default=None, ge=0, le=2**53, description="0: its size is left out")

    def context(self) -> Context:
        return self._as(Context, window_tokens=self.context_window, incoming=self.message)

    def rules(self, configured: Rules) -> Rules:
        names = {field.name for field in fields(Rules)}
        return replace(configured, **self.model_dump(include=names, exclude_none=True))


class SearchToolBody(Asking):
    """memory_search, with the field names of OpenClaw."""

    query: QueryText
    max_results: int = Field(default=6, alias="maxResults", ge=1, le=50, description="results at most")
    min_score: float = Field(default=0.0, alias="minScore", ge=0, le=1, description="results of at least this score")
    citations: Literal["auto", "on", "off"] | None = Field(default=None, description="instead of the setting")
    backends: Names | None = Field(default=None, description="ask only these")
    as_of: Until | None = Field(default=None, description="what was true then; a date is the end of that day")
    timezone: AskerZone = None
    where: WhereField = None
    timeout_ms: int | None = Field(default=None, ge=1, le=60_000, description="for everything, end to end")

    def request(self, tenant: str) -> FuseRequest:
        budget_chars = min(MAX_BUDGET_CHARS, 4000 * self.max_results)  # one memory takes 4,000 of a block at most
        more = {"where": where_of(self.where), "budget_chars": budget_chars, "explain": True}
        return self._as(FuseRequest, scope=self.scope(tenant), **more)


class GetToolBody(Scoped):
    """memory_get: a page of a document, or a memory by its ref."""

    path: str = Field(description="as a result of memory_search names it")
    start: int = Field(default=1, alias="from", ge=1, le=2**53, description="the first line or turn")
    lines: int = Field(default=PAGE_LINES, ge=1, le=MAX_LINES, description="lines or turns at most")


class AppendToolBody(Scoped):
    """memory_append: lines for today's log."""

    text: MemoryText = Field(max_length=MAX_TEXT_CHARS)


class HistoryBody(Body):
    """The whole history of a session, as Memory Cortex's ``POST /ingest`` takes it after each turn."""

    model_config = AS_CORTEX

    messages: list[Any] = Field(
        max_length=MAX_MESSAGES,
        description="{role, content, name, timestamp} each; other roles than user and assistant are left out",
    )
    session_id: Id
    channel: Id | None = None
    user_id: UserId | None = None
    agent_id: Id | None = Field(default=None, description="without it, that of a session_id like agent:main:telegram:1")
    project: Id | None = None
    audience: Audience | None = Field(
        default=None, description="the widest audience that may read it; without it private, unless it was a group's"
    )
    debounce: bool = Field(default=True, description="take it in once no other call came for a while, else at once")

    def scope(self, tenant: str) -> Scope:
        agent = self.agent_id or agent_of(self.session_id)
        return Scope(tenant, self.user_id, agent, None, self.session_id, self.project, self.audience or "private")


class SessionQuery(Body):
    """Which session to describe."""

    session_id: Id
    user_id: UserId | None = None
    agent_id: Id | None = Field(default=None, description="without it, that of a session_id like agent:main:telegram:1")

    def scope(self, tenant: str) -> Scope:
        return Scope(tenant, self.user_id, audience="private")

    def asker(self) -> Asker:
        return Asker(self.agent_id or agent_of(self.session_id), self.session_id)


class CortexQuestion(Asking):
    """What to recall, as Memory Cortex's ``POST /recall`` takes it."""

    model_config = AS_CORTEX

    query: QueryText


class CortexSearchBody(CortexQuestion):
    """What to search for, as Memory Cortex's ``POST /hybrid-search`` takes it."""

    limit: int = Field(default=10, ge=1, le=MAX_RESULTS)


class DailyLogsBody(Asking):
    """The logs of today and yesterday, for the start of a session."""

    zone: Zone | None = Field(default=None, description="the user's time zone, instead of the setting: Europe/Berlin")
    budget_chars: int = Field(default=DAILY_LOG_CHARS, ge=1, le=MAX_BUDGET_CHARS, description="of the block")
