"""Requests about episodes: the observations of an agent's sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fusion import wire
from fusion.client.calls.call import Call, not_none, quoted

if TYPE_CHECKING:
    from datetime import datetime

VERB_S = 3600.0
"""seconds for a verb, which may read a whole store"""


def append_episodes(
    episodes: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, idempotency_key: str | None = None
) -> Call[wire.EpisodesKept]:
    """Keep one observation or up to 100 as evidence, which no answer of `fuse` has. Acknowledged is kept."""
    headers = {"idempotency-key": idempotency_key}
    return Call("POST", "/v1/episodes/append", episodes, headers=not_none(headers))


def query_episodes(
    *,
    types: Sequence[str] = (),
    lanes: Sequence[str] = (),
    after: datetime | str | None = None,
    before: datetime | str | None = None,
    include_payload: bool = False,
    limit: int = 50,
    newest_first: bool = False,
    cursor: str | None = None,
    all_users: bool | None = None,
    **scope: str | None,
) -> Call[wire.EpisodePage]:
    """A page of episodes in the order of their times. ``scope`` names a user, an agent, a session or a project."""
    return Call.post("/v1/episodes/query", locals())


def episode(ref: str, **scope: str | None) -> Call[wire.Episode]:
    """One episode by its ref, as ep:7, with its payload."""
    return Call.get(f"/v1/episodes/{quoted(ref)}", scope)


def grade_episode(ref: str, importance: float | str, *, why: str = "", **scope: str | None) -> Call[wire.Episode]:
    """Set the importance of one episode by hand: 0 to 1, or must_remember, nice_to_have, ignore or unknown."""
    body = {"importance": importance, "why": why, **scope}
    return Call("PATCH", f"/v1/episodes/{quoted(ref)}", not_none(body))


def working_set(*, limit: int = 12, **scope: str | None) -> Call[wire.WorkingSet]:
    """The latest episodes of the session that ``scope`` names, oldest first."""
    return Call.get("/v1/episodes/working-set", locals())


def search_episodes(
    query: str,
    *,
    mode: str = "lexical",
    lanes: Sequence[str] = ("episodes",),
    types: Sequence[str] = (),
    after: datetime | str | None = None,
    before: datetime | str | None = None,
    include_payload: bool = False,
    limit: int = 20,
    trace: bool = False,
    all_users: bool | None = None,
    **scope: str | None,
) -> Call[wire.EpisodeSearchReply]:
    """The episodes that fit a query, best first: by words (lexical), by meaning (vector), or both (hybrid)."""
    return Call.post("/v1/episodes/search", locals())


def embed_episodes(
    *, lanes: Sequence[str] = (), limit: int = 200, all_users: bool | None = None, **scope: str | None
) -> Call[wire.EpisodesEmbedded]:
    """Make the vectors of up to ``limit`` episodes that have none, for searches by meaning."""
    return Call.post("/v1/episodes/embed", locals(), timeout_s=VERB_S)


def redact_episodes(
    *, refs: Sequence[str] = (), dry_run: bool = False, **scope: str | None
) -> Call[wire.EpisodesRedacted]:
    """Replace all that was said in episodes, by ref or of a session; they stay in their places."""
    return Call.post("/v1/episodes/redact", locals())
