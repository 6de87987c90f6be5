"""`fusion statusline`: one line about the memory for Claude Code's status line, from the JSON that it gives on stdin.

It never fails and never waits long: what is wrong is what the line says. It starts no server.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from fusion import local_server
from fusion.doors.hooks import HookCall, limit, read_call, write_line
from fusion.doors.pause import is_paused
from fusion.doors.terminal import plain
from fusion.errors import FusionError, HomeNotAllowed

LIMIT_S = 0.5
"""seconds until the line says that the memory is slow"""
LOOK_S = 0.2
"""seconds for a server to prove that it is there"""
NAME = "memory"


def main(arguments: Sequence[str]) -> None:
    """Print the line. It never raises."""
    try:
        with limit(LIMIT_S):
            said = line_of(read_call(arguments))
    except HomeNotAllowed:
        said = "not allowed: fusion allow"
    except FusionError as error:
        said = str(error)
    except BaseException:  # noqa: BLE001 — a status line that fails is shown as an error of the host
        said = "slow or out of order: fusion doctor"
    write_line(1, f"{NAME}: {' '.join(plain(said).split())[:120]}")


def line_of(call: HookCall) -> str:
    """What is known, and what the last block of the session had. Raises FusionErrors."""
    if is_paused(call.home, call.session):
        return "paused"
    status = local_server.fetch(call.home, "/v1/status", look_s=LOOK_S, answer_s=LIMIT_S)
    if status is None:
        return "asleep until the next prompt"
    known = status["memories"]["current"]
    count = f"{known:,} {'memory' if known == 1 else 'memories'}"
    weak = [one["name"] for one in status["backends"] if one["status"] not in ("ready", "disabled")]
    parts = [count, _last_block(call)] + ([f"{', '.join(weak)} fails"] if weak else [])
    return " · ".join(filter(None, parts))


def _last_block(call: HookCall) -> str:
    """How many memories the session's last block had, and how long ago that was; "" before the first."""
    if not call.session:
        return ""
    asked = urlencode({"session_id": call.session, "agent_id": "claude-code", "user_id": call.user or ""})
    found: Mapping[str, Any] | None = local_server.fetch(
        call.home, f"/v1/session?{asked}", look_s=LOOK_S, answer_s=LIMIT_S
    )
    at_ms = found and found["memoryCortexRecalledAt"]
    if not found or not at_ms:
        return ""
    count, minutes = found["memoryCortexFactsInjected"], int((time.time() - at_ms / 1000) / 60)
    ago = "just now" if minutes < 1 else f"{minutes} min ago" if minutes < 120 else f"{minutes // 60} h ago"
    return f"{count or 'none'} in the last block, {ago}"
