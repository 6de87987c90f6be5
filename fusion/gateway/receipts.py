"""The calls on an open home that show what was answered: lists of receipts, one receipt, and counts over them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from fusion import wire
from fusion.contract import Scope
from fusion.errors import NotFound
from fusion.gateway.in_tenant import in_tenant
from fusion.gateway.owners import require_owner
from fusion.gateway.parts import TenantParts
from fusion.gateway.views import position_of
from fusion.gateway.worth import by_backend, votes_on_backends, votes_on_recipes, worth_of
from fusion.journal import feedback
from fusion.journal.activity import activity
from fusion.lib.ids import cursor as cursor_of
from fusion.lib.ids import parse_cursor
from fusion.recall.engine import explain
from fusion.recall.receipt_store import ReceiptFilter

MAX_LABELS = 5_000
"""the latest votes that are counted"""


@dataclass(frozen=True, slots=True)
class ReceiptsRequest:
    """Which receipts to list: those of a user, an agent or a session, after and before a place in their order.

    ``after`` is the id of a receipt, or `latest` of an earlier list; ``cursor`` the end of the page before.
    """

    scope: Scope
    limit: int = 50
    cursor: str | None = None
    after: str | None = None
    all_users: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ReceiptCalls(TenantParts):
    """The calls of an open home about its receipts, for one tenant."""

    @in_tenant
    async def receipts_page(self, request: ReceiptsRequest) -> wire.Receipts:
        """A page of what was answered, the newest first, with the questions that are remembered.

        Raises BadInput for an invalid cursor, NotFound for an unknown receipt, and NobodyNamed as `fuse` does.
        """
        scope = request.scope
        await require_owner(self.journal, scope, request.all_users)
        after = None if request.after is None else await self._place_of(request.after, scope.tenant)
        chosen = ReceiptFilter(
            scope.tenant, scope.user_id, scope.agent_id, scope.session_id, position_of(request.cursor), after
        )
        latest = self.receipts.last  # before the list is read, so that nothing is between the two
        found = await self.receipts.listed(chosen, request.limit + 1)
        page = found[: request.limit]
        rows = [{**one.row, "query": self.questions.of(one.row["receipt_id"])} for one in page]
        return {
            "receipts": rows,  # type: ignore[typeddict-item]  # as `fusion.recall.receipt_row` made them
            "next_cursor": cursor_of(page[-1].seq) if len(found) > len(page) else None,
            "latest": cursor_of(latest),
        }

    @in_tenant
    async def activity(self, scope: Scope, days: int) -> wire.Activity:
        """How many memories were remembered, forgotten and decided on, and questions answered, on each of these days.

        Questions are counted as long as their receipts are kept. For a whole tenant each day also has the bytes of its
        stores, as far as they were noted; for `DEFAULT` they include the folders of all tenants.
        """
        today = self.live.now().astimezone(UTC).date()
        every = [today - timedelta(days=before) for before in reversed(range(days))]
        since = datetime.combine(every[0], datetime.min.time(), UTC)
        found = await self.journal.read(activity, scope, since)
        chosen = ReceiptFilter(scope.tenant, scope.user_id, scope.agent_id, scope.session_id)
        asked = await self.receipts.by_day(chosen, since.timestamp())
        sizes = {} if scope.named() else await asyncio.to_thread(self.size_log.days)
        sources: dict[date, dict[str, int]] = {day: {} for day in every}
        for (day, kind), number in sorted(found.remembered.items()):
            sources.setdefault(day, {})[kind] = number
        shown: list[wire.DayOfActivity] = [
            {
                "day": day.isoformat(),
                "remembered": sum(sources[day].values()),
                "forgotten": found.forgotten[day],
                "decisions": found.decisions[day],
                "questions": asked[day],
                "sources": sources[day],
            }
            for day in every
        ]
        for one in shown:
            if one["day"] in sizes:
                one["bytes"] = sizes[one["day"]]
        return {"days": shown}

    @in_tenant
    async def backend_history(self, scope: Scope, answers: int, *, all_users: bool = False) -> wire.BackendHistory:
        """How fast each backend was for the latest answers, and what it brought into their blocks. Raises NobodyNamed.

        With the votes of people on its memories and on what recipes have put into blocks, and what its breaker and its
        backlog were. Prepared answers are left out: no backend was asked for them anew.
        """
        await require_owner(self.journal, scope, all_users)
        chosen = ReceiptFilter(scope.tenant, scope.user_id, scope.agent_id, scope.session_id)
        rows = [one.row for one in await self.receipts.listed(chosen, answers) if not one.row["prepared"]]
        blocks = sum(bool(row["memories"]) for row in rows)
        labels = [
            label
            for label in await self.journal.read(feedback.latest, scope.tenant, MAX_LABELS)
            if scope.user_id in (None, label["scope"].get("user_id"))
        ]
        votes = votes_on_backends(labels)
        worth = [worth_of(name, of_it, blocks, votes[name]) for name, of_it in by_backend(rows).items()]
        for one in worth:
            one["moments"] = [
                {"at": moment.at.isoformat(), "status": moment.status, "backlog": moment.backlog}
                for moment in self.backend_log.of(one["name"])
            ]
        return {"answers": len(rows), "blocks": blocks, "backends": worth, "votes": votes_on_recipes(labels)}

    async def _place_of(self, after: str, tenant: str) -> int:
        place = parse_cursor(after)
        return await self.receipts.seq_of(after, tenant) if place is None else place

    @in_tenant
    async def receipt(
        self, receipt_id: str, tenant: str = "default", *, user_id: str | None = None
    ) -> Mapping[str, Any]:
        """The explanation of an earlier answer: why each candidate is in the block or not; and its question.

        Raises NotFound, also if ``user_id`` is given and the question was not asked for that user.
        """
        body = explain(await self._receipt(receipt_id, tenant, user_id))
        return {**body, "query": self.questions.of(receipt_id)}

    async def _receipt(self, receipt_id: str, tenant: str, user_id: str | None) -> Mapping[str, Any]:
        body = await self.receipts.read(receipt_id, tenant)
        # As with memories: naming a user excludes receipts that belong to no particular user.
        if user_id is not None and body.get("user_id") != user_id:
            # The same error as for an unknown receipt, so that it does not reveal that the receipt exists.
            raise NotFound(
                f"there is no receipt {receipt_id}; receipts are kept for {self.settings.receipts.keep_days:g} days"
            )
        return body
