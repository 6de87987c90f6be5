"""A tenant's database in PostgreSQL: a schema of its own, of which any number of gateways write one at a time.

`Server` is the pool of connections that the tenants of one gateway share; `Database` is one tenant's, with the same
port as a file of SQLite. A write transaction begins with the tenant's lock, so numbers are in the order of the commits
and no update is lost. Only claims do without it, and lock their rows. A read sees one snapshot.

Two locks keep tenants apart: the search path of a transaction, and row-level security, whose policies are true only
while ``fusion.tenant`` is the schema of the table.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any, ClassVar, Self, TypeVar, cast

import psycopg
from psycopg import errors
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.numeric import Int8Dumper, NumericLoader
from psycopg.types.string import StrDumper

from fusion.contract import Scope
from fusion.errors import (
    BadInput,
    DatabaseUnreachable,
    FusionError,
    LeaseLost,
    SettingsError,
    StoreBusy,
    StoreDamaged,
    StoreFull,
    Unauthorized,
    UpgradeRequired,
)
from fusion.store import database
from fusion.store.database import FENCE, Fence, Outcome, Values, Waiting
from fusion.store.notifications import Notifications
from fusion.store.postgres_connections import Connections
from fusion.store.postgres_reasons import reason
from fusion.store.postgres_sql import (
    CHANGED,
    FEED,
    FUNCTIONS,
    JSON_FUNCTIONS,
    LAST_CHANGE,
    RECEIPTS,
    SAFE_PATH,
    SHARED,
    definition,
    statement,
    step_statements,
    whole_schema,
)
from fusion.store.tables import FOR_NUL, NUL

log = logging.getLogger(__name__)

T = TypeVar("T")
Given = TypeVar("Given")

BUSY_S = 5
"""seconds that a writer waits for another gateway before StoreBusy"""
SLOW_S = 60
"""seconds that one statement may take"""
CONNECT_S = 5
CONNECTIONS = 10
"""of one gateway, for all its tenants"""
SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
PREPARED = 300
"""statements that a connection keeps prepared"""
MIGRATIONS = 12
"""tries of a migration, each of which waits `BUSY_S` for gateways that use the tables"""
STALLED_S = 30
"""seconds that a gateway may hold the tenant's lock between two statements: one that hangs must not stop the others"""
READ_ONLY = (
    "accepts no writes, as a replica does: name the primary in [database] url, or all hosts "
    "(postgresql://user:password@a,b/name), of which the one that accepts writes is chosen"
)

BEGIN = "begin isolation level read committed"
"""of a transaction that waits for a lock first and then reads: a snapshot of before would not have what others wrote
meanwhile. The role or the database may have another default"""

_ENDED = (errors.IdleInTransactionSessionTimeout, errors.TransactionTimeout)
"""The server ended a transaction, and with it the connection. psycopg counts these among errors of a program."""
_KEYS = frozenset({"key", "words", "owner", "item"})
"""the columns of keys that are read"""
_TIMELINE = "substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)"
"""of the server's log; a replica that is promoted begins another"""
MOVES = "fusion migrate"
"""the name of a session that moves journals: it holds the locks of the tenants while it works on files, and does not
stand still"""
_STALLED = f"""
select count(pg_terminate_backend(pid)) from pg_locks join pg_stat_activity using (pid)
where locktype = 'advisory' and granted and objsubid = 1 and datname = current_database() and usename = current_user
    and (cast(classid as bigint) << 32) | cast(objid as bigint) = %s and wait_event = 'ClientRead'
    and application_name <> '{MOVES}' and greatest(query_start, state_change) < clock_timestamp() - cast(%s as interval)
"""
"""Ends the session that holds a tenant's lock and whose client has sent nothing for so long. PostgreSQL does that by
itself between two statements, but neither within those that are sent together, as `executemany` sends them, nor
between these and the next one."""
_MISSING = re.compile(r'(database|role) "[^"]*" does not exist')
_NO_NAME = re.compile(r"[^a-z0-9]+")

# Values ---------------------------------------------------------------------------------------------------------------


class _Text(StrDumper):
    """Text, in which a stand-in takes the place of each NUL."""

    def dump(self, obj: str) -> Buffer | None:
        if NUL in obj:
            if FOR_NUL in obj:
                raise BadInput("a name or a text has the character U+10FFFF, which is none: remove it")
            obj = obj.replace(NUL, FOR_NUL)
        return super().dump(obj)


class _Truth(Int8Dumper):
    """A truth value as the integer that SQLite stores."""

    def dump(self, obj: Any) -> Buffer | None:
        return super().dump(int(obj))


class _Number(NumericLoader):
    """A sum of integers as an integer."""

    def load(self, data: Buffer) -> Any:
        return int(bytes(data)) if b"." not in bytes(data) else float(bytes(data))


