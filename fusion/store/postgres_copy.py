"""A copy of a tenant's tables in PostgreSQL as a file of SQLite, for what works on a copy alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from fusion.store import database
from fusion.store.postgres import Connection
from fusion.store.tables import Table


def has_tenant(db: database.Connection, tenant: str) -> bool:
    """Whether a tenant has a schema."""
    registered = "select 1 from fusion.tenant where name = ? and to_regnamespace(schema) is not null"
    return db.execute(registered, (tenant,)).fetchone() is not None


def copy_into(db: Connection, copy: sqlite3.Connection, tables: Sequence[Table]) -> None:
    """Copy the rows of a tenant into a migrated file, table by table, as of the transaction's snapshot.

    ``tables`` are in the order of `fusion.store.tables.tables_of`.
    """
    copy.execute("begin")
    for table in tables:
        names, marks = ", ".join(table.columns), ", ".join("?" * len(table.columns))
        copy.execute(f"delete from {table.name}")  # what the migrations enter
        rows = db.stream(f"select {names} from {table.name}{table.where}")
        copy.executemany(f"insert into {table.name}({names}) values({marks})", rows)
    copy.execute("commit")
