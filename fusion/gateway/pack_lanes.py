"""The hot and the cold lane of a context pack: the working set of a session, and the episodes that fit a question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fusion.contract import Scope
from fusion.errors import FusionError
from fusion.gateway.episodes import WORKING_SET
from fusion.gateway.parts import TenantParts
from fusion.ingest.observe import is_scoped
from fusion.journal import observations
from fusion.journal.observations import Wanted
from fusion.recall.pack_evidence import ENOUGH, Searched, evidence_of

NOT_SCOPED = "no user, agent, session or project is named, and observations belong to one"


async def working_set(parts: TenantParts, scope: Scope, session: str | None, max_items: int, tokens: int) -> Searched:
    """The latest observations of a session, oldest first."""
    if session is None:
        return Searched(False, "no session is named")
    try:
        await parts.observations.catch_up()
        wanted = Wanted(replace(scope, session_id=session))
        rows = await parts.journal.read(observations.page, wanted, min(WORKING_SET, max_items), newest_first=True)
    except (FusionError, OSError) as error:
        return Searched(False, f"observations could not be read: {type(error).__name__}")
    latest = [observations.shown(row) for row in rows]
    kept = evidence_of(latest, "hot", max_items, tokens)
    return Searched(True, "the request names a session and the lane hot", kept[::-1])


async def episodes(
    parts: TenantParts,
    scope: Scope,
    query: str,
    max_items: int,
    tokens: int,
    *,
    asked: bool,
    shown: frozenset[str] = frozenset(),
) -> Searched:
    """The episodes that fit a question, best first, without those ``shown`` already.

    Without being ``asked`` for only those that have most of the question's words.
    """
    why = "the request names the lane cold" if asked else "no memory answers the question"
    if not is_scoped(scope):
        return Searched(False, NOT_SCOPED)
    try:
        await parts.observations.catch_up()
        wanted = Wanted(scope, lanes=("episodes",))
        found: Sequence[observations.Match] = await parts.journal.read(
            observations.by_words, query, wanted, 2 * max_items + len(shown)
        )
    except (FusionError, OSError) as error:
        return Searched(False, f"observations could not be read: {type(error).__name__}")
    fits = [observations.shown(one.row) for one in found if asked or one.score >= ENOUGH]
    new = [one for one in fits if one["ref"] not in shown]
    return Searched(True, why, evidence_of(new, "cold", max_items, tokens))
