"""Detects events that a store has lost while the server runs, or between two runs, by comparing counts.

The journal knows the state of every delivery and deletion, and so between which numbers a store's events must be. A
store that holds more has events of other programs, and their number stays the same. A store that falls below its
earlier surplus has lost events through another program.

A store in the home is only reported, as its file may be damaged. One on a server gets the journal's events again: there
is no folder to move away, and with several gateways none can tell that it starts with an empty one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

from fusion.contract import CountsEvents
from fusion.errors import FusionError
from fusion.journal import Journal
from fusion.journal.outbox import Holding
from fusion.journal.store_watermarks import StoreCount, read_count, remove_count, write_count

log = logging.getLogger(__name__)


class Losses:
    """Compares the counts of one home's stores with their last counts, which are kept in the stores' folders."""

    def __init__(
        self,
        journal: Journal,
        stores: Mapping[str, CountsEvents],
        folders: Mapping[str, Path],
        servers: Collection[str] = (),
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        """``servers`` are the stores that get again what they lost; ``wake`` has it delivered."""
        self._journal = journal
        self._stores = stores
        self._folders = folders
        self._servers = servers
        self._wake = wake
        self._counts: dict[str, StoreCount] = {}
        """the last counts of ``servers``: in a home that cannot be written, a loss is made up for once all the same"""
        self._again: dict[str, tuple[int, str]] = {}
        """by store that gets its memories again, how many it should hold, and what was lost"""
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
            if count is None:
                continue
            if count.missing:
                found[name] = self._description(name, count)
                if name not in self.found:
                    log.error("%s", found[name])
                elif name in self._servers:  # for the second time: gateways may have stored and deleted meanwhile
                    await self._deliver_again(name, count, found[name])
            elif name in self._again and await self._is_filling(name, count):
                found[name] = self._again[name][1]
        self.found = found
        return found

    async def _deliver_again(self, name: str, count: StoreCount, text: str) -> None:
        """Make all memories due again for a store. What it holds after that is the measure: some may not come back."""
        try:
            await self._journal.outbox.redeliver([name])
        except FusionError as error:  # the next comparison tries again
            log.warning("backend %s does not get its memories again yet: %s", name, type(error).__name__)
            return
        self._again[name] = (count.events + count.missing, text)
        await self._keep(name, replace(count, surplus=(count.surplus or 0) - count.missing, missing=0))
        self._wake()

    async def _is_filling(self, name: str, count: StoreCount) -> bool:
        """Whether a store does not have all of its memories again, and more are on their way."""
        try:
            is_waiting = bool((await self._journal.backlog()).get(name))
        except FusionError:
            return True
        if count.events < self._again[name][0] and is_waiting:
            return True
        del self._again[name]
        return False

    async def _keep(self, name: str, count: StoreCount) -> None:
        if name in self._servers:
            self._counts[name] = count
        await asyncio.to_thread(write_count, self._folders[name], count)

    async def forget(self, name: str) -> None:
        """Discard a store's last count, since a user's command changes its contents."""
        self._counts.pop(name, None)
        if name in self._stores:
            await asyncio.to_thread(remove_count, self._folders[name])

    async def _counted(self, name: str, store: CountsEvents) -> StoreCount | None:
        """A store's present count with the number of lost events; the last count if the journal changes during it."""
        folder = self._folders[name]
        last = self._counts.get(name) or await asyncio.to_thread(read_count, folder)
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
        if last is None and name in self._servers:
            # Nobody else stores there, so it had all that was delivered. The home of this gateway may be a new one.
            last = StoreCount(mark.id, events, 0)
        count = _compared(mark.id, events, held, last, is_server=name in self._servers)
        if count != last:
            await self._keep(name, count)
        return count

    def _description(self, name: str, count: StoreCount) -> str:
        folder = self._folders[name]
        fix = (
            "The journal has them, and they are delivered to it again"
            if name in self._servers
            else f"The journal has them: stop the server, move {folder} away and start again, and the store is filled "
            "again"
        )
        return (
            f"{name}: at least {count.missing} of its memories are gone that nobody removed; it holds {count.events}. "
            f"{fix}"
        )


def _compared(journal: str, events: int, held: Holding, last: StoreCount | None, *, is_server: bool) -> StoreCount:
    """The count of a store that holds ``events``, compared with its last count.

    What a server has and the journal lacks does not count: the journal cannot deliver that again.
    """
    least, most = events - held.most, events - held.least
    surplus = least
    if last is not None and last.surplus is not None:
        surplus = max(last.surplus, least)
    elif last is not None:  # of an earlier version, whose count may have reported a loss that is none
        surplus = max(least, min(0, most + last.missing))
    if is_server:
        surplus = min(surplus, 0)
    return StoreCount(journal, events, surplus, missing=max(0, surplus - most))