def _adapters() -> AdaptersMap:
    adapters = AdaptersMap(psycopg.adapters)
    adapters.register_dumper(str, _Text)
    adapters.register_dumper(int, Int8Dumper)
    adapters.register_dumper(bool, _Truth)
    adapters.register_loader("numeric", _Number)
    return adapters


class _Context:
    """How values are converted on each connection."""

    adapters = _adapters()
    connection = None


class Row(tuple[Any, ...]):
    """A row: its values by column name and by number."""

    __slots__ = ()
    _at: ClassVar[Mapping[str, int]] = {}

    def __getitem__(self, column: Any) -> Any:
        return tuple.__getitem__(self, self._at[column] if column.__class__ is str else column)

    def keys(self) -> list[str]:
        return list(self._at)


@lru_cache(1024)
def _row_maker(names: tuple[str, ...]) -> Callable[[Sequence[Any]], Row]:
    at: dict[str, int] = {}
    for number, name in enumerate(names):
        at.setdefault(name, number)
    kind: type[Row] = type("Row", (Row,), {"__slots__": (), "_at": at})
    keys = [number for name, number in at.items() if name in _KEYS]
    if not keys:
        return kind

    def with_keys(values: Sequence[Any]) -> Row:
        read = list(values)
        for number in keys:
            if isinstance(read[number], str):
                read[number] = read[number].replace(FOR_NUL, NUL)
        return kind(read)

    return with_keys


def _rows(cursor: psycopg.Cursor[Any]) -> Callable[[Sequence[Any]], Row]:
    result = cursor.pgresult
    if result is None or not result.nfields:
        return tuple  # type: ignore[return-value]
    encoded = [result.fname(number) or b"" for number in range(result.nfields)]
    return _row_maker(tuple([name.decode() for name in encoded]))


class Connection:
    """A connection inside of a transaction, with the statements of `fusion.store.database`."""

    __slots__ = ("raw",)

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self.raw = raw

    def execute(self, sql: str, values: Values = (), /) -> psycopg.Cursor[Any]:
        cursor = psycopg.RawCursor(self.raw, row_factory=_rows)
        wanted = statement(sql)
        return cursor if wanted.skipped else cursor.execute(*wanted.bind(values))

    def stream(self, sql: str, /) -> Iterator[Row]:
        """The rows of a query, of which only some are in memory at once; it may take any time."""
        self.raw.execute("set local statement_timeout to 0")
        yield from psycopg.RawCursor(self.raw, row_factory=_rows).stream(*statement(sql).bind(()))

    def time(self) -> datetime:
        """The time of the database."""
        (at,) = self.raw.execute("select clock_timestamp()").fetchone() or (None,)
        assert isinstance(at, datetime)  # noqa: S101 — of this type
        return at.astimezone(UTC)

    def executemany(self, sql: str, rows: Iterable[Values], /) -> psycopg.Cursor[Any]:
        cursor = psycopg.RawCursor(self.raw, row_factory=_rows)
        wanted = statement(sql)
        bound = [wanted.bind(values) for values in rows]
        if wanted.is_fixed and len(bound) > 1:
            cursor.executemany(bound[0][0], [values for _, values in bound])
        else:
            for text, values in bound:
                cursor.execute(text, values)
        return cursor


# The server -----------------------------------------------------------------------------------------------------------


