"""The calls on an open home that store and list comparisons over many questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from fusion import wire
from fusion.gateway.in_tenant import in_tenant
from fusion.gateway.parts import TenantParts
from fusion.gateway.views import position_of
from fusion.journal import comparisons
from fusion.journal.comparisons import StoredComparison
from fusion.lib.ids import cursor as cursor_of


class ComparisonCalls(TenantParts):
    """The calls of an open home about comparisons of two arms, for one tenant."""

    __slots__ = ()

    @in_tenant
    async def keep_comparison(self, body: Mapping[str, Any], who: str, *, tenant: str) -> wire.Comparison:
        """Store the figures of a comparison; the oldest beyond `comparisons.KEPT` are deleted. Raises StoreFull."""
        return _shown(await self.journal.write(comparisons.add, tenant, body, who, self.live.now()))

    @in_tenant
    async def comparisons(self, tenant: str, limit: int = 20, *, cursor: str | None = None) -> wire.Comparisons:
        """A page of the stored comparisons, the newest first. Raises BadInput for an invalid cursor."""
        found = await self.journal.read(comparisons.page, tenant, limit + 1, position_of(cursor))
        shown = found[:limit]
        return {
            "comparisons": [_shown(one) for one in shown],
            "next_cursor": cursor_of(shown[-1].id) if len(found) > limit else None,
        }


def _shown(one: StoredComparison) -> wire.Comparison:
    verdict = one.body["verdict"]
    better = None if verdict is None else "b" if verdict["low"] > 0 else "a" if verdict["high"] < 0 else None
    shown = {**one.body, "verdict": None if verdict is None else {**verdict, "better": better}}
    return cast("wire.Comparison", {"id": one.id, "at": one.at.isoformat(), "by": one.who, **shown})
