"""Repairs a home whose journal was lost or damaged: makes it anew from what can be read of it and from the stores."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from fusion.contract import Event, ListsEvents, Remembers
from fusion.gateway.bootstrap import DEFAULT, Shared, of_tenant, open_sources, shared
from fusion.gateway.tenants import NAME
from fusion.home import TENANTS
from fusion.journal import Journal, rebuild, store_watermarks
from fusion.settings import Settings

PAGE = 1000


@dataclass(frozen=True, slots=True)
class Store:
    """What one store has for the journal: ``holds`` events, ``beyond`` of them unknown to it. ``reason``: why none."""

    holds: int = 0
    beyond: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Repair:
    """What repairing one tenant's journal does, or did. Counts are events of all time, forgotten ones among them.

    ``damage`` is what is wrong with the file, ``lost`` what the marks say is missing, ``cut`` the tables that cannot be
    read to their end. ``forgotten`` stay so by tombstones that are left. ``missing`` is how many nobody has any more.
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
    """how many of those recovered get another ref: only the journal knew the old one"""
    kept_as: str | None = None
    """the name of the old journal's file, once it was exchanged"""

    @property
    def needed(self) -> bool:
        return bool(self.damage or self.lost or self.recovered)


async def repair(settings: Settings, *, dry_run: bool, now: datetime | None = None) -> list[Repair]:
    """Makes the journals of a home anew that need it, or with ``dry_run`` only says what that would do.

    The home is owned meanwhile: raises HomeLocked while a server has it. No store is changed.
    """
    async with shared(settings) as common:
        for folder in [settings.home, *sorted((settings.home / TENANTS).glob("*"))]:
            await asyncio.to_thread(rebuild.finish_exchange, folder)
        found = [await _tenant(common, DEFAULT, dry_run, now or datetime.now(UTC))]
        for file in sorted((settings.home / TENANTS).glob(f"*/{NAME}")):
            tenant = json.loads(file.read_text(encoding="utf-8"))
            found.append(await _tenant(common, tenant, dry_run, now or datetime.now(UTC)))
    return found


async def _tenant(common: Shared, tenant: str, dry_run: bool, now: datetime) -> Repair:
    settings = of_tenant(common.settings, tenant)
    folder = settings.home
    async with AsyncExitStack() as stack:
        sources = await open_sources(settings, common, tenant, stack)
        held, stores = {}, {}
        for name, source in sources.items():
            if source.disabled is not None or not isinstance(source.backend, ListsEvents):
                stores[name] = Store(reason=source.disabled or "it cannot say which events it keeps")
                continue
            held[name] = await _held(source.backend)
        remembers = [n for n, s in sources.items() if s.disabled is None and isinstance(s.backend, Remembers)]
    places = store_watermarks.places_of(folder, settings.backends)
    known = [mark for place in places.values() if (mark := store_watermarks.read_mark(place)) is not None]
    file, copied = await asyncio.to_thread(rebuild.begin, folder)
    try:
        lost = store_watermarks.lost(copied.mark, places) or ""
        last = max((mark.seq for mark in known), default=0)
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
            max(0, max((mark.events for mark in known), default=0) - total),
            new_refs=renumbered,
        )
        if dry_run or not done.needed:
            return done
        journal = await Journal.open(file)  # as it will be opened: what cannot be is not exchanged
        fresh = await journal.watermark()
        await journal.close()
        aside = f"{rebuild.FILE}.lost-{now:%Y%m%dT%H%M%S}"
        await asyncio.to_thread(rebuild.exchange, folder, aside)
        for place in places.values():
            store_watermarks.write_mark(place, fresh)
        return replace(done, kept_as=aside if (folder / aside).exists() else None)
    finally:
        await asyncio.to_thread(rebuild.discard_unfinished, folder)


async def _held(store: ListsEvents) -> list[tuple[Event, tuple[str, ...]]]:
    """All events that a store keeps."""
    found: list[tuple[Event, tuple[str, ...]]] = []
    while page := await store.events(found[-1][0].event_id if found else "", PAGE):
        found += page
    return found
