"""Opens a tenant's journal and compares it with the marks that it left next to the stores.

A journal that is damaged, or that has lost events, is opened for reading only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from fusion.contract import Backend, ListsEvents
from fusion.errors import FusionError, StoreDamaged, StoreFull
from fusion.gateway.health import only_read
from fusion.journal import Journal, rebuild, store_watermarks
from fusion.journal.readonly import ReadOnlyJournal
from fusion.lib.clock import Clock, utc_now
from fusion.settings import Settings

log = logging.getLogger(__name__)


async def open_journal(
    settings: Settings, unwritable: str, places: Mapping[str, Path], clock: Clock = utc_now
) -> tuple[Journal, dict[str, str]]:
    """The journal, and by store the faults that make it read-only. ``places`` are the folders that have its marks.

    Raises StoreDamaged if nothing can be read.
    """
    await asyncio.to_thread(rebuild.finish_exchange, settings.home)
    journal, damaged = await _open_or_salvage(settings, clock)
    if unwritable and not damaged:
        journal.refuse_writes(unwritable, StoreFull)
        damaged = {"home": unwritable}
    if not damaged and (lost := store_watermarks.lost(await journal.watermark(), places)):
        damaged = only_read(journal, lost, settings.home)
    return journal, damaged


async def _open_or_salvage(settings: Settings, clock: Clock) -> tuple[Journal, dict[str, str]]:
    file = settings.home / "journal.sqlite"
    keys_kept_s = settings.journal.idempotency_keep_days * 86_400
    wal_bytes = int(settings.journal.wal_mb * 1_000_000)
    try:
        return await Journal.open(file, keys_kept_s=keys_kept_s, wal_bytes=wal_bytes, clock=clock), {}
    except StoreDamaged as error:
        try:
            salvaged = await ReadOnlyJournal.salvage(file)
        except StoreDamaged:
            raise error from None
        log.error("the journal is only read, nothing is remembered or forgotten: %s", error)
        return salvaged, {"journal": f"journal: {error}; until then it is only read"}


async def events_lost(journal: Journal, stores: Mapping[str, Backend]) -> str | None:
    """A description of the loss if the journal is empty although a store lists events; else None."""
    if (await journal.watermark()).events:
        return None
    for name, store in stores.items():
        if isinstance(store, ListsEvents):
            try:
                if await store.events("", 1):
                    return f"it is empty, and {name} keeps memories that came through a journal"
            except (FusionError, OSError) as error:
                log.warning("backend %s does not say which events it keeps: %s", name, type(error).__name__)
    return None


async def refill(journal: Journal, names: Sequence[str], places: Mapping[str, Path]) -> None:
    """Schedule all deliveries again for these stores, which are empty, and discard their last counts."""
    for name in names:
        await asyncio.to_thread(store_watermarks.remove_count, places[name])
    await journal.outbox.redeliver(names)


async def write_marks(journal: Journal, places: Mapping[str, Path], *names: str) -> None:
    """Write the journal's mark into the home and next to these stores.

    A journal that lost events writes no mark, so that the last one still shows how many it had. Nor is one written if
    the journal is no longer in its home: a disk that was mounted over the home gets no file of ours.
    """
    if await journal.deleted_externally() > 0:
        return
    mark = await journal.watermark()
    journal_file = places[store_watermarks.HOME] / rebuild.FILE

    def write(folder: Path) -> None:
        if journal_file.exists():
            store_watermarks.write_mark(folder, mark)

    for name in {store_watermarks.HOME, *names}:
        await asyncio.to_thread(write, places[name])
