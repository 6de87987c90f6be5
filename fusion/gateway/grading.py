"""The call on an open home that grades memories."""

from __future__ import annotations

from collections.abc import Callable

from fusion.gateway.in_tenant import in_tenant
from fusion.gateway.parts import TenantParts
from fusion.upkeep.grade import GradeReport, GradeRequest, unbounded
from fusion.upkeep.lifecycle import Progress, no_progress


class GradeCalls(TenantParts):
    """The calls of an open home that grade its memories."""

    __slots__ = ()

    @in_tenant
    async def grade(
        self,
        request: GradeRequest,
        progress: Progress = no_progress,
        left_s: Callable[[], float] = unbounded,
    ) -> GradeReport:
        """Give memories of a scope that have no importance one, as `Grader.run`."""
        self.journal.require_reachable()
        return await self.grader.run(request, self.live.now(), progress, left_s)
