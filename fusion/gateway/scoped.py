"""The gateway as a verb or route of one backend may use it: limited to the scope of its caller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from typing import Any

from fusion.contract import DIMENSIONS, Embedder, Event, Scope
from fusion.errors import NotFound
from fusion.gateway.parts import TenantParts
from fusion.ingest.claims import as_stated_by_caller
from fusion.ingest.forget import ForgetReceipt
from fusion.ingest.intake import NewMemory
from fusion.journal import external_refs, rows
from fusion.journal.external_refs import is_external
from fusion.journal.rows import Record
from fusion.upkeep.lifecycle import LifecycleRequest


@dataclass(frozen=True, slots=True)
class CallerGateway:
    """Implements `fusion.extension.ScopedGateway` for one backend and one caller.

    ``forget_memory`` and ``settle_tenant`` are the gateway's own `forget` and `settle`.
    """

    parts: TenantParts
    backend: str
    scope: Scope
    forget_memory: Callable[[str, Scope], Awaitable[ForgetReceipt]]
    settle_tenant: Callable[[], Awaitable[None]]

    async def remember(self, events: Sequence[Event]) -> Sequence[tuple[str, str]]:
        drafts = [replace(event, scope=self._scope_of(event)) for event in events]
        memories = [
            as_stated_by_caller(NewMemory(**{field.name: getattr(draft, field.name) for field in fields(NewMemory)}))
            for draft in drafts
        ]
        # apart: the backend has its own rule for repeated statements; it may reinforce or count them.
        stored = await self.parts.intake.remember(memories, tenant=self.scope.tenant, apart=True)
        return [(one.event_id, one.status) for one in stored]

    async def forget(self, ref: str) -> Mapping[str, str]:
        return (await self.forget_memory(ref, self.scope)).backends

    async def forgotten(self, event_ids: Collection[str]) -> frozenset[str]:
        return await self.parts.journal.read(rows.forgotten, event_ids)

    async def hidden(self, event_ids: Collection[str]) -> frozenset[str]:
        now = self.parts.live.now()
        records = await self.parts.journal.records(list(event_ids))
        return frozenset(event_id for event_id, record in records.items() if _is_hidden(record, now))

    async def journalled(self, event_ids: Collection[str]) -> frozenset[str]:
        return frozenset(await self.parts.journal.records(list(event_ids)))

    async def used(self, event_ids: Collection[str]) -> None:
        self.parts.use.note(event_ids, self.parts.live.now())

    async def lifecycle(
        self, *, dry_run: bool, ttl_hours: float | None, idle_hours: float | None, delete_expired: bool | None
    ) -> Mapping[str, Any]:
        asked = LifecycleRequest(self.scope, dry_run, ttl_hours, idle_hours, delete_expired)
        return asdict(await self.parts.lifecycle.run(asked, self.parts.live.now()))

    async def ids(self, ref: str) -> Sequence[str]:
        if not is_external(ref):
            return await self.parts.journal.outbox.native_ids(self.backend, ref, self.scope)
        await self.parts.external_refs.flush()
        item = await self.parts.journal.read(external_refs.resolve, ref, self.scope)
        if item.backend != self.backend:
            raise NotFound(f"{ref} is a memory of {item.backend}, not of {self.backend}")
        return (item.hit.native_id,)

    async def settle(self) -> None:
        await self.settle_tenant()

    async def embedder(self, changes: Mapping[str, object]) -> Embedder:
        return await self.parts.embedders.other(changes)

    async def use_embedder(self, changes: Mapping[str, object]) -> None:
        folder = self.parts.settings.home / "backends" / self.backend
        await asyncio.to_thread(self.parts.embedders.use, folder, changes)

    def _scope_of(self, event: Event) -> Scope:
        """The caller's dimensions; those that the caller did not name are the draft's."""
        own = {name: getattr(self.scope, name) or getattr(event.scope, name) for name in (*DIMENSIONS, "project")}
        return replace(event.scope, tenant=self.scope.tenant, **own)


def _is_hidden(record: Record, now: datetime) -> bool:
    """Whether a record's state hides it from questions about now."""
    state = record.state
    ended = state.ended_at is not None and state.ended_at <= now
    return record.forgotten or ended or state.merged_into is not None or record.trust == "quarantined"
