"""The calls on an open home about items: memories with a namespace and a key, put, read and forgotten exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fusion import wire
from fusion.contract import NO_USER, Scope, Where
from fusion.errors import NobodyAnswered, NotFound
from fusion.gateway.answering import Answering, Packing
from fusion.gateway.in_tenant import in_tenant
from fusion.ingest.forget import ForgetReceipt
from fusion.ingest.items import NewItem, put
from fusion.journal import items
from fusion.journal.items import StoredItem
from fusion.lib.item_address import Address
from fusion.lib.items import fits, tag_of
from fusion.recall.decision import Decision
from fusion.recall.engine import FuseRequest
from fusion.recall.pack import Block, Ranking

ANY = "*"
"""the label in a prefix or suffix that every label fits"""


@dataclass(frozen=True, slots=True)
class ItemSearch:
    """Which items to list: of a namespace and those in it, whose values fit a filter; ranked by a query, if any."""

    scope: Scope
    namespace: tuple[str, ...] = ()
    query: str | None = None
    filter: Mapping[str, Any] = field(default_factory=dict)
    limit: int = 10
    offset: int = 0


@dataclass(frozen=True, slots=True)
class NamespaceSearch:
    """Which namespaces to list: those that begin and end so; of deeper ones the first ``max_depth`` labels."""

    scope: Scope
    prefix: tuple[str, ...] = ()
    suffix: tuple[str, ...] = ()
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0


@dataclass(frozen=True, slots=True)
class _Scores(Block):
    """What is packed for a search of items: nothing but the score of each memory, by ref."""

    scores: Mapping[str, float] = field(default_factory=dict)


class ItemCalls(Answering):
    """The calls of an open home about items, for one tenant. A quarantined item is not there for a reader."""

    __slots__ = ()

    @in_tenant
    async def put_item(self, item: NewItem, scope: Scope, *, may_raise_trust: bool = True) -> wire.ItemKept:
        """Store the value of an item and return it as it is stored. Raises as `fusion.ingest.items.put`."""
        owned = replace(item, scope=scope)
        kept = await put(self.journal, self.intake, owned, may_raise_trust=may_raise_trust)
        found = await self.journal.read(items.find, replace(scope, audience="private"), item.address)
        if found is None:  # forgotten, or replaced by a memory that is no item, since it was acknowledged
            raise NotFound(f"{item.address.path} was put, and forgotten by another request at once")
        return {**_shown(found), "status": kept.status, "redacted": kept.redacted}

    @in_tenant
    async def item(self, address: Address, scope: Scope) -> wire.Item:
        """The item at an address of exactly this owner. Raises NotFound."""
        found = await self.journal.read(items.find, scope, address)
        if found is None or found.trust == "quarantined":
            raise NotFound(f"there is no item {address.path!r} here")
        return _shown(found)

    @in_tenant
    async def forget_item(self, address: Address, scope: Scope) -> ForgetReceipt:
        """Forget an item with its earlier versions, and no other memory in the same words. Raises NotFound."""
        refs = await self.journal.read(items.refs_at, scope, address)
        receipts = await self.forgetter.forget_all(refs, scope, "item", alone=True) if refs else []
        if not receipts:
            raise NotFound(f"there is no item {address.path!r} here")
        return receipts[0]

    @in_tenant
    async def search_items(self, request: ItemSearch) -> wire.Items:
        """A page of items, those that fit the query best first; without a query, or without a rank, the latest first.

        Raises BadInput for a wrong filter, and Overloaded. A query leaves no item out: a backend may not have been sent
        it yet.
        """
        found = await self.journal.read(items.within, request.scope, request.namespace)
        wanted = [one for one in found if one.trust != "quarantined" and fits(one.item.value, request.filter)]
        scores = await self._scores(request) if request.query is not None and wanted else {}
        wanted.sort(key=lambda one: scores.get(one.ref, -1.0), reverse=True)
        page = wanted[request.offset : request.offset + request.limit]
        return {
            "items": [{**_shown(one), "score": scores.get(one.ref)} for one in page],
            "more": len(wanted) > request.offset + request.limit,
        }

    async def _scores(self, request: ItemSearch) -> Mapping[str, float]:
        """By ref, the scores of the memories that recall finds in a namespace; none if no backend answers."""

        async def packer(ranking: Ranking) -> Block:
            scores: dict[str, float] = {}
            for one in ranking.order:
                scores.setdefault(one.ref, round(one.local, 4))
            return _Scores("", (), dict.fromkeys(scores, Decision.LISTED), scores=scores)

        owner = replace(request.scope, user_id=request.scope.user_id or NO_USER)
        where = Where(tag=(tag_of(request.namespace),))
        asked = FuseRequest(request.query or "", owner, gate=False, where=where)
        try:
            _, outcome = await self._answered(asked, Packing(packer, lambda outcome: outcome))
        except NobodyAnswered:
            return {}
        return outcome.block.scores if isinstance(outcome.block, _Scores) else {}

    @in_tenant
    async def item_namespaces(self, request: NamespaceSearch) -> wire.ItemNamespaces:
        """A page of the namespaces in which an owner has items, sorted by their labels."""
        found = await self.journal.read(items.namespaces, request.scope)
        fitting = (one for one in found if _begins(one, request.prefix) and _begins(one[::-1], request.suffix[::-1]))
        cut = sorted({one[: request.max_depth] for one in fitting})
        page = cut[request.offset : request.offset + request.limit]
        return {"namespaces": [list(one) for one in page], "more": len(cut) > request.offset + request.limit}


def _begins(labels: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether labels begin with these, of which `ANY` is every label."""
    return len(labels) >= len(wanted) and all(want in (ANY, label) for label, want in zip(labels, wanted, strict=False))


def _shown(one: StoredItem) -> wire.Item:
    return {
        "namespace": list(one.item.address.namespace),
        "key": one.item.address.key,
        "value": one.item.value,
        "ref": one.ref,
        "created_at": one.created_at.isoformat(),
        "updated_at": one.updated_at.isoformat(),
    }
