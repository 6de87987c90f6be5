"""A LangGraph store over the items of memory-fusion: exact by namespace and key, searched by the fused recall.

graph = builder.compile(store=FusionStore(user_id="ada"))
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)

from fusion.client import Client
from fusion.errors import NotFound


class FusionStore(BaseStore):
    """The items of one user; those of another one do not exist in it.

    What a store promises cannot fail open: an error of the server is raised. All texts of a value are searched, so
    ``index`` of a put is not used, and items have no time to live.
    """

    __slots__ = ("_client", "_scope")

    def __init__(self, client: Client | None = None, *, user_id: str | None = None) -> None:
        """Without ``client``: that of the home, whose server is started if none runs."""
        self._client = client or Client.of_home()
        self._scope = {"user_id": user_id}

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute operations in their order, so that a get returns what a put before it stored."""
        return [self._execute(op) for op in ops]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """As `batch`, without blocking the event loop."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _execute(self, op: Op) -> Result:
        match op:
            case GetOp():
                return self._get(op)
            case PutOp():
                return self._put(op)
            case SearchOp():
                return self._search(op)
            case ListNamespacesOp():
                return self._namespaces(op)
        raise ValueError(f"no operation of a store: {type(op).__name__}")

    def _get(self, op: GetOp) -> Item | None:
        try:
            found = self._client.item(op.namespace, op.key, **self._scope)
        except NotFound:
            return None
        return Item(**_fields(found))

    def _put(self, op: PutOp) -> None:
        if op.value is not None:
            self._client.put_item(op.namespace, op.key, op.value, **self._scope)
            return
        try:
            self._client.forget_item(op.namespace, op.key, **self._scope)
        except NotFound:
            return

    def _search(self, op: SearchOp) -> list[SearchItem]:
        found = self._client.search_items(
            op.namespace_prefix, query=op.query, filter=op.filter, limit=op.limit, offset=op.offset, **self._scope
        )
        return [SearchItem(**_fields(one), score=one["score"]) for one in found["items"]]

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        found = self._client.item_namespaces(
            prefix=_path(conditions, "prefix"),
            suffix=_path(conditions, "suffix"),
            max_depth=op.max_depth,
            limit=op.limit,
            offset=op.offset,
            **self._scope,
        )
        return [tuple(one) for one in found["namespaces"]]


def _path(conditions: Iterable[MatchCondition], kind: str) -> tuple[str, ...]:
    """The path of the condition of a kind; () without one. Raises ValueError for several."""
    paths = [tuple(one.path) for one in conditions if one.match_type == kind]
    if len(paths) > 1:
        raise ValueError(f"match_conditions: give one {kind}, not {len(paths)}")
    return paths[0] if paths else ()


def _fields(found: Any) -> dict[str, Any]:
    """The arguments of an `Item` of LangGraph."""
    times = {name: datetime.fromisoformat(found[name]) for name in ("created_at", "updated_at")}
    return {"namespace": tuple(found["namespace"]), "key": found["key"], "value": found["value"], **times}
