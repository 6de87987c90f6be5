"""The rule for a question that names nobody: it is answered only where that cannot mix several users or agents.

Named is who is given by ``user_id`` or ``agent_id``; a run, a session or a project names nobody. Memories without a
user belong to no particular user, so they are no further user: notes without a user next to one user's memories are one
home. The rule is for what ranks memories by a question: fuse, compare, search, forget by a query, and the verbs and
routes of backends that ask. What lists or shows memories says whose each one is, and is not refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from fusion.contract import Scope
from fusion.errors import NobodyNamed
from fusion.journal import Journal
from fusion.journal.owners import NAMED


async def require_owner(journal: Journal, scope: Scope, all_users: bool) -> None:
    """Raise NobodyNamed for a question in ``scope`` that would mix several users or agents, unless it is ``all_users``.

    Takes microseconds, except after the first memory of a new user or agent.
    """
    if all_users or scope.user_id is not None or scope.agent_id is not None:
        return
    owners = await journal.owners(scope.tenant)
    if len(owners.users) > 1:
        raise NobodyNamed(
            f"Several users have memories here: {_some(owners.users)}. Say whose to ask for: user_id (--user NAME), "
            f"empty for the memories without a user; or all_users (--all-users), as the home's owner",
            {"users": list(owners.users[:NAMED])},
        )
    if len(owners.agents) > 1:
        raise NobodyNamed(
            f"Several agents have memories here: {_some(owners.agents)}. Say whose to ask for: agent_id (--agent NAME) "
            f"or user_id (--user NAME, empty for the memories without a user); or all_users (--all-users), as the "
            f"home's owner",
            {"agents": list(owners.agents[:NAMED])},
        )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (" and more" if len(names) > NAMED else "")