class Server:
    """The connections of one gateway to a PostgreSQL database, which its tenants share."""

    def __init__(self, url: str, connections: int = CONNECTIONS) -> None:
        """Raises SettingsError for a URL that is none; what it says never has the password."""
        self._parameters = _parameters(url)
        self.place = _place(self._parameters)
        self.is_read_only = self.bypasses_row_security = False
        self.serves = False
        """whether a tenant was opened: from then on what the server lacks is expected to come back"""
        self._connections = Connections(self.connect, connections, BUSY_S, f"PostgreSQL at {self.place}")
        self.notifications = Notifications(self._parameters, self.place, self.ask)

    def connect(self, **parameters: Any) -> psycopg.Connection[Any]:
        """A connection of its own, outside of the bound; ``parameters`` replace those of the URL."""
        db = psycopg.connect(
            **{**self._parameters, **parameters}, autocommit=True, context=_Context, prepare_threshold=3
        )
        db.prepared_max = PREPARED
        return db

    def open(self) -> None:
        """Connect once, for a clear error."""
        with self.errors(), self.connect() as db:
            (encoding, read_only, unlocked) = db.execute(
                f"begin; set local {SAFE_PATH}; select current_setting('server_encoding'), "
                "pg_is_in_recovery() or cast(current_setting('transaction_read_only') as boolean), "
                "rolsuper or rolbypassrls from pg_roles where rolname = current_user"
            ).set_result(-1).fetchone() or ("", False, False)
            _require_utf8(encoding, self.place)
            self.is_read_only, self.bypasses_row_security = bool(read_only), bool(unlocked)

    def close(self) -> None:
        self.notifications.close()
        self._connections.close()

    def tenants(self) -> list[str]:
        """The names of the tenants that have a schema."""
        with (
            self.errors(),
            self.transaction(
                f"begin; set local {SAFE_PATH}; {_limits()}select to_regclass('fusion.tenant') is not null"
            ) as begun,
        ):
            raw, there = begun
            # Who gives a migration up drops the schema, and its row here may stay.
            registered = "select name from fusion.tenant where to_regnamespace(schema) is not null order by name"
            names = raw.execute(registered) if there else ()
            return [name.replace(FOR_NUL, NUL) for (name,) in names]

    def time(self) -> datetime:
        """The time of the database."""
        with (
            self.errors(),
            self.transaction(f"begin read only; set local {SAFE_PATH}; select clock_timestamp()") as (_, at),
        ):
            return cast("datetime", at).astimezone(UTC)

    def run(self, tenant: str, work: Callable[[Connection], T]) -> T:
        """Run a function in a transaction of a tenant without its lock, for what no other table depends on."""
        with self.errors(), self.transaction(f"{BEGIN}; {chosen(schema_of(tenant))}{_limits()}{_stalls()}") as (raw, _):
            done = work(Connection(raw))
            raw.execute("commit")
            return done

    @contextmanager
    def transaction(self, begin: str) -> Iterator[tuple[psycopg.Connection[Any], Any]]:
        """A connection on which ``begin`` was executed, and the value that its last statement returned."""
        db, value = self._begun(begin)
        try:
            yield db, value
        finally:
            self._connections.give_back(db)

    def _begun(self, begin: str, result: int = -1) -> tuple[psycopg.Connection[Any], Any]:
        """A connection with a transaction.

        One whose server was restarted, or is not the primary any more, is replaced first: nothing was sent on it yet.
        """
        db, used_before = self._connections.take()
        try:
            return db, _value(db.execute(begin).set_result(result))
        except BaseException as error:
            self._connections.give_back(db)
            if not (used_before and isinstance(error, psycopg.Error) and _is_gone(error)):
                raise
        self._connections.drop_idle()
        db, _ = self._connections.take()
        try:
            return db, _value(db.execute(begin).set_result(result))
        except BaseException:
            self._connections.give_back(db)
            raise

    def drop_prepared(self) -> None:
        """Let the next transaction prepare its statements anew."""
        self._connections.drop_idle()

    def ask(self, transaction: str) -> Any:
        """The value of the last query of a whole transaction, which is one message."""
        db, value = self._begun(transaction, result=-2)
        self._connections.give_back(db)
        return value

    def committed(self, transaction: str) -> bool:
        """Whether a transaction was committed whose connection broke. Raises DatabaseUnreachable if that is unknown.

        A replica that was promoted meanwhile gives the numbers of transactions that it lacks to others, so only the
        timeline on which the transaction began knows it.
        """
        number, _, timeline = transaction.partition(" ")
        for pause_s in (0.0, 0.1, 0.3, 1.0, 3.0):
            time.sleep(pause_s)
            with (
                suppress(psycopg.Error, StoreBusy),
                self.transaction(f"begin; set local {SAFE_PATH}; select {_TIMELINE}") as (db, now),
            ):
                if now != timeline:
                    break
                (status,) = db.execute("select pg_xact_status(cast(%s as xid8))", (number,)).fetchone() or ("",)
                if status in ("committed", "aborted"):
                    return bool(status == "committed")
        raise DatabaseUnreachable(
            f"the connection to PostgreSQL at {self.place} broke during a commit, and whether it was kept is unknown: "
            "send the same request again with its Idempotency-Key; what was kept is not stored twice"
        )

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raises the `fusion.errors` error for one of PostgreSQL."""
        try:
            yield
        except psycopg.Error as error:
            raise self.translated(error) from None

    def translated(self, error: Exception) -> Exception:
        """The `fusion.errors` error for one of PostgreSQL; any other unchanged. None has the URL or a password.

        While tenants are served, a role, a password or a database that is wrong now was right before: it may be tried
        again.
        """
        found = self._translated(error)
        if self.serves and isinstance(found, SettingsError | Unauthorized):
            return DatabaseUnreachable(str(found))
        return found

    def _translated(self, error: Exception) -> Exception:
        where = f"PostgreSQL at {self.place}"
        match error:
            case errors.InvalidPassword() | errors.InvalidAuthorizationSpecification():
                return Unauthorized(f"{where} refuses the user or the password of [database] url: correct the URL")
            case errors.DiskFull():
                return StoreFull(f"{where} has no space left; nothing was half written: make room there")
            case errors.ReadOnlySqlTransaction() | errors.ObjectNotInPrerequisiteState():
                return DatabaseUnreachable(f"{where} {READ_ONLY}")
            case errors.TooManyConnections() | errors.OutOfMemory() | errors.ConfigurationLimitExceeded():
                return StoreBusy(f"{where} takes no more connections or work now; try again in a moment")
            case errors.LockNotAvailable() | errors.SerializationFailure() | errors.DeadlockDetected():
                return StoreBusy(f"another gateway is writing to {where}; try again in a moment")
            case _ if isinstance(error, _ENDED):
                return StoreBusy(
                    f"{where} ended a transaction of this gateway, which was too slow for it; nothing was written: try "
                    "again in a moment"
                )
            case errors.QueryCanceled():
                return StoreBusy(f"a statement took longer than {SLOW_S} s in {where} and was stopped; try again later")
            case errors.InsufficientPrivilege():
                return SettingsError(f"{where} does not allow that to the role of [database] url: make it the owner")
            case errors.UndefinedTable() | errors.InvalidSchemaName():
                return DatabaseUnreachable(
                    f"{where} has no tables of this journal: `fusion migrate` may have moved them. Stop this gateway"
                )
            case errors.DataCorrupted() | errors.IndexCorrupted():
                return StoreDamaged(f"{where} is damaged: restore it from a backup")
            case errors.ProgramLimitExceeded():
                return BadInput("a name in this request, or several together, is too long: use shorter ids and names")
            case errors.DataError():
                # A read fails at a value that is stored, too.
                why = _first_line(error)
                return BadInput(f"PostgreSQL cannot take a value of this request, or read one that is stored ({why})")
            case psycopg.OperationalError() | psycopg.InterfaceError():
                return self._unreachable(error)
        return error

    def _unreachable(self, error: Exception) -> FusionError:
        said, where = str(error), f"PostgreSQL at {self.place}"
        if "authentication failed" in said or "no password supplied" in said:
            return Unauthorized(f"{where} refuses the user or the password of [database] url: correct the URL")
        if _MISSING.search(said):
            return SettingsError(f"{where} has no such database or role: create it")
        if "No space left" in said:  # on a full disk no session begins
            return StoreFull(f"{where} has no space left; nothing was half written: make room there")
        if "too many c" in said or "remaining connection slots" in said:
            return StoreBusy(f"{where} takes no more connections now; try again in a moment")
        if "read-only" in said:
            return DatabaseUnreachable(f"{where} {READ_ONLY}")
        why = f" ({found})" if (found := reason(error)) else ""
        return DatabaseUnreachable(f"{where} does not answer{why}: start it, or correct [database] url")


def _value(last: psycopg.Cursor[Any]) -> Any:
    row = None if last.description is None else last.fetchone()
    return row and row[0]


def _is_gone(error: psycopg.Error) -> bool:
    """Whether the server has ended the connection, or accepts no writes any more: another one may be the primary."""
    if isinstance(error, (errors.ReadOnlySqlTransaction, errors.ObjectNotInPrerequisiteState, *_ENDED)):
        return True
    lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return lost and (error.sqlstate is None or error.sqlstate.startswith("57P"))


def _parameters(url: str) -> dict[str, Any]:
    """The parameters of a URL. Of several hosts, it takes the one that accepts writes unless the URL says otherwise."""
    try:
        parts: dict[str, Any] = conninfo_to_dict(url) if url.startswith(("postgresql://", "postgres://")) else {}
    except (psycopg.Error, UnicodeEncodeError):
        parts = {}
    if not parts:
        raise SettingsError("[database] url is no URL of PostgreSQL: write postgresql://user:password@host:5432/name")
    named = parts.get("hostaddr") or parts.get("host") or ""  # without one, PGHOST or a service names them
    several = {"target_session_attrs": "read-write"} if "," in named else {}
    hosts, ports = named.split(","), (parts.get("port") or "").split(",")
    if named and len(ports) not in (1, len(hosts)):
        counted = f"{len(hosts)} hosts and {len(ports)} ports"
        raise SettingsError(f"[database] url names {counted}: name one port, or one for each host")
    if (mode := parts.get("sslmode")) is not None and mode not in SSL_MODES:
        raise SettingsError(f"[database] url has sslmode={mode}: there are {', '.join(SSL_MODES)}")
    # The role, the database and PGCLIENTENCODING may name an encoding that has not all characters.
    return {"connect_timeout": CONNECT_S, **several, **parts, "client_encoding": "utf8"}


def _require_utf8(encoding: str, place: str) -> None:
    """Raises SettingsError for a database that cannot have all texts, or does not know characters from bytes."""
    if encoding != "UTF8":
        raise SettingsError(
            f"PostgreSQL at {place} stores text as {encoding}: make a database with encoding 'UTF8' template template0"
        )


def _place(parts: Mapping[str, Any]) -> str:
    """The hosts, their ports and the database, without the user and the password."""
    hosts = (parts.get("host") or "localhost").split(",")
    ports = str(parts.get("port") or 5432).split(",")
    ports = ports * len(hosts) if len(ports) == 1 else ports
    where = ",".join(f"{host}:{port or 5432}" for host, port in zip(hosts, ports, strict=False))
    return f"{where}/{parts.get('dbname') or parts.get('user') or ''}"


def _first_line(error: Exception) -> str:
    diagnosed = getattr(error, "diag", None)
    return (getattr(diagnosed, "message_primary", None) or type(error).__name__)[:200]


def schema_of(tenant: str) -> str:
    """The schema of a tenant: a readable name and a hash that no two tenants share."""
    readable = _NO_NAME.sub("_", tenant.lower()).strip("_")[:32] or "tenant"
    return f"fusion_{readable}_{sha256(tenant.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def chosen(schema: str) -> str:
    """The statements that choose a tenant until the end of the transaction."""
    return f"set local search_path to {schema}, pg_temp; set local fusion.tenant to '{schema}'; "


def _limits() -> str:
    """The statements that bound each later one of the transaction."""
    return f"set local statement_timeout to '{SLOW_S}s'; set local lock_timeout to '{BUSY_S}s'; "


def _stalls() -> str:
    """The statement that bounds the time between two statements of the transaction: others wait for its locks."""
    return f"set local idle_in_transaction_session_timeout to '{STALLED_S}s'; "


# One tenant -----------------------------------------------------------------------------------------------------------

LOCK_TENANTS = "select pg_advisory_xact_lock(hashtext('fusion.tenant'))"
"""holds the tenants of a database as they are until the end of the transaction"""
_REGISTRY = """
create schema if not exists fusion;
create table if not exists fusion.tenant(schema text primary key, name text not null);
"""
CLOSED = """
create schema if not exists fusion;
create table if not exists fusion.closed(
    schema text primary key, journal text not null, why text not null, finish text not null
);
"""
"""the schemas that `fusion migrate` fills or has moved away, which no gateway may open"""
_OWN = "(select true where current_setting(''fusion.tenant'', true) = ''{schema}'') is not null"
"""The condition of the policies. A query evaluates it once and not for each row. PostgreSQL expects nearly all rows to
meet a condition of this form; of a plain comparison it expects one row in 200 to meet it, so it takes every table for
small and reads it whole."""
_ROW_SECURITY = """
do $$ declare name text; forced boolean; policy text; begin
    for name, forced, policy in select c.relname, c.relforcerowsecurity, pg_get_expr(p.polqual, c.oid)
        from pg_class c join pg_namespace n on n.oid = c.relnamespace left join pg_policy p on p.polrelid = c.oid
            and p.polname = 'tenant'
        where n.nspname = '{schema}' and c.relkind in ('r', 'p')
    loop
        if policy is null then
            execute format('create policy tenant on {schema}.%I using ({own})', name);
        elsif policy not like '%IS NOT NULL%' then  -- of a version before
            execute format('alter policy tenant on {schema}.%I using ({own})', name);
        end if;
        if not forced then
            execute format('alter table {schema}.%I enable row level security', name);
            execute format('alter table {schema}.%I force row level security', name);
        end if;
    end loop;
