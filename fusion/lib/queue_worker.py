"""A base for what works off a queue in the background: one task, which is woken when there may be work."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod


class QueueWorker(ABC):
    """Runs ``_serve`` as a task from ``start`` to ``close``. Subclasses set ``_idle`` when nothing is due."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.fault = ""
        """the error of the last try; empty if it succeeded"""

    @abstractmethod
    async def _serve(self) -> None:
        """Work until cancelled."""

    def start(self) -> None:
        """Start with what is queued already."""
        self._task = asyncio.create_task(self._serve(), name=self._name)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def wake(self) -> None:
        """Signal that something may have been queued."""
        self._idle.clear()
        self._news.set()
