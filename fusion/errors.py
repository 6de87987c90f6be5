"""The errors that the gateway raises deliberately.

Each class says when it is raised; `fusion.problem` has its HTTP status.
"""

from __future__ import annotations

from typing import Any


class FusionError(Exception):
    """Base class. ``str(error)`` is written for users: it names the fault and the fix."""


class RetryLater(FusionError):
    """Base class of errors that pass; the same request may succeed after ``retry_after_s``."""

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class SettingsError(FusionError):
    """The configuration is wrong; names the line and the correction."""


class PackageMissing(SettingsError):
    """An optional package is not installed; gives the command that installs it."""


class HomeNotAllowed(FusionError):
    """The user has not allowed this home; gives the reason and the command that allows it."""


class RoleTooLow(FusionError):
    """The key of a request has a lower role than the route needs; nothing was changed."""


class HomeLocked(FusionError):
    """Another process uses this home; names it."""


class HomeGone(FusionError):
    """The home or its journal was deleted, moved or replaced."""


class ServerUnreachable(FusionError):
    """No gateway answers the client; gives the address and the end of the server's log."""


class BadInput(FusionError):
    """The caller's request is wrong; names the correction."""


class TooLarge(BadInput):
    """The request exceeds a limit."""


class AlreadyReplaced(BadInput):
    """The memory to update is not current any more; ``details`` has ``current``, the ref of its newest version."""

    def __init__(self, message: str, current: str | None = None) -> None:
        super().__init__(message)
        self.details = {} if current is None else {"current": current}


class AlreadyDecided(BadInput):
    """Somebody decided on the proposal before; says what became of it."""


class NobodyNamed(BadInput):
    """A question names neither user nor agent where several have memories; ``details`` has ``users`` or ``agents``."""

    def __init__(self, message: str, details: dict[str, list[str]] | None = None) -> None:
        super().__init__(message)
        self.details = details or {}


class KeyReused(BadInput):
    """An Idempotency-Key was sent again with another body."""


class KeyInUse(RetryLater, BadInput):
    """The key's first request is under way."""


class NotFound(FusionError):
    """No such memory or receipt, or not in this scope."""


class Overloaded(RetryLater):
    """Too many requests at once."""


class TooManyRequests(Overloaded):
    """The requests of a tenant in this minute are used up (`server.requests_per_minute`)."""


class JobRunning(RetryLater):
    """A run of this job is under way; two runs of one job never overlap."""


class LeaseLost(FusionError):
    """A run of a job has lost its lease to another run, so nothing that it writes counts."""


class NobodyAnswered(FusionError):
    """Every backend failed; ``details`` has ``coverage`` and ``backends`` as in an answer."""

    def __init__(self, message: str, details: dict[str, Any], retry_after_s: float = 5.0) -> None:
        super().__init__(message)
        self.details = details
        self.retry_after_s = retry_after_s


class StoreFull(FusionError):
    """No space left; nothing was written in part."""


class StoreBusy(RetryLater):
    """Another writer has locked the store."""


class StoreDamaged(FusionError):
    """A file of the home is corrupt, or newer than this program."""


class UpgradeRequired(RetryLater):
    """A newer version has migrated the database so that this one must not use it; another gateway may answer."""


class ReplayGap(FusionError):
    """A recording lacks an answer that a replay needs."""


class ModelMissing(FusionError):
    """A model is not installed, is not the pinned one, or has no key."""


class BackendError(FusionError):
    """One backend failed: shown in the receipt, not raised by `Gateway.fuse`."""


class BackendUnreachable(BackendError):
    """Connection refused or reset, no route, no such host."""


class DatabaseUnreachable(RetryLater, BackendUnreachable):
    """The database of the journals does not answer, or accepts no writes; nothing was acknowledged."""


class BackendTimeout(BackendError):
    """No answer within the deadline."""


class InvalidAnswer(BackendError):
    """The answer does not have the expected format."""


class HttpStatus(BackendError):
    """The answer has an error status."""

    def __init__(self, message: str, status: int, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s


class StillThere(BackendError):
    """A deleted memory is still returned."""


class Unauthorized(BackendError):
    """The credential is not accepted."""


class RateLimited(BackendError):
    """The server asks for a pause."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