end $$
"""


def create_schema(raw: psycopg.Connection[Any], tenant: str, steps: Sequence[str], oldest: int) -> None:
    """Make a tenant's schema, without row-level security, in the caller's transaction."""
    schema = schema_of(tenant)
    raw.execute(LOCK_TENANTS)
    raw.execute(_REGISTRY)
    registered = "insert into fusion.tenant values(%s, %s) on conflict(schema) do nothing"  # it may be of one dropped
    raw.execute(registered, (schema, _readable_name(tenant)))
    raw.execute(f"create schema {schema}")
    raw.execute(chosen(schema))
    raw.execute(FUNCTIONS + JSON_FUNCTIONS)
    raw.execute("create table version(version bigint not null, oldest bigint not null)")
    raw.execute("insert into version values(%s, %s)", (len(steps), oldest))
    for made in whole_schema(steps):
        raw.execute(made)
    raw.execute(FEED + RECEIPTS)
    raw.execute("insert into mark values(%s, 0)", (secrets.token_hex(8),))


def secure_rows(raw: psycopg.Connection[Any], schema: str) -> None:
    """Turn row-level security on for the tables of a schema that lack it, in the caller's transaction."""
    raw.execute(_ROW_SECURITY.format(schema=schema, own=_OWN.format(schema=schema)))


