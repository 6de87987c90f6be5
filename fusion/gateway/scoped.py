"""The gateway as a verb of a backend gets it: nothing that it is asked leaves the scope of who called."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from fusion.contract import DIMENSIONS, Embedder, Event, Scope
from fusion.errors import NotFound
from fusion.ingest.claims import unread
from fusion.ingest.intake import NewMemory
from fusion.journal.external_refs import is_external

if TYPE_CHECKING:
    from fusion.gateway.gateway import Gateway


@dataclass(frozen=True, slots=True)
class Scoped:
    """`fusion.extension.Gateway` for one backend and one caller."""

    fusion: Gateway
    backend: str
    scope: Scope

    async def remember(self, events: Sequence[Event]) -> Sequence[tuple[str, str]]:
        drafts = [replace(event, scope=self._scope_of(event)) for event in events]
        memories = [
            unread(NewMemory(**{field.name: getattr(draft, field.name) for field in fields(NewMemory)}))
            for draft in drafts
        ]
        # A backend has its own rule for what was said before: it may reinforce that, or count it.
        kept = await self.fusion.remember(memories, tenant=self.scope.tenant, apart=True)
        return [(one.event_id, one.status) for one in kept]

    async def forget(self, ref: str) -> Mapping[str, str]:
        return (await self.fusion.forget(ref, self.scope)).backends

    async def forgotten(self, event_ids: Collection[str]) -> frozenset[str]:
        return await self.fusion.journal.forgotten(event_ids)

    async def ids(self, ref: str) -> Sequence[str]:
        if not is_external(ref):
            return await self.fusion.journal.outbox.native_ids(self.backend, ref, self.scope)
        await self.fusion.noting.flush()
        item = await self.fusion.journal.external_item(ref, self.scope)
        if item.backend != self.backend:
            raise NotFound(f"{ref} is a memory of {item.backend}, not of {self.backend}")
        return (item.hit.native_id,)

    async def settle(self) -> None:
        await self.fusion.settle()

    async def embedder(self, changes: Mapping[str, object]) -> Embedder:
        return await self.fusion.embedders.other(changes)

    async def use_embedder(self, changes: Mapping[str, object]) -> None:
        folder = self.fusion.settings.home / "backends" / self.backend
        await asyncio.to_thread(self.fusion.embedders.settle, folder, changes)

    def _scope_of(self, event: Event) -> Scope:
        """The caller's own dimensions, and where the caller named none, those of the draft."""
        own = {name: getattr(self.scope, name) or getattr(event.scope, name) for name in (*DIMENSIONS, "project")}
        return replace(event.scope, tenant=self.scope.tenant, **own)
