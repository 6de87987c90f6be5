"""Repairs a home with a lost or damaged journal: rebuilds it from its readable rows and from the stores."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from fusion.contract import Event, ListsEvents, Remembers
from fusion.errors import BadInput
from fusion.gateway.bootstrap import of_tenant, open_shared
from fusion.gateway.open_backends import open_backends
from fusion.gateway.parts import DEFAULT, SharedParts
from fusion.gateway.tenants import NAME
from fusion.home import TENANTS
from fusion.journal import Journal, rebuild, store_watermarks
from fusion.settings import Settings

PAGE_EVENTS = 1000


@dataclass(frozen=True, slots=True)
class Store:
    """One store's share of a repair: it holds ``holds`` events, ``beyond`` of which the journal does not have.

    ``reason`` says why a store cannot contribute.
    """

    holds: int = 0
    beyond: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Repair:
    """The outcome or the preview of repairing one tenant's journal. Counts are of events, including forgotten ones.

    ``damage`` describes the fault of the file, ``lost`` the loss that the marks show, ``cut`` lists the tables that
    could be read in part only. ``forgotten`` counts events that existing tombstones keep deleted, ``missing`` those
    that neither the journal nor a store has.
    """

    tenant: str
    damage: str
    lost: str
    readable: int
    cut: tuple[str, ...] = ()
    stores: dict[str, Store] = field(default_factory=dict)
    recovered: int = 0
    forgotten: int = 0
    missing: int = 0
    new_refs: int = 0
    """recovered events with a new ref: only the journal had the old one"""
    kept_as: str | None = None
    """the name of the old journal's file after the exchange"""

    @property
    def needed(self) -> bool:
        return bool(self.damage or self.lost or self.recovered)


async def repair(settings: Settings, *, dry_run: bool, now: datetime | None = None) -> list[Repair]:
    """Rebuild the journals of a home that need it; with ``dry_run`` only report what would be done.

    Locks the home: raises HomeLocked while a server runs. Changes no store.
    """
    if settings.database.in_use:
        raise BadInput("The memories are in PostgreSQL ([database] url): restore that database from its own backup.")
    async with open_shared(settings) as shared:
        for folder in [settings.home, *sorted((settings.home / TENANTS).glob("*"))]:
            await asyncio.to_thread(rebuild.finish_exchange, folder)
        found = [await _repair_tenant(shared, DEFAULT, dry_run, now or datetime.now(UTC))]
        for file in sorted((settings.home / TENANTS).glob(f"*/{NAME}")):
            tenant = json.loads(file.read_text(encoding="utf-8"))
            found.append(await _repair_tenant(shared, tenant, dry_run, now or datetime.now(UTC)))
    return found


async def _repair_tenant(shared: SharedParts, tenant: str, dry_run: bool, now: datetime) -> Repair:
    settings = of_tenant(shared.settings, tenant)
    folder = settings.home
    async with AsyncExitStack() as stack:
        backends = await open_backends(settings, shared, tenant, stack)
        held, stores = {}, {}
        for name, guarded in backends.items():
            if guarded.disabled is not None or not isinstance(guarded.backend, ListsEvents):
                stores[name] = Store(reason=guarded.disabled or "it cannot say which events it keeps")
                continue
            held[name] = await _all_events(guarded.backend)
        remembers = [n for n, s in backends.items() if s.disabled is None and isinstance(s.backend, Remembers)]
    places = store_watermarks.places_of(folder, settings.backends)
    marks = [mark for place in places.values() if (mark := store_watermarks.read_mark(place)) is not None]
    file, copied = await asyncio.to_thread(rebuild.begin, folder)
    try:
        lost = store_watermarks.lost(copied.mark, places) or ""
        last = max((mark.seq for mark in marks), default=0)
        became = await asyncio.to_thread(rebuild.add, file, rebuild.merge_copies(held), remembers, last)
        for name, events in held.items():
            beyond = sum(became[event.event_id] != "known" for event, _ in events)
            stores[name] = Store(len(events), beyond)
        renumbered = sum(state == "renumbered" for state in became.values())
        recovered = renumbered + sum(state == "recovered" for state in became.values())
        total = copied.events + recovered
        done = Repair(
            tenant,
            copied.damage if recovered or lost or (folder / rebuild.FILE).exists() else "",
            lost,
            copied.events,
            tuple(copied.cut),
            stores,
            recovered,
            sum(state == "forgotten" for state in became.values()),
            max(0, max((mark.events for mark in marks), default=0) - total),
            new_refs=renumbered,
        )
        if dry_run or not done.needed:
            return done
        journal = await Journal.open(file)  # a journal that cannot be opened must not replace the old one
        fresh = await journal.watermark()
        await journal.close()
        aside = f"{rebuild.FILE}.lost-{now:%Y%m%dT%H%M%S}"
        await asyncio.to_thread(rebuild.exchange, folder, aside)
        for place in places.values():
            store_watermarks.write_mark(place, fresh)
        return replace(done, kept_as=aside if (folder / aside).exists() else None)
    finally:
        await asyncio.to_thread(rebuild.discard_unfinished, folder)


async def _all_events(store: ListsEvents) -> list[tuple[Event, tuple[str, ...]]]:
    found: list[tuple[Event, tuple[str, ...]]] = []
    while page := await store.events(found[-1][0].event_id if found else "", PAGE_EVENTS):
        found += page
    return found
