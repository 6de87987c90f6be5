"""The errors that the gateway raises deliberately.

FusionError
├── SettingsError            the configuration is wrong; names the line and the correction
│   └── PackageMissing       an optional package is not installed; gives the command that installs it
├── HomeNotAllowed           the user has not allowed this home; gives the reason and the command that allows it
├── HomeLocked               another process uses this home; names it
├── HomeGone                 the home or its journal was deleted, moved or replaced   (HTTP 503)
├── ServerUnreachable        no gateway answers the client; gives the address and the end of the server's log
├── BadInput                 the caller's request is wrong; names the correction      (HTTP 422)
│   ├── TooLarge             the request exceeds a limit                              (HTTP 413)
│   ├── KeyReused            an Idempotency-Key was sent again with another body      (HTTP 422)
│   └── KeyInUse             the key's first request is under way; retry_after_s      (HTTP 409)
├── NotFound                 no such memory or receipt, or not in this scope          (HTTP 404)
├── Overloaded               too many requests at once; retry_after_s                 (HTTP 503)
├── NobodyAnswered           every backend failed; carries coverage                   (HTTP 503)
├── StoreFull                no space left; nothing was written in part               (HTTP 507)
├── StoreBusy                another writer has locked the store; retry_after_s       (HTTP 503)
├── StoreDamaged             a file of the home is corrupt, or newer than this program
├── ReplayGap                a recording lacks an answer that a replay needs
├── ModelMissing             a model is not installed, is not the pinned one, or has no key
└── BackendError             one backend failed: shown in the receipt, not raised by `Gateway.fuse`
    ├── BackendUnreachable   connection refused or reset, no route, no such host
    ├── BackendTimeout       no answer within the deadline
    ├── InvalidAnswer        the answer does not have the expected format
    ├── HttpStatus           the answer has an error status
    ├── StillThere           a deleted memory is still returned
    ├── Unauthorized         the credential is not accepted
    └── RateLimited          the server asks for a pause; retry_after_s
"""

from __future__ import annotations

from typing import Any


class FusionError(Exception):
    """Base class. ``str(error)`` is written for users: it names the fault and the fix."""


class SettingsError(FusionError):
    pass


class PackageMissing(SettingsError):
    pass


class HomeNotAllowed(FusionError):
    pass


class HomeLocked(FusionError):
    pass


class HomeGone(FusionError):
    pass


class ServerUnreachable(FusionError):
    pass


class BadInput(FusionError):
    pass


class TooLarge(BadInput):
    pass


class KeyReused(BadInput):
    pass


class KeyInUse(BadInput):
    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class NotFound(FusionError):
    pass


class Overloaded(FusionError):
    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class NobodyAnswered(FusionError):
    """Every backend failed; ``details`` has ``coverage`` and ``backends`` as in an answer."""

    def __init__(self, message: str, details: dict[str, Any], retry_after_s: float = 5.0) -> None:
        super().__init__(message)
        self.details = details
        self.retry_after_s = retry_after_s


class StoreFull(FusionError):
    pass


class StoreBusy(FusionError):
    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class StoreDamaged(FusionError):
    pass


class ReplayGap(FusionError):
    pass


class ModelMissing(FusionError):
    pass


class BackendError(FusionError):
    pass


class BackendUnreachable(BackendError):
    pass


class BackendTimeout(BackendError):
    pass


class InvalidAnswer(BackendError):
    pass


class HttpStatus(BackendError):
    def __init__(self, message: str, status: int, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s


class StillThere(BackendError):
    pass


class Unauthorized(BackendError):
    pass


class RateLimited(BackendError):
    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
