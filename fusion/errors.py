"""Every error that the gateway raises on purpose.

FusionError
├── SettingsError            the configuration is wrong; says which line and what to write
│   └── PackageMissing       …or an optional package is not installed; says how to install it
├── HomeNotAllowed           the user has not allowed this home; says why, and the command that shows and allows it
├── HomeLocked               another process owns this home; names it
├── HomeGone                 the home or its journal was deleted, moved or replaced   (HTTP 503)
├── ServerUnreachable        no gateway answers this client; says where it looked, and the server's last words
├── BadInput                 the caller's request is wrong; says what to change       (HTTP 422)
│   ├── TooLarge             …it is over a limit                                      (HTTP 413)
│   ├── KeyReused            an Idempotency-Key came back with another body           (HTTP 422)
│   └── KeyInUse             …while its first request is under way; retry_after_s     (HTTP 409)
├── NotFound                 no such memory or receipt, or not in this scope          (HTTP 404)
├── Overloaded               too many requests at once; retry_after_s                 (HTTP 503)
├── NobodyAnswered           every backend failed; carries coverage                   (HTTP 503)
├── StoreFull                no space left; nothing was half written                  (HTTP 507)
├── StoreBusy                another writer holds the store; retry_after_s            (HTTP 503)
├── StoreDamaged             a file of ours is corrupt, or newer than this program
├── ReplayGap                a recording lacks an answer that a replay needs
├── ModelMissing             a model is not installed, is not the pinned one, or has no key
└── BackendError             one backend failed: data in the receipt, never an error at the door
    ├── BackendUnreachable   refused, reset, no route, no such host
    ├── BackendTimeout       it did not answer within its deadline
    ├── InvalidAnswer        it answered, but not in its own format
    ├── HttpStatus           it answered with a failure status
    ├── StillThere           it was asked to forget, and still returns it
    ├── Unauthorized         it does not accept our credential
    └── RateLimited          it asks us to wait; retry_after_s
"""

from __future__ import annotations

from typing import Any


class FusionError(Exception):
    """The root. ``str(error)`` is fit for a user: it says what is wrong and how to fix it."""


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
    """``details`` has the response's ``coverage`` and ``backends``, as a partial answer would."""

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
