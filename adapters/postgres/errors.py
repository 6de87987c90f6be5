"""Maps PostgreSQL's failures to the gateway's errors. A message of the server may quote stored data, and one of the
driver the address, so neither is shown: only what kind of failure it was."""

from __future__ import annotations

import psycopg
from psycopg import errors

from fusion.errors import (
    BackendError,
    BackendTimeout,
    BackendUnreachable,
    FusionError,
    InvalidAnswer,
    SettingsError,
    StoreFull,
    Unauthorized,
)
from fusion.store.postgres_reasons import reason

_TRANSIENT = (
    errors.DeadlockDetected,
    errors.SerializationFailure,
    errors.TooManyConnections,
    errors.CannotConnectNow,
)
_ENDED = (errors.IdleInTransactionSessionTimeout, errors.TransactionTimeout)
"""The server ended a transaction, and with it the connection. psycopg counts these among errors of a program."""
_STALE = errors.InternalError_
"""what a statement gives that a connection has prepared, once pgvector was made again: it has the old type's number"""
_LOST = (errors.AdminShutdown, errors.CrashShutdown, errors.IdleSessionTimeout, _STALE, *_ENDED)


def is_transient(error: Exception) -> bool:
    """Whether a pause may fix it: two writers met, or the server is not ready yet."""
    return isinstance(error, _TRANSIENT)


def is_connection_lost(error: Exception) -> bool:
    """Whether the connection is dead or no longer fits, so that another one may work."""
    if isinstance(error, _LOST):
        return True
    lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return lost and getattr(error, "sqlstate", None) is None


def as_backend_error(error: Exception, server: str) -> FusionError:
    """The gateway's error for one of the driver's. ``server`` is its address as errors name it."""
    code = getattr(error, "sqlstate", None) or type(error).__name__
    match error:
        case errors.InvalidPassword() | errors.InvalidAuthorizationSpecification():
            return _refused(server, code)
        case errors.InvalidCatalogName():
            return SettingsError(f"{server}: there is no database of that name. Fix: create it, or correct url")
        case errors.InsufficientPrivilege():
            return Unauthorized(
                f"{server}: the user may not do that ({code}). Fix: GRANT CREATE, CONNECT ON DATABASE … TO the user of "
                "url, or let it own the schema"
            )
        case errors.ReadOnlySqlTransaction():
            return BackendUnreachable(
                f"{server} is a replica that only reads. Fix: name the primary in url, or all hosts with "
                "?target_session_attrs=read-write"
            )
        case errors.QueryCanceled():
            return BackendTimeout(f"{server} stopped the query at its time limit ({code})")
        case errors.DiskFull():
            return StoreFull(f"{server} has no space left; nothing was written in part. Fix: make room there")
        case errors.TooManyConnections() | errors.ConfigurationLimitExceeded() | errors.OutOfMemory():
            return BackendUnreachable(
                f"{server} accepts no more connections or work ({code}). Fix: raise its max_connections, or lower "
                "connections of the backend"
            )
        case errors.DeadlockDetected() | errors.SerializationFailure() | errors.LockNotAvailable():
            return BackendTimeout(f"{server} was busy until the end ({code})")
        case errors.UndefinedTable() | errors.InvalidSchemaName():
            return tables_gone(server, code)
        case errors.DataCorrupted() | errors.IndexCorrupted():
            return BackendUnreachable(f"{server} is damaged ({code}). Fix: restore it from a backup")
        case psycopg.OperationalError() | psycopg.InterfaceError() if getattr(error, "sqlstate", None) is None:
            return _unreachable(error, server)
        case _ if isinstance(error, (psycopg.OperationalError, *_ENDED)):
            return BackendUnreachable(f"{server} does not serve this now ({code})")
        case psycopg.Error():
            return InvalidAnswer(f"{server} failed on the gateway's query ({code})")
    return InvalidAnswer(f"{server}: the answer is not PostgreSQL's ({code})")


def tables_gone(server: str, code: str) -> BackendUnreachable:
    """A fault of the backend, not of what it was sent: deliveries wait, and the next one makes the tables."""
    return BackendUnreachable(
        f"{server}: the tables are gone ({code}). The next delivery makes them, and the journal fills them again. Fix: "
        "if they are still gone after a few minutes, restart the gateway"
    )


def with_fix(error: BackendError | FusionError) -> str:
    """The text of a failure for a description, with a fix."""
    text = str(error)
    if "Fix: " in text:
        return text
    match error:
        case Unauthorized():
            return f"{text}. Fix: correct the user of url and password_env or password_file"
        case BackendUnreachable():
            return f"{text}. Fix: start PostgreSQL, or correct url"
        case BackendTimeout():
            return f"{text}. Fix: give the database more CPU or memory, or raise deadline_ms of the backend"
    return text


def _unreachable(error: Exception, server: str) -> FusionError:
    """The error of a connection that could not be made or was lost. The text of the driver is read, not shown."""
    said = str(error)
    if "authentication failed" in said or "no password supplied" in said or "no pg_hba.conf entry" in said:
        return _refused(server, "log-on")
    if "certificate file" in said and "does not exist" in said:
        return SettingsError(f"{server}: a file that url names for TLS does not exist. Fix: correct sslrootcert")
    if "does not exist" in said and "database" in said:
        return SettingsError(f"{server}: there is no database of that name. Fix: create it, or correct url")
    if "too many clients" in said or "too many connections" in said or "remaining connection slots" in said:
        return as_backend_error(errors.TooManyConnections(), server)
    return BackendUnreachable(f"{server}: {reason(error) or 'the connection was lost'}")


def _refused(server: str, code: str) -> Unauthorized:
    return Unauthorized(f"{server} does not accept user and password ({code})")
