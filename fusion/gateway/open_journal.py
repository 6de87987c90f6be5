"""Opens a tenant's journal and compares it with the marks that it left next to the stores.

A journal that is damaged, or that has lost events, is opened for reading only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fusion.contract import Backend, ListsEvents
from fusion.errors import FusionError, PackageMissing, SettingsError, StoreDamaged, StoreFull
from fusion.gateway.health import only_read
from fusion.journal import Journal, rebuild, split_tenants, store_watermarks
from fusion.journal.readonly import ReadOnlyJournal
from fusion.lib.clock import Clock, utc_now
from fusion.settings import Settings

if TYPE_CHECKING:
    from fusion.store.postgres import Server

log = logging.getLogger(__name__)


async def open_journal(
    settings: Settings,
    unwritable: str,
    places: Mapping[str, Path],
    clock: Clock = utc_now,
    server: Server | None = None,
    tenant: str = "",
) -> tuple[Journal, dict[str, str]]:
    """The journal, and by store the faults that make it read-only. ``places`` are the folders that have its marks.

    It is in the home, or with a ``server`` in its schema of the tenant. Raises StoreDamaged if nothing can be read.
    """
    if server is None:
        await asyncio.to_thread(rebuild.finish_exchange, settings.home)
        journal, damaged = await _open_or_salvage(settings, clock)
    else:
        journal, damaged = await _open_shared(settings, clock, server, tenant), {}
    if unwritable and not damaged:
        journal.refuse_writes(unwritable, StoreFull)
        damaged = {"home": unwritable}
    if not damaged and (lost := store_watermarks.lost(mark := await journal.watermark(), places)):
        if not journal.shared:
            damaged = only_read(journal, lost, settings.home)
        elif others := store_watermarks.places_of_another(mark, places):
            files = ", ".join(map(str, others))
            damaged = only_read(journal, f"{lost}. If it is the right one, stop the server and delete {files}")
        else:
            await _accept(journal, lost, places)
    return journal, damaged


async def _accept(journal: Journal, lost: str, places: Mapping[str, Path]) -> None:
    """Go on with a database that is an earlier state of itself: it was restored, or a replica was promoted.

    Its owner has chosen so, and the other gateways go on as well.
    """
    log.warning("%s goes on as it is: %s", journal.place, lost)
    await write_marks(journal, places, *(name for name, folder in places.items() if store_watermarks.read_mark(folder)))


def open_server(settings: Settings) -> Server | None:
    """The database server of the settings, if they name one. Raises SettingsError, and BackendUnreachable."""
    url = settings.database.resolved()
    return connected(url, settings.database.connections) if url else None


def connected(url: str, connections: int = 10) -> Server:
    """A database server that was connected to once. Raises as `open_server`."""
    try:
        from fusion.store.postgres import READ_ONLY, Server
    except ImportError:
        raise PackageMissing("[database] url needs psycopg: pip install '/path/to/checkout[postgres]'") from None
    server = Server(url, connections)
    server.open()
    if server.is_read_only:
        server.close()
        raise SettingsError(f"PostgreSQL at {server.place} {READ_ONLY}")
    if server.bypasses_row_security:
        log.warning(
            "the role of [database] url is a superuser or has BYPASSRLS, so row-level security does not keep tenants "
            "apart: name an ordinary role that owns the database"
        )
    return server


async def _open_shared(settings: Settings, clock: Clock, server: Server, tenant: str) -> Journal:
    """A tenant's journal in PostgreSQL. Refused while the home's own journal has memories that it lacks."""
    keys_kept_s = settings.journal.idempotency_keep_days * 86_400
    file = settings.home / rebuild.FILE
    hidden = file.exists() and split_tenants.events_in(file)
    refusal = SettingsError(
        f"{file} has memories, and PostgreSQL at {server.place} has none. To move them there: "
        f"fusion migrate --to postgresql --home {settings.home}"
    )
    if hidden and tenant not in await asyncio.to_thread(server.tenants):
        raise refusal  # before a schema is made: journals are moved into an empty database
    journal = await Journal.open_shared(server, tenant, keys_kept_s=keys_kept_s, clock=clock)
    if hidden and not (await journal.watermark()).events:
        await journal.close()
        raise refusal
    return journal


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

    The mark of a journal that lost events while it was open still shows how many it had. None is written if the journal
    is no longer in its home: a disk that was mounted over the home gets no file of ours.
    """
    mark = await journal.mark()
    journal_file = places[store_watermarks.HOME] / rebuild.FILE

    def write(folder: Path) -> None:
        if journal.shared or journal_file.exists():
            store_watermarks.write_mark(folder, mark)

    for name in {store_watermarks.HOME, *names}:
        await asyncio.to_thread(write, places[name])