def lock_number(schema: str) -> int:
    """The number of the lock that a write transaction of a schema holds."""
    return int.from_bytes(sha256(schema.encode()).digest()[:8], "big", signed=True)


class Database(database.Database):
    """One tenant's schema. Raises ``DatabaseUnreachable`` when the server does not answer, or is read-only."""

    shared = True

    def __init__(self, server: Server, tenant: str, version: int, count: str = "") -> None:
        schema = schema_of(tenant)
        super().__init__(schema, f"PostgreSQL at {server.place}, schema {schema}")
        self._server = server
        self._tenant = tenant
        self._version = version
        """of the schema as this program knows it"""
        self._count = count
        self._lock_number = lock_number(schema)
        choice = chosen(schema)
        self._begin_read = f"begin isolation level repeatable read read only; {choice}{_limits()}"
        self._unqueued = ThreadPoolExecutor(1, thread_name_prefix=f"claim-{schema}")
        begin = f"{BEGIN}; {choice}{_limits()}{_stalls()}"
        self._begin_unqueued = f"{begin}select oldest from version"
        self._begin_write = (
            f"{begin}select pg_advisory_xact_lock({self._lock_number}); "
            f"select cast(pg_current_xact_id() as text) || ' ' || {_TIMELINE} || ' ' || oldest from version"
        )

    @classmethod
    async def open(
        cls, server: Server, tenant: str, steps: Sequence[str], *, oldest: int = 0, count: str = "", columns: str = ""
    ) -> Self:
        """Open the schema of a tenant, or make it, and migrate it: ``steps`` are those of the same file in SQLite.

        Programs that know at least ``oldest`` of the steps can use a schema of all of them. ``count`` is a statement
        that each transaction executes. ``columns`` are the columns of the table of events, which gets those that it
        lacks. Raises UpgradeRequired if the schema says that this program is too old for it.
        """
        opened = cls(server, tenant, len(steps), count)
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(opened._writer, opened._prepare_patiently, tuple(steps), oldest, columns)
        except BaseException:
            await opened.close()
            raise
        server.notifications.subscribe(opened.name, opened.news.set)
        server.serves = True
        return opened

    @classmethod
    async def update(
        cls, server: Server, tenant: str, steps: Sequence[str], *, oldest: int, columns: str, dry_run: bool
    ) -> tuple[int, tuple[str, ...]]:
        """Migrate the schema of a tenant as `open` does: the version that it had, and the columns that it lacked.

        With ``dry_run`` every step is made, and the transaction is taken back. Raises StoreDamaged if a step fails,
        as it does where somebody else changed the schema.
        """
        opened = cls(server, tenant, len(steps))
        try:
            return await asyncio.get_running_loop().run_in_executor(
                opened._writer, opened._prepare_patiently, tuple(steps), oldest, columns, dry_run
            )
        except psycopg.Error as error:
            raise StoreDamaged(f"{opened.place} has what no version made: {_first_line(error)}") from error
        finally:
            await opened.close()

    def require_reachable(self) -> None:
        """A server says so when it is asked."""

    async def compare_with_files(self) -> None:
        """There are no files of ours."""

    async def write(self, work: Callable[[Any], T]) -> T:
        """As of the port. Raises LeaseLost if the caller writes under a lease that has ended."""
        fence = FENCE.get()
        if fence is None:
            return await super().write(work)

        def fenced(db: Connection) -> T:
            self._require(db.raw, fence)
            return work(db)

        return await super().write(fenced)

    async def write_unqueued(self, work: Callable[[Any], T]) -> T:
        """As of the port: without the tenant's lock, in a thread of its own, as a lease must not wait for reads."""
        self._refuse_when_closed()
        if self.refusal:
            raise self.refused(self.refusal)
        return await asyncio.get_running_loop().run_in_executor(self._unqueued, self._run_unqueued, work)

    def _run_unqueued(self, work: Callable[[Any], T]) -> T:
        with self._server.errors():
            return self._prepared(self._run_unqueued_once, work)

    def _run_unqueued_once(self, work: Callable[[Any], T]) -> T:
        with self._server.transaction(self._begin_unqueued) as (raw, oldest):
            self._require_known(int(oldest))
            done = work(Connection(raw))
            raw.execute("commit")
            return done

    def _require(self, raw: psycopg.Connection[Any], fence: Fence) -> None:
        """Raises LeaseLost unless a lease holds, which then nobody else takes before this transaction ends."""
        if fence.is_over:
            return
        # The lease of a home's job is in the schema of its owner, whose rows another tenant's transaction cannot read.
        raw.execute(f"set local fusion.tenant to '{fence.schema}'")
        held = raw.execute(
            f"select 1 from {fence.schema}.{fence.table} where name = %s and token = %s and until > clock_us() "
            "for share",
            (fence.name, fence.token),
        ).fetchone()
        raw.execute(f"set local fusion.tenant to '{self.name}'")
        if held is None:
            raise LeaseLost(f"the lease of {fence.name} has ended, so nothing more of this run is written")

    async def last_change(self) -> database.LastChange:
        """The last commit that changed what callers may cache, in one message."""
        self._refuse_when_closed()
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._ask_last_change)

    def _ask_last_change(self) -> database.LastChange:
        with self._server.errors():
            last, history, oldest = str(self._server.ask(f"{self._begin_read}{LAST_CHANGE}; commit")).split(" ")
        self._require_known(int(oldest))
        return database.LastChange(int(last), history)

    async def check(self) -> None:
        """Read the journal's mark. PostgreSQL checks its own pages when it reads them."""
        await self.read(lambda db: db.execute("select 1").fetchone())

    async def checkpoint(self) -> None:
        """PostgreSQL removes what was overwritten when it vacuums."""

    # In the threads

    def _prepare_patiently(
        self, steps: Sequence[str], oldest: int, columns: str, dry_run: bool = False
    ) -> tuple[int, tuple[str, ...]]:
        """Do `_prepare`. A step gives up its place after `BUSY_S`, so that gateways go on that read for longer."""
        for _ in range(MIGRATIONS - 1):
            with suppress(StoreBusy):
                return self._prepare(steps, oldest, columns, dry_run)
        return self._prepare(steps, oldest, columns, dry_run)

    def _prepare(
        self, steps: Sequence[str], oldest: int, columns: str, dry_run: bool = False
    ) -> tuple[int, tuple[str, ...]]:
        """Make or migrate the schema in one transaction, so a migration that is killed leaves nothing.

        Returns the version that it had, 0 if there was none, and the columns that it lacked.
        """
        with self._server.errors(), ExitStack() as stack:
            raw = self._locked(stack)
            (there,) = raw.execute("select to_regnamespace(%s) is not null", (self.name,)).fetchone() or (False,)
            self._refuse_closed(raw)
            if not there:
                version = 0
                raw.execute(LOCK_TENANTS)
                self._refuse_closed(raw)  # it may have been moved away while this waited
                create_schema(raw, self._tenant, steps, oldest)
            else:
                self._select(raw)
                self._replace_functions(raw)
                version = self._migrate(raw, steps, oldest)
            for table, made in SHARED.items():
                if raw.execute("select to_regclass(%s)", (table,)).fetchone() == (None,):  # a replica makes none
                    raw.execute(made)
            added = self._add_missing(raw, columns)
            secure_rows(raw, self.name)
            raw.execute("rollback" if dry_run else "commit")
            return version, added

    def _locked(self, stack: ExitStack) -> psycopg.Connection[Any]:
        """A connection in a transaction with the tenant's lock, however long another gateway works under it."""
        begin = (
            f"{BEGIN}; set local {SAFE_PATH}; {_stalls()}set local lock_timeout to '{BUSY_S}s'; "
            f"select pg_advisory_xact_lock({self._lock_number})"
        )
        while True:
            try:
                raw, _ = stack.enter_context(self._server.transaction(begin))
            except errors.LockNotAvailable:
                self._end_stalled()
            else:
                return raw

    def _select(self, raw: psycopg.Connection[Any]) -> None:
        raw.execute(chosen(self.name))

    def _refuse_closed(self, raw: psycopg.Connection[Any]) -> None:
        """Raises SettingsError for a tenant that was moved away or is being filled, and for one whose home was; or
        DatabaseUnreachable in a gateway that serves."""
        if raw.execute("select to_regclass('fusion.closed') is null").fetchone() == (True,):
            return
        schemas = [self.name, schema_of(Scope().tenant)]
        found = raw.execute("select why from fusion.closed where schema = any(%s)", (schemas,)).fetchone()
        if found is not None:
            raise (DatabaseUnreachable if self._server.serves else SettingsError)(f"{self.place} {found[0]}")

    def _require_known(self, oldest: int) -> None:
        if oldest > self._version:
            raise UpgradeRequired(
                f"{self.place} was migrated by a newer version of memory-fusion, with which this one cannot share it "
                f"(it needs schema {oldest}, this one has {self._version}): update this gateway"
            )

    def _migrate(self, raw: psycopg.Connection[Any], steps: Sequence[str], oldest: int) -> int:
        """Make the steps that the schema lacks; the version that it had."""
        (version, needed) = raw.execute("select version, oldest from version").fetchone() or (0, 0)
        self._require_known(needed)
        for step in steps[version:]:
            for part in step_statements(step):
                raw.execute(part)
        if version < len(steps):
            raw.execute("update version set version = %s, oldest = greatest(oldest, %s)", (len(steps), oldest))
        return int(version)

    def _replace_functions(self, raw: psycopg.Connection[Any]) -> None:
        """Make the functions that read JSON anew in a schema of a version whose functions fail at a NUL."""
        if raw.execute("select to_regprocedure('json_of(text)')").fetchone() == (None,):  # a replica makes none
            raw.execute(JSON_FUNCTIONS)

    def _add_missing(self, raw: psycopg.Connection[Any], columns: str) -> tuple[str, ...]:
        if not columns:
            return ()
        there = {
            name
            for (name,) in raw.execute(
                "select column_name from information_schema.columns where table_schema = %s and table_name = 'event'",
                (self.name,),
            )
        }
        missing = [column for column in columns.split(", ") if column.split()[0] not in there]
        for column in missing:
            raw.execute(definition(f"alter table event add column {column}"))
        return tuple(column.split()[0] for column in missing)

    def _commit(self, group: Sequence[Waiting]) -> list[Outcome]:
        try:
            return self._prepared(self._commit_once, group)
        except errors.LockNotAvailable:
            if not self._end_stalled():
                raise
        return self._prepared(self._commit_once, group)

    def _end_stalled(self) -> bool:
        """End the session of a gateway that holds the tenant's lock and stands still; whether there was one."""
        try:
            with self._server.transaction(f"begin; set local {SAFE_PATH}; {_limits()}") as (raw, _):
                stalled = raw.execute(_STALLED, (self._lock_number, f"{STALLED_S} seconds")).fetchone()
                raw.execute("commit")
        except (psycopg.Error, StoreBusy) as error:  # what the caller waits for says more
            log.debug("a gateway that stands still could not be looked for: %s", type(error).__name__)
            return False
        return stalled != (0,)

    def _prepared(self, once: Callable[[Given], T], given: Given) -> T:
        """The result of a transaction; once more if a newer gateway changed a table that a statement was prepared
        for."""
        try:
            return once(given)
        except errors.FeatureNotSupported:
            self._server.drop_prepared()
            return once(given)

    def _commit_once(self, group: Sequence[Waiting]) -> list[Outcome]:
        with self._server.transaction(self._begin_write) as (raw, begun):
            transaction, _, oldest = begun.rpartition(" ")
            self._require_known(int(oldest))
            db = Connection(raw)
            outcomes = [self._run(db, work, done, alone=len(group) == 1) for work, done in group]
            try:
                changed = self._end(raw)
            except psycopg.OperationalError:
                if not raw.closed or not self._server.committed(transaction):
                    raise
                changed = True
        if changed:
            self._server.notifications.announce(self.name)
        return outcomes

    def _end(self, raw: psycopg.Connection[Any]) -> bool:
        """Count the transaction and commit it, in one message; whether it changed what other gateways cache."""
        if not self._count:
            raw.execute("commit")
            return False
        (changed,) = raw.execute(f"{self._count}; {CHANGED}; commit").set_result(-2).fetchone() or (False,)
        return bool(changed)

    @staticmethod
    def _run(db: Connection, work: Callable[[Any], Any], done: Any, *, alone: bool) -> Outcome:
        """Run one work; in a savepoint, unless it is the only one of its transaction."""
        if alone:
            return done, work(db), None
        db.raw.execute("savepoint work")
        try:
            value = work(db)
        except Exception as error:
            if db.raw.closed or isinstance(error, errors.FeatureNotSupported):
                raise
            db.raw.execute("rollback to savepoint work; release savepoint work")
            return done, None, error
        db.raw.execute("release savepoint work")
        return done, value, None

    def _look(self, work: Callable[[Any], T]) -> T:
        with self._server.errors():
            return self._prepared(self._look_once, work)

    def _look_once(self, work: Callable[[Any], T]) -> T:
        with self._server.transaction(self._begin_read) as (raw, _):
            return work(Connection(raw))

    def _shut(self) -> None:
        self._unqueued.shutdown(wait=True)
        super()._shut()

    def _disconnect(self) -> None:
        """The connections are the server's."""
        self._server.notifications.unsubscribe(self.name, self.news.set)

    def _translated(self, error: Exception) -> Exception:
        return self._server.translated(error)


def _readable_name(tenant: str) -> str:
    return tenant.replace(NUL, FOR_NUL).encode("utf-8", "replace").decode()
