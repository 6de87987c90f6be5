"""Owners: how many current memories each user and agent of a tenant has, counted as they come and go.

A question that names nobody is answered only where that means one user and one agent (`fusion.gateway.owners`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fusion.contract import Event
from fusion.store.database import Connection
from fusion.store.rows import storable

SCHEMA = """
create table owned(
    tenant text not null, user_id text not null, agent_id text not null, n integer not null,
    primary key(tenant, user_id, agent_id)
) without rowid;
insert into owned
    select tenant, coalesce(user_id, ''), coalesce(agent_id, ''), count(*) from event
    where forgotten = 0 and superseded_by is null group by 1, 2, 3;
"""

NAMED = 10
"""most users, and most agents, that an error names"""


@dataclass(frozen=True, slots=True)
class Owners:
    """The users and agents that have current memories in a tenant, by name; no more than `NAMED` + 1 of each.

    Memories without a user, and without an agent, belong to nobody in particular and add none.
    """

    users: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()

    def include(self, event: Event) -> bool:
        """Whether an event's user and agent are among these, or too many are known already for that to matter."""
        scope = event.scope
        return _is_among(scope.user_id, self.users) and _is_among(scope.agent_id, self.agents)


def _is_among(name: str | None, names: tuple[str, ...]) -> bool:
    return name is None or name in names or len(names) > NAMED


def count(db: Connection, event: Event, sign: int) -> None:
    """Add a current memory to the count of its owner, or subtract it with ``sign`` -1."""
    scope = event.scope
    owner = (scope.tenant, *(storable(name or "") for name in (scope.user_id, scope.agent_id)))
    db.execute(
        "insert into owned values(?, ?, ?, ?) on conflict(tenant, user_id, agent_id) do update "
        "set n = owned.n + excluded.n",
        (*owner, sign),
    )
    if sign < 0:
        db.execute("delete from owned where tenant = ? and user_id = ? and agent_id = ? and n <= 0", owner)


def count_added(db: Connection, events: Sequence[Event]) -> None:
    """Add new memories to the counts of their owners."""
    scopes = (event.scope for event in events)
    added = Counter((scope.tenant, scope.user_id or "", scope.agent_id or "") for scope in scopes)
    db.executemany(
        "insert into owned values(?, ?, ?, ?) on conflict(tenant, user_id, agent_id) do update "
        "set n = owned.n + excluded.n",
        [(tenant, storable(user), storable(agent), n) for (tenant, user, agent), n in added.items()],
    )


def read(db: Connection, tenant: str) -> Owners:
    """The owners of a tenant's memories. Reads the agents only where there is one user: it is not asked otherwise."""
    users = _names(db, "user_id", tenant)
    return Owners(users, _names(db, "agent_id", tenant) if len(users) < 2 else ())


def by_agent(db: Connection, tenant: str) -> dict[str, int]:
    """How many current memories each agent has, by name; of the first `NAMED` agents."""
    rows = db.execute(
        "select agent_id, sum(n) as n from owned where tenant = ? and agent_id <> '' group by agent_id "
        "order by agent_id limit ?",
        (tenant, NAMED),
    )
    return {row["agent_id"]: row["n"] for row in rows}


def _names(db: Connection, column: str, tenant: str) -> tuple[str, ...]:
    rows = db.execute(
        f"select distinct {column} as name from owned where tenant = ? and {column} <> '' order by {column} limit ?",
        (tenant, NAMED + 1),
    )
    return tuple(row["name"] for row in rows)
