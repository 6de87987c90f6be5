"""A base for what is noted during questions and written in the background, that of many questions in one write."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextvars import Context


class BackgroundWriter(ABC):
    """Writes what waits, `LINGER_S` after the first of it was noted, and when it is closed; one write at a time."""

    LINGER_S = 0.5

    def __init__(self) -> None:
        self._writing = asyncio.Lock()
        self._writer: asyncio.Task[None] | None = None

    @abstractmethod
    async def _write_waiting(self) -> None:
        """Write what waits now. A fault of the store is a warning in the log, not an exception."""

    def _write_soon(self) -> None:
        """Have what waits written; returns at once."""
        if self._writer is None:
            # What waits is of many calls, so the write has the context of none.
            self._writer = asyncio.get_running_loop().create_task(self._linger(), context=Context())

    async def _linger(self) -> None:
        await asyncio.sleep(self.LINGER_S)
        self._writer = None
        await self.flush()

    async def flush(self) -> None:
        """Write what waits, after the write that is under way."""
        async with self._writing:
            await self._write_waiting()

    async def close(self) -> None:
        """Write what waits, without lingering."""
        if self._writer is not None:
            self._writer.cancel()
            self._writer = None
        await self.flush()
