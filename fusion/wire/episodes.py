"""The replies about episodes: the observations of an agent's sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict


class EpisodeKept(TypedDict):
    """What became of one observation. ``ref`` is empty if it is not kept, or not in the ledger yet."""

    ref: str
    event_id: str
    status: Literal["stored", "duplicate", "blocked", "skipped"]
    pointer: str
    redacted: int
    truncated: bool
    reason: str


class EpisodesKept(TypedDict):
    """One entry for each observation, in the order of the request."""

    episodes: Sequence[EpisodeKept]


class Episode(TypedDict):
    """One observation. ``summary`` is one line; ``payload`` and ``refs`` are there if they were asked for.

    ``pointer`` names its line in the log. ``truncated``: the payload was longer than its type allows.
    """

    ref: str
    event_id: str
    type: str
    lane: str
    ts: str
    user_id: str | None
    agent_id: str | None
    session_id: str | None
    project: str | None
    tool: str | None
    summary: str
    trust: str
    origin: str
    truncated: bool
    redacted: bool
    importance: Mapping[str, Any] | None
    pointer: str | None
    payload: NotRequired[Any]
    refs: NotRequired[Any]
    score: NotRequired[float]


class EpisodePage(TypedDict):
    """A page of episodes in the order of their times."""

    episodes: Sequence[Episode]
    next_cursor: str | None


class WorkingSet(TypedDict):
    """The latest episodes of a session, oldest first, without their payloads."""

    episodes: Sequence[Episode]


class EpisodeSearchReply(TypedDict):
    """Episodes, best first. ``vector_status`` says whether vectors took part; ``trace`` is there on request."""

    mode: str
    episodes: Sequence[Episode]
    vector_status: str
    trace: Mapping[str, Any] | None


class EpisodesEmbedded(TypedDict):
    """How many episodes got a vector of ``model``, and how many are left without one."""

    model: str
    embedded: int
    left: int


class EpisodesRedacted(TypedDict):
    """How many episodes were redacted, or would be in a dry run."""

    redacted: int
    dry_run: bool
