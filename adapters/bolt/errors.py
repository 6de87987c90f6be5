"""Maps failures over Bolt to the gateway's errors. A server's message may quote stored data: only codes are shown."""

from __future__ import annotations

from fusion.errors import (
    BackendError,
    BackendTimeout,
    BackendUnreachable,
    FusionError,
    InvalidAnswer,
    RateLimited,
    SettingsError,
    Unauthorized,
)

FULL = ("OutOfMemory", "OutOfDiskSpace")


def is_transient(error: Exception) -> bool:
    """Whether a pause may fix it: two writers met, or the server is not ready yet."""
    from neo4j.exceptions import TransientError

    return isinstance(error, TransientError) and not _read_only(error) and not _timed_out(error)


def is_connection_lost(error: Exception) -> bool:
    """Whether to retry at once on another connection: this one was lost, or its server no longer accepts writes.

    False for an unconfirmed commit, which may have happened.
    """
    from neo4j.exceptions import DriverError, NotALeader, WriteServiceUnavailable

    if isinstance(error, WriteServiceUnavailable):
        return False
    return isinstance(error, (DriverError, NotALeader)) and error.is_retryable()


def as_backend_error(error: Exception, server: str) -> BackendError | SettingsError:
    """The gateway's error for one of the driver's. ``server`` is its address as errors name it."""
    from neo4j.exceptions import (
        AuthError,
        ConfigurationError,
        ConnectionAcquisitionTimeoutError,
        DatabaseUnavailable,
        DriverError,
        Forbidden,
        IncompleteCommit,
        Neo4jError,
        ServiceUnavailable,
        SessionExpired,
        TransientError,
    )

    code = getattr(error, "code", None) or type(error).__name__
    if _read_only(error):
        return BackendUnreachable(f"{server} is a replica that only reads. Fix: name the main instance in url")
    if _timed_out(error):
        return BackendTimeout(f"{server} stopped the query at its own time limit ({code})")
    match error:
        case Neo4jError() if "RateLimit" in code:
            return RateLimited(f"{server} asks to wait after failed log-ons ({code})")
        case AuthError() | Forbidden():
            return Unauthorized(f"{server} does not accept user and password for this ({code})")
        case DatabaseUnavailable():
            return BackendUnreachable(f"{server}: the database is not available ({code})")
        case Neo4jError() if any(word in code for word in FULL):
            return BackendUnreachable(f"{server} has no room left ({code})")
        case TransientError():
            return BackendTimeout(f"{server} was busy until the end ({code})")
        case IncompleteCommit():
            return BackendUnreachable(f"{server}: the connection was lost while it committed; it may have happened")
        case ServiceUnavailable() | SessionExpired() | OSError():
            return BackendUnreachable(f"{server}: {_reason(error)}")
        case ConnectionAcquisitionTimeoutError():
            return BackendTimeout(f"{server}: no free connection")
        case ConfigurationError():
            return InvalidAnswer(f"{server} speaks no version of Bolt that the driver supports")
        case Neo4jError() if "DatabaseNotFound" in code:
            return SettingsError(f"{server} has no database of that name. Fix: correct the option database")
        case Neo4jError() | DriverError():
            return InvalidAnswer(f"{server} failed on the gateway's query ({code})")
    return InvalidAnswer(f"{server}: the answer is not Bolt ({code})")


def with_fix(error: FusionError, table: str, slow: str = "run less on it meanwhile") -> str:
    """The text of a failure for a description, with a fix unless its own text has one.

    ``table`` is the settings table of the database; ``slow`` is the fix for one that is too slow.
    """
    fix = _fix(error, table, slow)
    return str(error) if "Fix: " in str(error) or not fix else f"{error}. Fix: {fix}"


def _fix(error: FusionError, table: str, slow: str) -> str:
    match error:
        case Unauthorized():
            return f"correct user and password_env or password_file of {table}, and let the user read"
        case BackendUnreachable():
            return f"start the database, or correct url of {table}"
        case BackendTimeout():
            return slow
        case InvalidAnswer():
            return f"correct dialect and the names of indexes in {table}"
    return ""


def _reason(error: BaseException) -> str:
    """Why there is no connection, from the wrapped error: the driver's own text quotes addresses."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ConnectionRefusedError):
            return "connection refused"
        if isinstance(seen, TimeoutError):
            return "no connection in time"
        if type(seen).__name__ == "gaierror":
            return "no such host"
        if type(seen).__name__ in ("SSLError", "SSLCertVerificationError", "BoltSecurityError"):
            return "no trusted TLS connection"
        seen = seen.__cause__ or seen.__context__
    return "the connection was lost"


def _read_only(error: Exception) -> bool:
    """Whether a server refused a write. Neo4j has error codes for that, and the driver an error class if there is
    only one server; Memgraph has one code for all errors, so its text is read."""
    from neo4j.exceptions import ForbiddenOnReadOnlyDatabase, Neo4jError, NotALeader, WriteServiceUnavailable

    if isinstance(error, (ForbiddenOnReadOnlyDatabase, NotALeader, WriteServiceUnavailable)):
        return True
    return isinstance(error, Neo4jError) and _memgraphs(error) and "forbidden on the replica" in (error.message or "")


def _timed_out(error: Exception) -> bool:
    from neo4j.exceptions import Neo4jError

    if not isinstance(error, Neo4jError):
        return False
    return "TransactionTimedOut" in (error.code or "") or (
        _memgraphs(error) and "transaction timeout" in (error.message or "").lower()
    )


def _memgraphs(error: object) -> bool:
    return str(getattr(error, "code", "")).startswith("Memgraph.")
