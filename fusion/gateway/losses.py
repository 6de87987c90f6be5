"""Detects events that a store has lost while the server runs, or between two runs, by comparing counts.

The journal knows the state of every delivery and deletion, and so between which numbers a store's events must be. A
store that holds more has events of other programs, and their number stays the same. A store that falls below its
earlier surplus has lost events through another program.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

from fusion.contract import CountsEvents
from fusion.journal import Journal
from fusion.journal.outbox import Holding
from fusion.journal.store_watermarks import StoreCount, read_count, remove_count, write_count

log = logging.getLogger(__name__)


class Losses:
    """Compares the counts of one home's stores with their last counts, which are kept in the stores' folders."""

    def __init__(self, journal: Journal, stores: Mapping[str, CountsEvents], folders: Mapping[str, Path]) -> None:
        self._journal = journal
        self._stores = stores
        self._folders = folders
        self.found: Mapping[str, str] = {}
        """by store, the loss at the last comparison and how to repair it"""

    async def compare(self) -> Mapping[str, str]:
        """Count every store's events and compare them with the last count; returns the losses by store."""
        found: dict[str, str] = {}
        for name, store in self._stores.items():
            try:
                count = await self._counted(name, store)
            except Exception as error:  # noqa: BLE001 — other checks report a store that cannot be read
                log.debug("backend %s could not be counted: %s", name, type(error).__name__)
                if name in self.found:
                    found[name] = self.found[name]
                continue
            if count is not None and count.missing:
                found[name] = self._description(name, count)
                if name not in self.found:
                    log.error("%s", found[name])
        self.found = found
        return found

    async def forget(self, name: str) -> None:
        """Discard a store's last count, since a user's command changes its contents."""
        if name in self._stores:
            await asyncio.to_thread(remove_count, self._folders[name])

    async def _counted(self, name: str, store: CountsEvents) -> StoreCount | None:
        """A store's present count with the number of lost events; the last count if the journal changes during it."""
        folder = self._folders[name]
        last = await asyncio.to_thread(read_count, folder)
        mark = await self._journal.mark()
        held = await self._journal.outbox.holding(name)
        events = await store.count()
        if events is None:
            return None
        if last is not None and last.journal != mark.id:
            last = None
        # To count again takes as long as the journal is large, and nothing has changed if nothing was committed.
        is_same = not self._journal.shared and (await self._journal.mark()).commits == mark.commits
        if not is_same and held != await self._journal.outbox.holding(name):
            return last
        count = _compared(mark.id, events, held, last)
        if count != last:
            await asyncio.to_thread(write_count, folder, count)
        return count

    def _description(self, name: str, count: StoreCount) -> str:
        folder = self._folders[name]
        return (
            f"{name}: at least {count.missing} of its memories are gone that nobody removed; it holds {count.events}. "
            f"The journal has them: stop the server, move {folder} away and start again, and the store is filled again"
        )


def _compared(journal: str, events: int, held: Holding, last: StoreCount | None) -> StoreCount:
    """The count of a store that holds ``events``, compared with its last count."""
    least, most = events - held.most, events - held.least
    surplus = least
    if last is not None and last.surplus is not None:
        surplus = max(last.surplus, least)
    elif last is not None:  # of an earlier version, whose count may have reported a loss that is none
        surplus = max(least, min(0, most + last.missing))
    return StoreCount(journal, events, surplus, missing=max(0, surplus - most))
