"""The schemas of all tenants, migrated at once or as a trial, on a real PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace

import pytest

from fusion.gateway.schema_update import SchemaUpdate, update_schemas
from fusion.journal.schema import OLDEST, STEPS
from fusion.store.rows import EVENT_COLUMNS
from tests.postgres.servers import Database as Place

psycopg = pytest.importorskip("psycopg")

from fusion.store.postgres import Database, Server, schema_of  # noqa: E402 – imported late, as its package is optional

STEP = "create table later(a text primary key); alter table card add column extra integer"


@pytest.fixture
async def server(postgres_database: Place) -> AsyncIterator[Server]:
    """A database with the schemas of two tenants."""
    opened = Server(postgres_database.url)
    opened.open()
    for tenant in ("acme", "globex"):
        await (await Database.open(opened, tenant, STEPS, columns=EVENT_COLUMNS)).close()
    yield opened
    opened.close()


def later_in(place: Place) -> list[str]:
    """The tenants whose schema has the step's table."""
    with closing(psycopg.connect(place.admin_url)) as db:
        return [
            tenant
            for tenant in ("acme", "globex")
            if db.execute("select to_regclass(%s)", (f"{schema_of(tenant)}.later",)).fetchone() != (None,)
        ]


@pytest.mark.feature(
    "`fusion migrate --schema` brings the tables of all tenants in PostgreSQL to the program's version ahead of its "
    "gateways; --dry-run makes each step and takes it back"
)
async def test_a_trial_makes_each_step_and_takes_it_back(server: Server, postgres_database: Place) -> None:
    trial = await update_schemas(server, dry_run=True, steps=(*STEPS, STEP))
    assert trial.schemas == (
        SchemaUpdate("acme", len(STEPS), due=True),
        SchemaUpdate("globex", len(STEPS), due=True),
    )
    assert (trial.due, trial.failed, trial.version, trial.oldest) == (2, False, len(STEPS) + 1, OLDEST)
    assert later_in(postgres_database) == []
    done = await update_schemas(server, dry_run=False, steps=(*STEPS, STEP))
    assert done == replace(trial, dry_run=False)
    assert later_in(postgres_database) == ["acme", "globex"]
    again = await update_schemas(server, dry_run=True, steps=(*STEPS, STEP))
    assert (again.due, [one.version for one in again.schemas]) == (0, [len(STEPS) + 1] * 2)


async def test_columns_that_a_new_version_adds_are_named(server: Server, postgres_database: Place) -> None:
    """A schema without a column of the events is migrated also if its version is this one's."""
    with closing(psycopg.connect(postgres_database.admin_url, autocommit=True)) as db:
        db.execute(f"alter table {schema_of('globex')}.event drop column raw_kind")
    done = await update_schemas(server, dry_run=False)
    assert [one.columns for one in done.schemas] == [(), ("raw_kind",)]
    assert (await update_schemas(server, dry_run=True)).due == 0


async def test_a_schema_whose_step_fails_stays_and_the_others_are_migrated(
    server: Server, postgres_database: Place
) -> None:
    """The table of one tenant is there already: its transaction is taken back, and the report says why."""
    with closing(psycopg.connect(postgres_database.admin_url, autocommit=True)) as db:
        db.execute(f"create table {schema_of('acme')}.later(a text primary key)")
    done = await update_schemas(server, dry_run=False, steps=(*STEPS, STEP))
    acme, globex = done.schemas
    assert (done.failed, done.due) == (True, 1)
    assert "later" in acme.error
    assert globex == SchemaUpdate("globex", len(STEPS), due=True)
    with closing(psycopg.connect(postgres_database.admin_url)) as db:
        versions = [
            db.execute(f"select version from {schema_of(one)}.version").fetchone() for one in ("acme", "globex")
        ]
    assert versions == [(len(STEPS),), (len(STEPS) + 1,)]
