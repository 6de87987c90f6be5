"""The budget of a language model that all gateways of a database share: each of its calls is a row for a minute.

A call of a model takes some hundred times as long as the two statements that count it, so nothing is allotted in
advance, and the number of calls is never exceeded. Tokens are estimates until the answer is there.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from fusion.errors import FusionError
from fusion.store.database import Connection
from fusion.store.postgres import Server

_MINUTE_US = 60_000_000


class SharedBudget:
    """Calls and tokens a minute of all gateways together. ``tenant`` is the one whose schema has the rows."""

    def __init__(self, server: Server, tenant: str, calls_per_minute: int, tokens_per_minute: int) -> None:
        self._server, self._tenant = server, tenant
        self._most_calls, self._most_tokens = calls_per_minute, tokens_per_minute

    async def take(self, tokens: int) -> int | None:
        """Count a call, or return None, as `fusion.gateway.llm_budget.Budget`. Raises the database's errors."""

        def work(db: Connection) -> int | None:
            db.execute("lock table model_call in share row exclusive mode")  # one gateway counts at a time
            db.execute("delete from model_call where at <= clock_us() - ?", (_MINUTE_US,))
            calls, spent = db.execute("select count(*), coalesce(sum(tokens), 0) from model_call").fetchone()
            if calls and (calls >= self._most_calls or spent + tokens > self._most_tokens):
                return None
            entered = "insert into model_call(at, tokens) values(clock_us(), ?) returning id"
            return int(db.execute(entered, (tokens,)).fetchone()[0])

        return await asyncio.to_thread(self._server.run, self._tenant, work)

    async def correct(self, number: int, tokens: int | None) -> None:
        """Count the tokens that a call had. If that fails, the estimate stays."""

        def work(db: Connection) -> None:
            if tokens is None:
                db.execute("delete from model_call where id = ?", (number,))
            else:
                db.execute("update model_call set tokens = ? where id = ?", (tokens, number))

        with suppress(FusionError):
            await asyncio.to_thread(self._server.run, self._tenant, work)

    async def wait_s(self) -> float:
        """Seconds until the oldest call of the minute counts no more."""
        asked = f"select coalesce(min(at) + {_MINUTE_US} - clock_us(), 0) from model_call"

        def work(db: Connection) -> float:
            return max(0.0, float(db.execute(asked).fetchone()[0]) / 1e6)

        return await asyncio.to_thread(self._server.run, self._tenant, work)
