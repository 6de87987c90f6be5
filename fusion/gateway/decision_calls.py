"""The calls on an open home that decide on the state of memories, list these decisions, and undo them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from fusion import wire
from fusion.contract import Scope
from fusion.errors import BadInput
from fusion.gateway import decisions
from fusion.gateway.decisions import StateRequest, StatesRequest
from fusion.gateway.in_tenant import in_tenant
from fusion.gateway.parts import DEFAULT, TenantParts
from fusion.gateway.workspace import is_change, is_run, require_workspace_owner, required, undo_run
from fusion.journal import state
from fusion.journal.state import BY_HAND


@dataclass(frozen=True, slots=True, eq=False)
class DecisionCalls(TenantParts):
    """The calls of an open home about decisions, for one tenant."""

    @in_tenant
    async def set_state(
        self, request: StateRequest, *, may_raise_trust: bool = True, who: str = BY_HAND
    ) -> wire.StateReply:
        """Change the state of one memory, as a decision of ``who`` that can be undone. Raises BadInput and NotFound.

        Without ``may_raise_trust`` it refuses to raise a memory's trust, as do the two undos.
        """
        await self.external_refs.flush()
        return await decisions.set_state(
            request, self.journal, self.deliverer, self.live.now(), may_raise_trust=may_raise_trust, who=who
        )

    @in_tenant
    async def set_states(
        self, request: StatesRequest, *, may_raise_trust: bool = True, who: str = BY_HAND
    ) -> wire.StatesReply:
        """Change the state of several memories as one decision, or show what would change. Raises as `set_state`."""
        return await decisions.set_states(
            request, self.journal, self.deliverer, self.live.now(), may_raise_trust=may_raise_trust, who=who
        )

    @in_tenant
    async def decisions(
        self, scope: Scope, limit: int = 20, *, ref: str | None = None, cursor: str | None = None
    ) -> wire.Decisions:
        """A page of the decisions on a scope's memories, or on one of them, newest first. Raises NotFound, BadInput."""
        before = decisions.position(cursor)
        found = await self.journal.read(state.log, scope, limit + 1, ref=ref, before=before)
        return {
            "decisions": [decisions.shown(one) for one in found[:limit]],
            "next_cursor": found[limit - 1].name if len(found) > limit else None,
        }

    @in_tenant
    async def undo_decision(
        self, name: str, scope: Scope, *, may_raise_trust: bool = True, who: str = BY_HAND
    ) -> wire.DecisionUndone:
        """Take a decision back, or a change of a file in the workspace (`w12`).

        Raises NotFound, and BadInput if it was undone, or if its memories or its file were changed since.
        """
        if is_change(name):
            return await self._undo_workspace(name, is_owner=may_raise_trust and scope.tenant == DEFAULT)
        return await decisions.undo(name, scope, self.journal, self.deliverer, may_raise_trust=may_raise_trust, who=who)

    async def _undo_workspace(self, name: str, *, is_owner: bool) -> wire.DecisionUndone:
        require_workspace_owner(is_owner=is_owner)
        await asyncio.to_thread(required(self.settings).undo, name)
        return {"decision": None, "undone": 1}

    @in_tenant
    async def undo_run(
        self, run: str, scope: Scope, *, may_raise_trust: bool = True, dry_run: bool = False, who: str = BY_HAND
    ) -> wire.DecisionUndone:
        """Take back all that a run of a job decided, or changed in the workspace (`j12`), or nothing of it.

        Raises as `undo_decision`. Only for files is there a ``dry_run``.
        """
        if is_run(run):
            require_workspace_owner(is_owner=may_raise_trust and scope.tenant == DEFAULT)
            return await undo_run(self.settings, run, dry_run=dry_run)
        if dry_run:
            raise BadInput(
                f"dry_run is for changes of files, as of the run j12: GET /v1/decisions shows what {run} did"
            )
        return await decisions.undo_run(
            run, scope, self.journal, self.deliverer, may_raise_trust=may_raise_trust, who=who
        )
