"""External items that were shown: which item of which backend a ref ``x…`` cites.

The journal has no event for them, so the latest ones are stored with the scope of the question they answered. Those who
may ask that question may read or forget the item by its ref. The table is bounded in number and age.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

import orjson

from fusion.contract import Hit, Place, Scope
from fusion.errors import FusionError, NotFound
from fusion.lib.background_writer import BackgroundWriter
from fusion.store.database import Connection, replacing
from fusion.store.rows import microseconds, storable

log = logging.getLogger(__name__)

SCHEMA = """
create table shown(
    tenant text not null, ref text not null, whose text not null, backend text not null, hit text not null,
    at integer not null, primary key(tenant, ref, whose)
) without rowid;
create index shown_at on shown(at);
"""

KEPT = 5_000
"""maximum items; with a text of 500 characters each, 4 MB"""
KEPT_DAYS = 30
"""maximum age of an item since it was shown"""


@dataclass(frozen=True, slots=True)
class ExternalItem:
    """One item of a backend as it was shown under ``ref``, in answer to a question of ``scope``."""

    ref: str
    backend: str
    hit: Hit
    scope: Scope


class ExternalRefs(BackgroundWriter):
    """Stores the items behind shown refs in the background, each once a day and many in one write.

    ``keep`` writes them. Its errors are logged, and the items are stored when they are shown again. Queued items can be
    resolved after a `flush`.
    """

    LINGER_S = 0.5
    REPEAT_S, MAX_NOTED = 86_400.0, 20_000
    """a ref is stored once in this time, in seconds; so many refs are known to be stored"""

    def __init__(self, keep: Callable[[Sequence[ExternalItem]], Awaitable[None]]) -> None:
        super().__init__()
        self._keep = keep
        self._noted: dict[tuple[str, Scope], float] = {}
        self._waiting: list[ExternalItem] = []

    def unknown(self, refs: Iterable[str], scope: Scope) -> frozenset[str]:
        """Those of ``refs`` that cite external items and were not stored recently."""
        late = time.monotonic() - self.REPEAT_S
        return frozenset(ref for ref in refs if is_external(ref) and self._noted.get((ref, scope), late) <= late)

    def note(self, items: Sequence[ExternalItem]) -> None:
        """Queue shown items; returns at once."""
        if not items:
            return
        if len(self._noted) > self.MAX_NOTED:
            self._noted.clear()
        self._noted.update(((item.ref, item.scope), time.monotonic()) for item in items)
        self._waiting.extend(items)
        self._write_soon()

    async def _write_waiting(self) -> None:
        items, self._waiting = self._waiting, []
        if items:
            try:
                await self._keep(items)
            except FusionError as error:
                log.warning("external items that were shown could not be stored: %s", error)
                self.forget()

    def forget(self) -> None:
        """Store every item again when it is next shown, since a deletion may have removed it."""
        self._noted.clear()


def is_external(ref: str) -> bool:
    """Whether a ref has the form of an external item's."""
    return len(ref) == 11 and ref[0] in "xX"


_PUT = replacing("shown", "tenant, ref, whose", "backend, hit, at")


def store_items(db: Connection, items: Sequence[ExternalItem], now: datetime) -> None:
    """Store shown items, and delete the oldest."""
    at = microseconds(now)
    db.executemany(
        _PUT,
        [(one.scope.tenant, one.ref, _scope_json(one.scope), one.backend, _packed(one.hit), at) for one in items],
    )
    db.execute("delete from shown where at < ?", (microseconds(now - timedelta(days=KEPT_DAYS)),))
    db.execute(
        "delete from shown where at <= (select at from shown order by at desc limit 1 offset ?)",
        (KEPT,),
    )


def resolve(db: Connection, ref: str, scope: Scope) -> ExternalItem:
    """The item that was shown under a ref to a question that ``scope`` may ask. Raises NotFound."""
    rows = db.execute(
        "select * from shown where tenant = ? and ref = ?", (scope.tenant, storable(ref.lower()))
    ).fetchall()
    for row in rows:
        asked = Scope(scope.tenant, **orjson.loads(row["whose"]))
        if scope.admits(asked):
            return ExternalItem(row["ref"], row["backend"], _unpacked(row["hit"]), asked)
    raise NotFound(f"there is no memory {ref!r} here")


def drop(db: Connection, tenant: str, ref: str) -> None:
    """Delete what was shown under a ref."""
    db.execute("delete from shown where tenant = ? and ref = ?", (tenant, ref))


def _scope_json(scope: Scope) -> str:
    return orjson.dumps({**scope.named(), "audience": scope.audience}, option=orjson.OPT_SORT_KEYS).decode()


_KEPT_OF = ("native_id", "text", "speaker", "event_id")


def _packed(hit: Hit) -> str:
    """The JSON of what identifies an item."""
    fields: dict[str, Any] = {name: getattr(hit, name) for name in _KEPT_OF}
    fields["scope"] = asdict(hit.scope)
    fields["place"] = None if hit.place is None else asdict(hit.place)
    return orjson.dumps(fields).decode()


def _unpacked(packed: str) -> Hit:
    fields = orjson.loads(packed)
    place = fields["place"]
    return Hit(
        **{name: fields[name] for name in _KEPT_OF},
        scope=Scope(**fields["scope"]),
        place=None if place is None else Place(**place),
    )
