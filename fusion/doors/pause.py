"""Pauses what the hooks do, for one session or for all of a home: they recall nothing and remember nothing.

What is said meanwhile is not remembered later either: the hooks read past it (`fusion.doors.hooks`).
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from fusion.store.private_files import read_regular, write_atomically

FILE = "paused.json"
EVERY = "*"
"""stands for all sessions"""
MAX_BYTES = 1 << 16
MAX_SESSIONS = 100
"""sessions that are remembered as paused, the last ones"""


def is_paused(home: Path, session: str) -> bool:
    """Whether a session is paused, by itself or with all others. A file that cannot be read pauses nothing."""
    paused = _read(home)
    return EVERY in paused or bool(session and session in paused)


def set_paused(home: Path, session: str | None, *, paused: bool) -> bool:
    """Pause or resume a session, or all of them for None; returns whether that changes anything.

    To resume all also resumes the sessions that were paused by themselves.
    """
    before = _read(home)
    name = session or EVERY
    if paused:
        after = {**before, name: before.get(name) or datetime.now(UTC).isoformat(timespec="seconds")}
        after = dict([*after.items()][-MAX_SESSIONS:])
    else:
        after = {} if session is None else {one: since for one, since in before.items() if one != session}
    if after != before:
        write_atomically(home / FILE, json.dumps(after).encode())
    return after != before


def _read(home: Path) -> dict[str, str]:
    try:
        found = json.loads(read_regular(home / FILE, MAX_BYTES))
    except (OSError, ValueError):
        return {}
    return {str(name): str(since) for name, since in found.items()} if isinstance(found, dict) else {}
