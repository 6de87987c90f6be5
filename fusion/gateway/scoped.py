"""The gateway as a verb or route of one backend may use it: limited to the scope of its caller."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Protocol, Unpack

from fusion.contract import DIMENSIONS, Embedder, Event, Scope
from fusion.errors import BadInput, ModelMissing, NotFound
from fusion.extension import FuseOptions, Owner
from fusion.gateway.parts import TenantParts
from fusion.gateway.views import file_lines, search_reply
from fusion.ingest.claims import as_stated_by_caller
from fusion.ingest.forget import ForgetReceipt
from fusion.ingest.intake import NewMemory
from fusion.journal import external_refs, rows
from fusion.journal.external_refs import is_external
from fusion.journal.rows import Record
from fusion.lib.budget import MAX_BUDGET_CHARS, MAX_BUDGET_TOKENS
from fusion.recall.engine import Fused, FuseRequest
from fusion.recall.gather import Answer
from fusion.upkeep.lifecycle import LifecycleRequest

BOUNDS = {
    "budget_chars": MAX_BUDGET_CHARS,
    "budget_tokens": MAX_BUDGET_TOKENS,
    "max_results": 100,
    "max_items": 1000,
    "timeout_ms": 60_000,
    "limit": 100,
}
"""the maximum of each number of a question; all are at least 1"""


class TenantCalls(Protocol):
    """The calls of `fusion.gateway.gateway.Gateway` that a caller's are made of."""

    async def fuse(self, request: FuseRequest, /) -> Fused: ...

    async def search(
        self, backend: str, query: str, scope: Scope, limit: int = 10, *, all_users: bool = False
    ) -> Answer: ...

    async def refs(self, answer: Answer) -> Sequence[str]: ...

    async def forget(self, ref: str, scope: Scope, /) -> ForgetReceipt: ...

    async def settle(self) -> None: ...


@dataclass(frozen=True, slots=True)
class CallerGateway:
    """Implements `fusion.extension.ScopedGateway` for one backend and one caller.

    ``parts`` and ``tenant`` are the same gateway. ``all_users``: the caller may ask for the memories of all.
    ``reads_quarantined``: the caller is an operator.
    """

    parts: TenantParts
    tenant: TenantCalls
    backend: str
    scope: Scope
    all_users: bool = False
    reads_quarantined: bool = False

    async def fuse(self, query: str, **options: Unpack[FuseOptions]) -> Mapping[str, Any]:
        given = dict(options)
        owner = {name: given.pop(name) for name in Owner.__annotations__ if name in given}
        _check(query, given)
        fields_given: dict[str, Any] = {"scope": self._narrowed(owner), "all_users": self.all_users, **given}
        return asdict(await self.tenant.fuse(FuseRequest(query, **fields_given)))

    async def search(
        self, query: str, *, backend: str | None = None, limit: int = 10, **owner: Unpack[Owner]
    ) -> Mapping[str, Any]:
        _check(query, {"limit": limit})
        scope = self._narrowed(owner)
        answer = await self.tenant.search(backend or self.backend, query, scope, limit, all_users=self.all_users)
        return search_reply(answer, await self.tenant.refs(answer))

    async def complete(self, system: str, user: str, max_tokens: int) -> str:
        if self.parts.model is None:
            raise ModelMissing("this needs a language model, and none is there: name one in [model] of fusion.toml")
        return await self.parts.model.complete(system, user, max_tokens)

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
        return (await self.tenant.forget(ref, self.scope)).backends

    async def forgotten(self, event_ids: Collection[str]) -> frozenset[str]:
        return await self.parts.journal.read(rows.forgotten, event_ids)

    async def hidden(self, event_ids: Collection[str]) -> frozenset[str]:
        records = await self.parts.journal.records(list(event_ids))
        return frozenset(event_id for event_id, record in records.items() if _is_hidden(record))

    async def withheld(self, stated: Mapping[str, str]) -> frozenset[str]:
        forgotten = await self.forgotten(stated)
        if self.reads_quarantined:
            return forgotten
        records = await self.parts.journal.records(list(stated))
        trust = {**stated, **{event_id: record.trust for event_id, record in records.items()}}
        return forgotten | {event_id for event_id, found in trust.items() if found == "quarantined"}

    async def journalled(self, event_ids: Collection[str]) -> frozenset[str]:
        return frozenset(await self.parts.journal.records(list(event_ids)))

    async def lines(self, document: str) -> Mapping[int, str] | None:
        return await file_lines(
            document, self.scope, [self.parts.guarded[self.backend]], self.parts.journal, unreadable=[]
        )

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
        await self.tenant.settle()

    async def embedder(self, changes: Mapping[str, object]) -> Embedder:
        return await self.parts.embedders.other(changes)

    async def use_embedder(self, changes: Mapping[str, object]) -> None:
        folder = self.parts.settings.home / "backends" / self.backend
        await asyncio.to_thread(self.parts.embedders.use, folder, changes)

    def _narrowed(self, owner: Mapping[str, Any]) -> Scope:
        """The caller's scope with the dimensions that it left open. Raises BadInput for another value than its own."""
        named = {name: value for name, value in owner.items() if value is not None}
        for name, wanted in named.items():
            own = getattr(self.scope, name)
            if wanted != own and (own == "group" if name == "audience" else own is not None and name != "project"):
                raise BadInput(f"{name}: the caller asks for {own!r} alone")
        return replace(self.scope, **named)

    def _scope_of(self, event: Event) -> Scope:
        """The caller's dimensions; those that the caller did not name are the draft's."""
        own = {name: getattr(self.scope, name) or getattr(event.scope, name) for name in (*DIMENSIONS, "project")}
        return replace(event.scope, tenant=self.scope.tenant, **own)


def _check(query: str, numbers: Mapping[str, Any]) -> None:
    """Raises BadInput for a question that no door takes: an extension's arguments may come from anybody."""
    if not query.strip():
        raise BadInput("query: say what to recall")
    for name, most in BOUNDS.items():
        value = numbers.get(name)
        if value is not None and not 1 <= value <= most:
            raise BadInput(f"{name}: choose a number from 1 to {most}")


def _is_hidden(record: Record) -> bool:
    """Whether a record's state, or a version that replaced it, hides it from questions about now."""
    ended, merged = record.state.ended_at is not None, record.state.merged_into is not None
    return record.forgotten or record.superseded_by is not None or ended or merged or record.trust == "quarantined"
