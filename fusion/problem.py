"""Converts errors to RFC 9457 problem details for the HTTP door, and back to errors for the client.

``type`` names the class of `fusion.errors`, so that the client raises the server's error; plain HTTP errors (unknown
route, wrong method) have ``about:blank``, as the RFC says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fusion import errors

NO_SUCH_FIELD = "there is no such field"
"""the refusal of a field that the server does not know"""
MEDIA_TYPE = "application/problem+json"
_PREFIX = "urn:memory-fusion:error:"

STATUS: Mapping[type[errors.FusionError], int] = {
    errors.FusionError: 500,
    errors.SettingsError: 500,
    errors.PackageMissing: 500,
    errors.HomeNotAllowed: 403,
    errors.RoleTooLow: 403,
    errors.HomeLocked: 503,
    errors.HomeGone: 503,
    errors.BadInput: 422,
    errors.TooLarge: 413,
    errors.AlreadyReplaced: 409,
    errors.AlreadyDecided: 409,
    errors.NobodyNamed: 422,
    errors.KeyReused: 422,
    errors.KeyInUse: 409,
    errors.NotFound: 404,
    errors.Overloaded: 503,
    errors.TooManyRequests: 429,
    errors.JobRunning: 409,
    errors.LeaseLost: 409,
    errors.NobodyAnswered: 503,
    errors.StoreFull: 507,
    errors.StoreBusy: 503,
    errors.StoreDamaged: 500,
    errors.UpgradeRequired: 503,
    errors.ModelMissing: 503,
    errors.BackendError: 503,
}
"""HTTP status by class; a class that is not listed has the status of its base class."""


def status_of(error: errors.FusionError) -> int:
    """The HTTP status of an error."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def retry_after_s(error: errors.FusionError) -> float | None:
    """Seconds that a caller should wait before it tries again, if the error has them."""
    wait: float | None = getattr(error, "retry_after_s", None)
    return wait


def problem_of(error: errors.FusionError) -> dict[str, Any]:
    """An error as problem details, with its ``details`` as further members."""
    status = status_of(error)
    details: Mapping[str, Any] = getattr(error, "details", {})
    wait = retry_after_s(error)
    return {
        **details,
        "type": _PREFIX + type(error).__name__,
        "title": _title(type(error)),
        "status": status,
        "detail": str(error),
        **({} if wait is None else {"retry_after_s": wait}),
    }


def http_problem(status: int, detail: str) -> dict[str, Any]:
    """The problem details of a plain HTTP error."""
    return {"type": "about:blank", "title": phrase(status), "status": status, "detail": detail}


def error_of(problem: Mapping[str, Any], status: int) -> errors.FusionError:
    """The error that problem details describe; for an unknown type, the class that fits ``status``."""
    name = str(problem.get("type", "")).removeprefix(_PREFIX)
    detail = str(problem.get("detail") or problem.get("title") or phrase(status))
    kind = _BY_NAME.get(name) or _by_status(status)
    wait = problem.get("retry_after_s")
    given = {"retry_after_s": float(wait)} if isinstance(wait, int | float) and math.isfinite(wait) else {}
    if issubclass(kind, errors.NobodyAnswered):
        return kind(detail, {k: v for k, v in problem.items() if k not in _MEMBERS}, **given)
    if issubclass(kind, errors.AlreadyReplaced):
        return kind(detail, problem.get("current"))
    if issubclass(kind, errors.NobodyNamed):
        return kind(detail, {name: problem[name] for name in ("users", "agents") if name in problem})
    if issubclass(kind, errors.HttpStatus):
        return kind(detail, status, **given)
    if issubclass(kind, errors.RetryLater | errors.RateLimited):
        return kind(detail, **given)
    return kind(detail)


def phrase(status: int) -> str:
    """The standard text of an HTTP status: "Not Found"."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return f"Status {status}"


_MEMBERS = frozenset({"type", "title", "status", "detail", "retry_after_s"})


def _title(kind: type[errors.FusionError]) -> str:
    """KeyReused → Key reused."""
    return "".join(f" {c.lower()}" if c.isupper() else c for c in kind.__name__).strip().capitalize()


def _by_status(status: int) -> type[errors.FusionError]:
    if status in (401, 403):
        return errors.SettingsError
    if status == 404:
        return errors.NotFound
    if status == 413:
        return errors.TooLarge
    if status == 429:
        return errors.TooManyRequests
    if status == 503:
        return errors.Overloaded
    return errors.BadInput if 400 <= status < 500 else errors.FusionError


def _tree(kind: type[errors.FusionError]) -> dict[str, type[errors.FusionError]]:
    return {kind.__name__: kind} | {n: k for child in kind.__subclasses__() for n, k in _tree(child).items()}


_BY_NAME = _tree(errors.FusionError)
