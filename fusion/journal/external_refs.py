"""Other people's memories that were shown: what stands behind a ref that no event of ours has.

A block cites them by ``x…``, a hash. So that one can be read again and forgotten, the latest shown are remembered, with
the scope of the question that they answered: whoever may ask that question may name them. Bounded in number and age.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

import orjson

from fusion.contract import Hit, Place, Scope
from fusion.errors import FusionError, NotFound
from fusion.store.rows import microseconds, storable
from fusion.store.sqlite import Connection

log = logging.getLogger(__name__)

SCHEMA = """
create table shown(
    tenant text not null, ref text not null, whose text not null, backend text not null, hit text not null,
    at integer not null, primary key(tenant, ref, whose)
) without rowid;
create index shown_at on shown(at);
"""

KEPT = 5_000
"""of those shown, the latest; with a text of 500 characters each, 4 MB"""
KEPT_DAYS = 30
"""nobody cites a block of last month"""


@dataclass(frozen=True, slots=True)
class ExternalItem:
    """One item of a backend as it was shown, under its ref. ``scope`` is that of the question."""

    ref: str
    backend: str
    hit: Hit
    scope: Scope


class ExternalRefs:
    """Remembers, behind the answers, what stands behind the refs that they cite: each once a day, many at a time.

    ``keep`` writes; what it raises is logged, and the refs are noted anew when they are cited again. What waits can be
    asked for after a `flush`.
    """

    LINGER_S = 0.5
    AGAIN_S, MOST = 86_400.0, 20_000
    """a ref is noted once in this time; so many are known to be noted"""

    def __init__(self, keep: Callable[[Sequence[ExternalItem]], Awaitable[None]]) -> None:
        self._keep = keep
        self._noted: dict[tuple[str, Scope], float] = {}
        self._waiting: list[ExternalItem] = []
        self._writing = asyncio.Lock()
        self._writer: asyncio.Task[None] | None = None

    def unknown(self, refs: Iterable[str], scope: Scope) -> frozenset[str]:
        """Those of ``refs`` that cite no event of ours and were not noted lately."""
        late = time.monotonic() - self.AGAIN_S
        return frozenset(ref for ref in refs if is_external(ref) and self._noted.get((ref, scope), late) <= late)

    def note(self, items: Sequence[ExternalItem]) -> None:
        """Takes what was shown; returns at once."""
        if not items:
            return
        if len(self._noted) > self.MOST:
            self._noted.clear()
        self._noted.update(((item.ref, item.scope), time.monotonic()) for item in items)
        self._waiting.extend(items)
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._linger())

    async def _linger(self) -> None:
        await asyncio.sleep(self.LINGER_S)
        self._writer = None
        await self.flush()

    async def flush(self) -> None:
        """Writes what waits."""
        async with self._writing:
            items, self._waiting = self._waiting, []
            if items:
                try:
                    await self._keep(items)
                except FusionError as error:
                    log.warning("what was shown of other memories could not be noted: %s", error)
                    self.forget()

    def forget(self) -> None:
        """Something was forgotten: what is shown from now on is noted anew."""
        self._noted.clear()

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.cancel()
            self._writer = None
        await self.flush()


def is_external(ref: str) -> bool:
    """Whether a ref could be one of an item that is no event of ours."""
    return len(ref) == 11 and ref[0] in "xX"


def note(db: Connection, items: Sequence[ExternalItem], now: datetime) -> None:
    """Remembers what was shown, and lets go of the oldest."""
    at = microseconds(now)
    db.executemany(
        "insert or replace into shown values(?, ?, ?, ?, ?, ?)",
        [(one.scope.tenant, one.ref, _whose(one.scope), one.backend, _packed(one.hit), at) for one in items],
    )
    db.execute("delete from shown where at < ?", (microseconds(now - timedelta(days=KEPT_DAYS)),))
    db.execute(
        "delete from shown where at <= (select at from shown order by at desc limit 1 offset ?)",
        (KEPT,),
    )


def resolve(db: Connection, ref: str, scope: Scope) -> ExternalItem:
    """What was shown under a ref to a question that ``scope`` may ask. Raises NotFound."""
    rows = db.execute(
        "select * from shown where tenant = ? and ref = ?", (scope.tenant, storable(ref.lower()))
    ).fetchall()
    for row in rows:
        asked = Scope(scope.tenant, **orjson.loads(row["whose"]))
        if scope.admits(asked):
            return ExternalItem(row["ref"], row["backend"], _unpacked(row["hit"]), asked)
    raise NotFound(f"there is no memory {ref!r} here")


def drop(db: Connection, tenant: str, ref: str) -> None:
    db.execute("delete from shown where tenant = ? and ref = ?", (tenant, ref))


def _whose(scope: Scope) -> str:
    return orjson.dumps({**scope.named(), "audience": scope.audience}, option=orjson.OPT_SORT_KEYS).decode()


_KEPT_OF = ("native_id", "text", "speaker", "event_id")


def _packed(hit: Hit) -> str:
    """What it takes to find an item again, and to know it again."""
    told: dict[str, Any] = {name: getattr(hit, name) for name in _KEPT_OF}
    told["scope"] = asdict(hit.scope)
    told["place"] = None if hit.place is None else asdict(hit.place)
    return orjson.dumps(told).decode()


def _unpacked(packed: str) -> Hit:
    told = orjson.loads(packed)
    place = told["place"]
    return Hit(
        **{name: told[name] for name in _KEPT_OF},
        scope=Scope(**told["scope"]),
        place=None if place is None else Place(**place),
    )
