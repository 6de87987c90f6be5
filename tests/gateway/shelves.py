"""A store that is a server, for gateways that share one journal."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Self

from adapters.inmemory import InMemory
from adapters.options import FULL_FEATURES
from fusion.contract import Extracted, Opening


class SharedShelf(InMemory):
    """Every gateway that opens one address gets the same content. It counts deliveries, and those at once."""

    features = FULL_FEATURES
    servers: ClassVar[dict[str, SharedShelf]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.delivered: Counter[str] = Counter()
        self.at_once = 0
        """the most deliveries of one event at one time"""
        self.begun, self.taken = asyncio.Event(), asyncio.Event()
        """set once a delivery has begun, and once one was taken"""
        self.gate = asyncio.Event()
        """closed, deliveries wait"""
        self.gate.set()
        self._under_way: Counter[str] = Counter()

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        address = f"{opening.options.get('address', '')} {opening.tenant}"
        found = cls.servers.setdefault(address, cls())
        assert isinstance(found, cls)
        return found

    async def remember(self, batch: Sequence[Extracted]) -> Sequence[tuple[str, ...]]:
        ids = [one.event.event_id for one in batch]
        self._under_way.update(ids)
        self.at_once = max(self.at_once, *self._under_way.values())
        self.begun.set()
        try:
            await self.gate.wait()
            self.delivered.update(ids)
            return await super().remember(batch)
        finally:
            self._under_way.subtract(ids)
            if self.delivered:
                self.taken.set()

    async def close(self) -> None:
        """The server goes on."""
