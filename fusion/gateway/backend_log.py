"""What the breakers and backlogs of a tenant's backends were, in a small file of its home."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from fusion.store.private_files import write_atomically

NAME = "backend-states.json"
"""the file in the home, or in a tenant's folder"""
SAMPLE_S = 10.0
"""seconds between two samples; a breaker stays open for five at least"""
SAVE_EVERY = 6
"""samples between two writes of what has changed: a minute"""
MAX_MOMENTS = 300
"""changes of one backend that are kept; beyond it the oldest is dropped"""
MAX_BACKENDS = 50
"""backends that are kept, those that changed last; settings may have named many others over the years"""
MAX_STATUS_CHARS = 32

log = logging.getLogger(__name__)


class Moment(NamedTuple):
    """The state that a backend has had since a time, until the next one."""

    at: datetime
    status: str
    """as in `wire.BackendState`"""
    backlog: int


class BackendLog:
    """The changes of each backend's state. A sample that is as the one before it takes no room.

    What a damaged file has that can be read is kept; the next write replaces it.
    """

    def __init__(self, folder: Path, fault: str = "") -> None:
        """``fault`` says why nothing is written: the home cannot be written to."""
        self._file = folder / NAME
        self._fault = fault
        self._is_saved = True
        self._moments = {name: deque(moments, MAX_MOMENTS) for name, moments in _read(self._file)}

    def note(self, at: datetime, states: Mapping[str, tuple[str, int]]) -> None:
        """Note the status and the backlog of each backend."""
        for name, (status, backlog) in states.items():
            moments = self._moments.setdefault(name, deque(maxlen=MAX_MOMENTS))
            if not moments or moments[-1][1:] != (status, backlog):
                moments.append(Moment(at, status, backlog))
                self._is_saved = False

    def of(self, name: str) -> Sequence[Moment]:
        """The changes of one backend, the oldest first."""
        return tuple(self._moments.get(name, ()))

    async def save(self) -> None:
        """Write what was noted since the last time, if there is something. Raises OSError."""
        if self._is_saved or self._fault:
            return
        self._is_saved = True  # a note that comes during the write is written by the next one
        try:
            await asyncio.to_thread(write_atomically, self._file, self._encoded())
        except BaseException:  # also if the home is closed meanwhile, which saves once more
            self._is_saved = False
            raise

    def _encoded(self) -> bytes:
        latest = sorted(self._moments.items(), key=lambda one: one[1][-1].at)[-MAX_BACKENDS:]
        rows = {name: [[one.at.isoformat(), one.status, one.backlog] for one in moments] for name, moments in latest}
        return json.dumps(rows, separators=(",", ":")).encode()


def _read(file: Path) -> Iterator[tuple[str, list[Moment]]]:
    """What a file has of each backend, as far as it can be read."""
    try:
        found = json.loads(file.read_bytes())
    except FileNotFoundError:
        return
    except (OSError, ValueError, RecursionError) as error:
        log.warning("%s cannot be read, so the history begins anew: %s", file, type(error).__name__)
        return
    if not isinstance(found, dict):
        return
    for name, rows in found.items():
        moments = [made for row in rows if (made := _moment(row))] if isinstance(rows, list) else []
        if moments:
            yield name, moments


def _moment(row: object) -> Moment | None:
    match row:
        case [str(at), str(status), int(backlog)] if (
            status.isidentifier() and len(status) <= MAX_STATUS_CHARS and backlog >= 0
        ):
            try:
                since = datetime.fromisoformat(at)
            except ValueError:
                return None
            return None if since.tzinfo is None else Moment(since, status, int(backlog))
    return None
