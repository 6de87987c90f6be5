"""The journals of one home in a PostgreSQL database while `fusion migrate` moves them there, or away from there.

A schema that is being filled has no foreign keys, no triggers of its own and no row-level security, since rows come
table by table. It is in ``fusion.closed`` with the statements that complete it, and no gateway opens it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

import psycopg
from psycopg import pq

from fusion.errors import BadInput, DatabaseUnreachable, SettingsError, StoreBusy, StoreDamaged
from fusion.store.copies import Values
from fusion.store.postgres import (
    BEGIN,
    BUSY_S,
    CLOSED,
    LOCK_TENANTS,
    MOVES,
    READ_ONLY,
    Server,
    chosen,
    create_schema,
    lock_number,
    schema_of,
    secure_rows,
)
from fusion.store.postgres_sql import SAFE_PATH
from fusion.store.tables import FOR_NUL, NUL, NUMBERS, Sum, Table, hash_in_postgres

OLDEST_SERVER = 130_000
"""the oldest version of PostgreSQL, as it says it"""
FILLED = (
    "is being filled by `fusion migrate`. Run that again to its end; or, to give it up, drop this schema and its row "
    "in fusion.closed"
)
MOVED = "was moved to SQLite by `fusion migrate` on {day}. Take [database] url away, or name another database"
_TYPES = {"integer": "bigint", "text": "text", "blob": "bytea", "real": "double precision"}
_FETCHED = 2_000
"""rows in one message"""
_KEYS = """
select format('alter table %s drop constraint %I', cast(cast(conrelid as regclass) as text), conname),
       format('alter table %s add constraint %I %s', cast(cast(conrelid as regclass) as text), conname,
              pg_get_constraintdef(oid))
from pg_constraint where contype = 'f' and connamespace = to_regnamespace('{schema}') order by 1
"""
_TRIGGERS = """
select distinct format('alter table %s disable trigger user', cast(cast(tgrelid as regclass) as text)),
       format('alter table %s enable trigger user', cast(cast(tgrelid as regclass) as text))
from pg_trigger t join pg_class c on c.oid = t.tgrelid
where not tgisinternal and c.relnamespace = to_regnamespace('{schema}') order by 1
"""
_NUMBERED = """
select table_name, column_name from information_schema.columns
where table_schema = '{schema}' and column_default like 'next_number(%'
"""
_SIZE = """
select coalesce(sum(pg_total_relation_size(oid)), 0) from pg_class
where relkind = 'r' and relnamespace = to_regnamespace('{schema}')
"""


class PostgresTables:
    """The tables of one tenant. Within a transaction of the caller's, if there is one; else each call has its own."""

    def __init__(self, server: Server, raw: psycopg.Connection[Any], schema: str) -> None:
        self._server, self._raw, self._schema = server, raw, schema

    def sum(self, table: Table) -> Sum:
        query = f"select count(*), coalesce(sum({hash_in_postgres(table)}), 0) from {_rows_of(table)}"
        with self._transaction():
            row = self._raw.execute(query).fetchone()
        return Sum(*map(int, row or (0, 0)))

    def count(self, table: Table) -> int:
        with self._transaction():
            row = self._raw.execute(f"select count(*) from {_rows_of(table)}").fetchone()
        return int((row or (0,))[0])

    def hashes(self, table: Table) -> Iterator[Values]:
        return self._streamed(f"select {table.keys}, {hash_in_postgres(table)} from {_rows_of(table)}")

    def rows(self, table: Table) -> Iterator[Values]:
        return self._streamed(f"select {table.names} from {_rows_of(table)} order by {table.keys}")

    def found(self, table: Table, keys: Sequence[Values]) -> Iterable[Values]:
        arrays = ", ".join(f"cast(%s as {_TYPES[table.columns[name] or 'text']}[])" for name in table.key)
        within = f"({table.keys}) in (select * from unnest({arrays}))"
        query = f"select {table.names} from {_rows_of(table)} {'and' if table.condition else 'where'} {within}"
        with self._transaction():
            rows = self._raw.execute(query, [list(column) for column in zip(*keys, strict=True)]).fetchall()
        return map(_with_nul, rows)

    def change(self, table: Table, gone: Sequence[Values], rows: Sequence[Values]) -> None:
        key = " and ".join(f'"{name}" = %s' for name in table.key)
        with self._transaction(), self._raw.cursor() as cursor:
            if gone:
                cursor.executemany(f'delete from "{table.name}" where {key}', gone)
            if rows:
                with cursor.copy(f'copy "{table.name}"({table.names}) from stdin') as copy:
                    for row in rows:
                        if any(isinstance(value, str) and FOR_NUL in value for value in row):
                            raise BadInput(
                                "a name or a text has the character U+10FFFF, which would come back as a NUL: remove "
                                f"it. It is in table {table.name}, {_named(table, row)}"
                            )
                        copy.write_row(row)

    def _streamed(self, query: str) -> Iterator[Values]:
        with self._transaction(), self._raw.cursor(name="copied") as cursor:
            cursor.itersize = _FETCHED
            yield from map(_with_nul, cursor.execute(query))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._server.errors(), _transaction(self._raw):
            self._raw.execute(chosen(self._schema))
            yield


