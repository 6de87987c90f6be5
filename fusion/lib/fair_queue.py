"""A queue for slots: the next slot goes to the owner that holds the fewest, so one owner's flood delays itself.

Among owners that hold equally many, it goes to the one that has waited longest since its last slot.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque


class FairQueue:
    """Requests that wait for a slot, by owner: those of one owner in their order.

    How many slots there are is up to the caller, which calls `admit` while one is free, and `release` at a slot's end.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """in the order in which owners began to wait"""
        self._holding: Counter[str] = Counter()
        self._given = 0
        self._last: dict[str, int] = {}
        """the number of the last slot of each owner that has one or waits"""

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def join(self, owner: str) -> asyncio.Future[None]:
        """Wait for a slot: the future of it, which has a result once there is one."""
        slot = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(slot)
        return slot

    def leave(self, owner: str, slot: asyncio.Future[None]) -> bool:
        """Wait no longer; True if the slot was given already, which is to be released then."""
        if slot.done() and not slot.cancelled() and slot.exception() is None:
            return True
        queue = self._waiting.get(owner, ())
        if slot in queue:
            self._remove(owner, slot)
        return False

    def admit(self) -> bool:
        """Give a free slot to a request of the owner with the fewest; False if none waits."""
        while self._waiting:
            owner = min(self._waiting, key=lambda one: (self._holding[one], self._last.get(one, 0)))
            slot = self._waiting[owner][0]
            if not slot.done():
                self._given += 1
                self._last[owner] = self._given
                self._holding[owner] += 1
            self._remove(owner, slot)
            if not slot.done():
                slot.set_result(None)
                return True
        return False

    def release(self, owner: str) -> None:
        """End a slot."""
        self._holding[owner] -= 1
        if not self._holding[owner]:
            del self._holding[owner]
            if owner not in self._waiting:
                del self._last[owner]

    def make_room(self, owner: str, error: Exception) -> bool:
        """Give the newest request of the owner with the most an error; False if no other waits more than ``owner``."""
        if not self._waiting:
            return False
        most = max(self._waiting, key=lambda one: len(self._waiting[one]))
        if len(self._waiting[most]) <= len(self._waiting.get(owner, ())) + 1:
            return False
        slot = self._waiting[most][-1]
        self._remove(most, slot)
        if not slot.done():
            slot.set_exception(error)
        return True

    def _remove(self, owner: str, slot: asyncio.Future[None]) -> None:
        self._waiting[owner].remove(slot)
        if not self._waiting[owner]:
            del self._waiting[owner]
            if owner not in self._holding:
                self._last.pop(owner, None)
