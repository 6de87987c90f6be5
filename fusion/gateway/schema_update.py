"""The schemas of all tenants in PostgreSQL brought to this version's: before an update of the gateways, or as a trial.

A gateway does the same to a tenant's schema when it opens it. Done ahead, no request waits for it. As a trial, which
makes every step and takes it back, it says whether the update would pass on this database.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from fusion.errors import FusionError
from fusion.journal import Journal
from fusion.journal.schema import OLDEST, STEPS
from fusion.store.rows import EVENT_COLUMNS

if TYPE_CHECKING:
    from fusion.store.postgres import Server


@dataclass(frozen=True, slots=True)
class SchemaUpdate:
    """The schema of a tenant: the ``version`` that it had, the ``columns`` that it lacked, and whether it was ``due``.

    ``error`` says why it stays as it is.
    """

    tenant: str
    version: int = 0
    columns: tuple[str, ...] = ()
    due: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True)
class SchemaUpdates:
    """What an update of a database's schemas did, or with ``dry_run`` would do.

    ``version`` is this program's; gateways of versions from ``oldest`` on can use what it leaves.
    """

    place: str
    dry_run: bool
    schemas: tuple[SchemaUpdate, ...]
    version: int
    oldest: int

    @property
    def due(self) -> int:
        return sum(one.due for one in self.schemas)

    @property
    def failed(self) -> bool:
        return any(one.error for one in self.schemas)


async def update_schemas(
    server: Server, *, dry_run: bool, steps: Sequence[str] = STEPS, oldest: int = OLDEST
) -> SchemaUpdates:
    """Migrate the schema of each tenant, in a transaction of its own; with ``dry_run`` each is taken back.

    Gateways go on; requests of the tenant whose steps are made wait for them. A schema whose step fails stays as it
    was, and the others are migrated.
    """
    from fusion.store.postgres import Database

    done = []
    for tenant in server.tenants():
        try:
            version, columns = await Database.update(
                server, tenant, steps, oldest=oldest, columns=EVENT_COLUMNS, dry_run=dry_run
            )
            if not dry_run:
                await (await Journal.open_shared(server, tenant)).close()  # which fills in what the new columns lack
        except FusionError as error:
            done.append(SchemaUpdate(tenant, error=str(error)))
        else:
            done.append(SchemaUpdate(tenant, version, columns, due=version < len(steps) or bool(columns)))
    return SchemaUpdates(server.place, dry_run, tuple(done), len(steps), oldest)


def as_json(done: SchemaUpdates) -> dict[str, Any]:
    """The update as a JSON object."""
    return asdict(done)