def _rows_of(table: Table) -> str:
    rows = f"({table.in_postgres}) t" if table.in_postgres else f'"{table.name}"'
    return rows + table.where


def _named(table: Table, row: Values) -> str:
    """The key of a row, for a message."""
    values = dict(zip(table.columns, row, strict=True))
    return ", ".join(f"{name} {values[name]!r}" for name in table.key)


def _with_nul(row: Values) -> Values:
    return tuple([value.replace(FOR_NUL, NUL) if isinstance(value, str) else value for value in row])


@contextmanager
def _transaction(raw: psycopg.Connection[Any], begin: str = BEGIN) -> Iterator[None]:
    """A transaction; the one that is under way, if there is one."""
    if raw.info.transaction_status != pq.TransactionStatus.IDLE:
        yield
        return
    raw.execute(begin)
    try:
        yield
        raw.execute("commit")
    except BaseException:
        if not raw.closed and raw.info.transaction_status != pq.TransactionStatus.IDLE:
            with suppress(psycopg.Error):
                raw.execute("rollback")
        raise


@dataclass(frozen=True, slots=True)
class Closed:
    """A schema that no gateway may open. ``moved``: its tables were renamed, and are in SQLite now."""

    journal: str
    """the id of the journal"""
    moved: bool


class Migration:
    """One connection for the whole of a migration; a second migration is refused meanwhile."""

    def __init__(self, server: Server, steps: Sequence[str], oldest: int) -> None:
        """``steps`` and ``oldest`` are those of `Database.open`."""
        self.server = server
        self._steps, self._oldest = steps, oldest
        with server.errors():
            self._raw = server.connect(application_name=MOVES)
            self._raw.execute(f"set {SAFE_PATH}")

    def close(self) -> None:
        # The server ends a connection a moment after its client; the next run must not find the lock taken.
        with suppress(psycopg.Error):
            self._raw.execute("select pg_advisory_unlock_all()")
        self._raw.close()

    def lock(self) -> None:
        """Raises StoreBusy while another migration is at work in this database."""
        with self.server.errors():
            row = self._raw.execute("select pg_try_advisory_lock(hashtext('fusion migrate'))").fetchone()
        if row != (True,):
            raise StoreBusy(
                f"another `fusion migrate` is at work in PostgreSQL at {self.server.place}: wait for its end"
            )

    def require_usable(self) -> None:
        """Raises SettingsError for a database that journals cannot be in, and DatabaseUnreachable for a replica."""
        with self.server.errors():
            version, recovering, read_only, may_create = self._raw.execute(
                "select cast(current_setting('server_version_num') as integer), "
                "pg_is_in_recovery(), current_setting('default_transaction_read_only') = 'on', "
                "has_database_privilege(current_database(), 'create')"
            ).fetchone() or (0, False, False, False)
        where = f"PostgreSQL at {self.server.place}"
        if version < OLDEST_SERVER:
            raise SettingsError(f"{where} is version {version // 10_000}: 13 is the oldest that journals can be in")
        if recovering or read_only:
            raise DatabaseUnreachable(f"{where} {READ_ONLY}")
        if not may_create:
            raise SettingsError(f"{where} does not let the role make a schema: make it the owner of the database")

    def tenants(self) -> list[str]:
        """The names of the tenants that have a schema."""
        return self.server.tenants()

    def closed(self) -> Mapping[str, Closed]:
        """By schema, those that no gateway may open."""
        with self.server.errors():
            there = self._raw.execute("select to_regclass('fusion.closed') is not null").fetchone()
            if there != (True,):
                return {}
            rows = self._raw.execute("select schema, journal, why from fusion.closed").fetchall()
        return {schema: Closed(journal, why != FILLED) for schema, journal, why in rows}

    def fill(self, tenant: str, journal: str) -> PostgresTables:
        """The tables of a tenant's schema, which is made, closed to gateways, if it is not there.

        Raises StoreDamaged for one that another version has begun to fill, and BadInput for one that a gateway or
        another home has made since `require_room` looked: what it has would be taken for rows to delete.
        """
        schema = schema_of(tenant)
        with self.server.errors(), _transaction(self._raw):
            self._raw.execute(LOCK_TENANTS)
            self._raw.execute(CLOSED)
            (there,) = self._raw.execute("select to_regnamespace(%s) is not null", (schema,)).fetchone() or (False,)
            if there:
                require_room([tenant], {schema: journal}, self.closed(), self.server.place)
                self._require_version(schema)
            else:
                create_schema(self._raw, tenant, self._steps, self._oldest)
                finish = [*self._open_for_rows(_KEYS, schema), *self._open_for_rows(_TRIGGERS, schema)]
                self._raw.execute(
                    "insert into fusion.closed values(%s, %s, %s, %s) on conflict(schema) do update set "
                    "journal = excluded.journal, why = excluded.why, finish = excluded.finish",
                    (schema, journal, FILLED, "; ".join(finish)),
                )
        return PostgresTables(self.server, self._raw, schema)

    def _require_version(self, schema: str) -> None:
        self._raw.execute(chosen(schema))
        (version,) = self._raw.execute("select version from version").fetchone() or (0,)
        if version != len(self._steps):
            raise StoreDamaged(
                f"the schema {schema} in PostgreSQL at {self.server.place} is of version {version}, ours is "
                f"{len(self._steps)}: use the version of memory-fusion that wrote it, or drop the schema and its row "
                "in fusion.closed to begin again"
            )

    def _open_for_rows(self, query: str, schema: str) -> list[str]:
        """Take away what hinders copying table by table; returns the statements that bring it back."""
        found = self._raw.execute(query.format(schema=schema)).fetchall()
        for remove, _ in found:
            self._raw.execute(remove)
        return [bring_back for _, bring_back in found]

    def read(self, tenant: str) -> PostgresTables:
        """The tables of a tenant's schema. Raises StoreDamaged for one of another version."""
        schema = schema_of(tenant)
        with self.server.errors(), _transaction(self._raw):
            self._require_version(schema)
        return PostgresTables(self.server, self._raw, schema)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """A transaction in which all reads see one moment."""
        with self.server.errors(), _transaction(self._raw, "begin isolation level repeatable read read only"):
            yield

    def bytes(self, tenant: str) -> int:
        """Of a tenant's tables and indexes."""
        with self.server.errors():
            return int((self._raw.execute(_SIZE.format(schema=schema_of(tenant))).fetchone() or (0,))[0])

    @contextmanager
    def opening(self, tenants: Iterable[str]) -> Iterator[None]:
        """Complete the schemas before the block, and open them to gateways after it, in one transaction.

        So what the block does is done while no gateway can open them; if it fails, they stay closed.
        """
        schemas = [schema_of(tenant) for tenant in tenants]
        with self.server.errors(), _transaction(self._raw):
            for schema in schemas:
                self._raw.execute(chosen(schema))
                self._complete(schema)
            yield
            self._raw.execute("delete from fusion.closed where schema = any(%s)", (schemas,))

    def _complete(self, schema: str) -> None:
        for table, column in self._raw.execute(_NUMBERED.format(schema=schema)).fetchall():
            self._raw.execute(
                f"insert into {NUMBERS} select '{table}', max({column}) from \"{table}\" "
                f"having max({column}) is not null "
                f"on conflict(name) do update set seq = greatest({NUMBERS}.seq, excluded.seq)"
            )
        finish = self._raw.execute("select finish from fusion.closed where schema = %s", (schema,)).fetchone()
        for statement in (finish or ("",))[0].split("; "):
            if statement:
                self._raw.execute(statement)
        secure_rows(self._raw, schema)

    @contextmanager
    def fence(self) -> Iterator[list[str]]:
        """A transaction during which no gateway writes, and none makes a tenant; reads go on. Others' writes wait, or
        get 503. Gives the tenants that there are.

        Raises StoreBusy if a gateway's own write does not end.
        """
        with self.server.errors(), _transaction(self._raw):
            self._raw.execute(f"set local lock_timeout to '{2 * BUSY_S}s'")
            self._raw.execute(LOCK_TENANTS)
            tenants = self.tenants()
            for tenant in tenants:
                schema = schema_of(tenant)
                self._raw.execute(f"select pg_advisory_xact_lock({lock_number(schema)})")
                # Receipts and claims of deliveries are written without that lock.
                self._raw.execute(f"lock table {schema}.receipt, {schema}.delivery in share mode")
            yield tenants

    def move_away(self, journals: Mapping[str, str], now: datetime) -> list[str]:
        """Rename the schemas of tenants, within the fence, so that no gateway finds them; returns the new names.

        ``journals`` are the ids of their journals.
        """
        renamed = []
        with self.server.errors():
            self._raw.execute(CLOSED)
            for tenant, journal in journals.items():
                schema = schema_of(tenant)
                digest = sha256(schema.encode()).hexdigest()[:16]
                renamed.append(f"moved_{digest}_{now:%Y%m%dt%H%M%S}")
                self._raw.execute(f"alter schema {schema} rename to {renamed[-1]}")
                self._raw.execute("delete from fusion.tenant where schema = %s", (schema,))
                self._raw.execute(
                    "insert into fusion.closed values(%s, %s, %s, '') on conflict(schema) do update set "
                    "journal = excluded.journal, why = excluded.why, finish = excluded.finish",
                    (schema, journal, MOVED.format(day=f"{now:%Y-%m-%d}")),
                )
        return renamed


def require_room(names: Iterable[str], ours: Mapping[str, str], closed: Mapping[str, Closed], place: str) -> None:
    """Raises BadInput unless the database is empty, or holds an unfinished migration of the same home.

    ``names`` are its tenants, and ``ours`` by schema the ids of the home's journals.
    """
    others = [name for name in names if (one := closed.get(schema_of(name))) is None or one.moved]
    if others:
        raise BadInput(
            f"PostgreSQL at {place} has the journals of a home already, with the tenant {others[0]!r}: name an empty "
            "database"
        )
    for name in names:
        schema = schema_of(name)
        if ours.get(schema) != closed[schema].journal:
            raise BadInput(
                f"PostgreSQL at {place} has an unfinished migration of another home: finish that, or name another "
                "database"
            )
