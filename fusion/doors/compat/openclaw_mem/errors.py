"""Errors in the shape of openclaw-mem's gateway: ``{"ok": false, "error": …}`` with its codes, and a hint.

The gate and the routes refuse with problem details (RFC 9457). On the way out each becomes openclaw-mem's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MISSING_KEY = "missing_or_invalid_bearer_token"
NO_CAPABILITY = "insufficient_capability"
NOT_FOUND = "not_found"
_CODES: Mapping[int, tuple[int, str]] = {
    401: (401, MISSING_KEY),
    404: (404, NOT_FOUND),
    405: (404, NOT_FOUND),
    413: (400, "request body too large"),
    415: (400, "Content-Type must be application/json"),
    503: (503, "overloaded"),
}
"""status and code by our status; most others of the client are 400 with our sentence as the error"""
REUSED = "Idempotency-Key reused with different payload"


def refused(said: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """The status and the body of an error from its problem details."""
    status, detail = int(said["status"]), str(said.get("detail") or said["title"])
    kind = str(said.get("type", "")).rpartition(":")[2]
    if kind == "KeyReused":
        return 400, _body(REUSED, detail)
    if kind == "RoleTooLow":
        return 403, _body(NO_CAPABILITY, detail)
    if kind == "NotFound":
        return 404, _body(NOT_FOUND, detail)
    if status in _CODES:
        code, error = _CODES[status]
        return code, _body(error, detail)
    if 400 <= status < 500 and status not in (403, 408, 409, 421):
        return 400, _body(detail)
    return status, _body(str(said["title"]).lower().replace(" ", "_"), detail)


def _body(error: str, hint: str | None = None) -> dict[str, Any]:
    return {"ok": False, "error": error} | ({} if hint is None else {"hint": hint})
