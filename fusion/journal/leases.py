"""Leases of a shared journal: which of its gateways does a piece of work now, alone, such as distilling turns.

A lease ends by the database's clock. It has a fencing token, so what a gateway writes after its end is refused. A
journal in a file has one process, which needs no lease.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn

from fusion.errors import FusionError
from fusion.store.database import VALUES, Connection, Database, listed

LEASE_S = 30.0
"""seconds after which another gateway takes over what one has begun that died; it renews its lease every ten"""
OTHERS_S = 0.5
"""seconds between two looks at whether another gateway still works off a queue"""
TRY_S = 5.0
"""seconds between two tries to take over lasting work, such as following a folder"""
_UNTIL = f"clock_us() + {int(LEASE_S * 1_000_000)}"


@dataclass(frozen=True, slots=True)
class Held:
    """A lease that this gateway has. ``token`` is one more than that of the lease before; 0 where there are none."""

    token: int = 0
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    """set once it was not renewed in time"""


class Leases:
    """The leases of one journal, as one gateway takes them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._owner = secrets.token_hex(8)

    @asynccontextmanager
    async def held(self, *names: str) -> AsyncIterator[Held | None]:
        """Hold the leases of all these names until the end of the block; None if another holder has one of them.

        What the block writes to the journal raises LeaseLost once they have ended.
        """
        if not self._database.shared:
            yield Held()
            return
        token = await self._database.write(lambda db: take(db, names, self._owner))
        if token is None:
            yield None
            return
        held = Held(token)
        renewal = asyncio.create_task(self._renew(names, held), name="renew a lease")
        try:
            with self._database.fenced("lease", names[0], token) as fence:
                yield held
        finally:
            renewal.cancel()
            await asyncio.gather(renewal, return_exceptions=True)
            with suppress(FusionError):  # it ends by itself
                fence.is_over = await self._database.write(lambda db: give_back(db, names, self._owner))

    async def alone(
        self,
        names: Sequence[str],
        work: Callable[[], Coroutine[Any, Any, None]],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> NoReturn:
        """Do lasting work whenever no other gateway does it, until it is cancelled."""
        while True:
            with suppress(FusionError):  # the database does not answer now
                async with self.held(*names) as held:
                    if held is not None:
                        await _until_lost(work, held)
            await sleep(TRY_S)

    async def _renew(self, names: Sequence[str], held: Held) -> None:
        loop = asyncio.get_running_loop()
        renewed_at = loop.time()
        while loop.time() < renewed_at + LEASE_S:
            await asyncio.sleep(LEASE_S / 3)
            with suppress(FusionError):
                if not await self._database.write(lambda db: renew(db, names, self._owner)):
                    break
                renewed_at = loop.time()
        held.lost.set()


async def _until_lost(work: Callable[[], Coroutine[Any, Any, None]], held: Held) -> None:
    tasks = asyncio.create_task(work()), asyncio.create_task(held.lost.wait())
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def take(db: Connection, names: Sequence[str], owner: str) -> int | None:
    """Take leases that nobody has, for `LEASE_S`; the token of the first one. None if one of them is held."""
    held = f"select 1 from lease where name in {VALUES} and until > clock_us() limit 1"
    if db.execute(held, listed(names)).fetchone() is not None:
        return None
    tokens = [
        db.execute(
            f"insert into lease(name, owner, token, until) values(?, ?, 1, {_UNTIL}) on conflict(name) do update set "
            "owner = excluded.owner, token = lease.token + 1, until = excluded.until returning token",
            (name, owner),
        ).fetchone()["token"]
        for name in names
    ]
    return int(tokens[0])


def renew(db: Connection, names: Sequence[str], owner: str) -> bool:
    """Extend leases; False if they have ended."""
    extended = db.execute(
        f"update lease set until = {_UNTIL} where owner = ? and until > clock_us() and name in {VALUES}",
        (owner, *listed(names)),
    )
    return extended.rowcount == len(set(names))


def give_back(db: Connection, names: Sequence[str], owner: str) -> bool:
    """End leases; False if they have ended before."""
    ended = f"update lease set until = 0 where owner = ? and until > clock_us() and name in {VALUES}"
    return db.execute(ended, (owner, *listed(names))).rowcount == len(set(names))
