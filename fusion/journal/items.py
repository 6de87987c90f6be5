"""Reading items: exactly by namespace and key, or all of a namespace. They are there once a put is acknowledged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from fusion.contract import Audience, Scope, Trust
from fusion.journal.item_rows import folder, owner_key
from fusion.journal.retire import CURRENT
from fusion.journal.rows import delivered_event, state_of
from fusion.lib.ids import short_ref
from fusion.lib.item_address import Address, split
from fusion.lib.items import Item, item_in
from fusion.store.database import Connection, Row
from fusion.store.rows import storable, time_of


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An item with the ref and the id of its current memory, and when it was first and last put."""

    item: Item
    ref: str
    event_id: str
    created_at: datetime
    updated_at: datetime
    audience: Audience
    trust: Trust
    """as it is now"""


def find(db: Connection, scope: Scope, address: Address) -> StoredItem | None:
    """The item at an address of exactly this owner; None if there is none, or if the audience may not see it."""
    terms, values = _owned_by(scope)
    row = db.execute(
        f"{_SELECT} where {terms} and item.namespace = ? and item.key = ? and {CURRENT} order by seq desc limit 1",
        (*values, storable(folder(address.namespace)), storable(address.key)),
    ).fetchone()
    return None if row is None else _stored(row)


def refs_at(db: Connection, scope: Scope, address: Address) -> list[str]:
    """The refs of all current memories at an address: one, or several after two homes were merged."""
    terms, values = _owned_by(scope)
    rows = db.execute(
        f"select event.seq from item join event using(seq) where {terms} and item.namespace = ? and item.key = ? "
        f"and {CURRENT} order by seq desc",
        (*values, storable(folder(address.namespace)), storable(address.key)),
    )
    return [short_ref(row["seq"]) for row in rows]


def within(db: Connection, scope: Scope, prefix: Sequence[str]) -> list[StoredItem]:
    """The items of exactly this owner in a namespace and in those that begin with it, the latest put first."""
    terms, values = _owned_by(scope)
    beginning = storable(folder(prefix))
    rows = db.execute(
        f"{_SELECT} where {terms} and substr(item.namespace, 1, ?) = ? and {CURRENT} order by seq desc",
        (*values, len(beginning), beginning),
    )
    first: dict[Address, StoredItem] = {}
    for row in rows:
        stored = _stored(row)
        first.setdefault(stored.item.address, stored)
    return list(first.values())


def namespaces(db: Connection, scope: Scope) -> list[tuple[str, ...]]:
    """The namespaces in which exactly this owner has items, sorted by their labels."""
    terms, values = _owned_by(scope)
    rows = db.execute(
        f"select distinct item.namespace from item join event using(seq) where {terms} and {CURRENT}", values
    )
    return sorted(split(row["namespace"].removesuffix(".")) for row in rows)


_SELECT = (
    "select event.*, (select min(other.recorded_at) from item as earlier join event as other using(seq) "
    "where (earlier.tenant, earlier.owner, earlier.namespace, earlier.key) = "
    "(item.tenant, item.owner, item.namespace, item.key)) as created_at from item join event using(seq)"
)


def _owned_by(scope: Scope) -> tuple[str, list[object]]:
    """The condition under which an item belongs to exactly this owner, and its audience may see it."""
    terms = "item.tenant = ? and item.owner = ?"
    if scope.audience == "group":
        terms += " and event.audience = 'group'"
    return terms, [scope.tenant, storable(owner_key(scope))]


def _stored(row: Row) -> StoredItem:
    """The item of a row of `_SELECT`."""
    event, trust = delivered_event(row), state_of(row).trust or row["trust"]
    item = item_in(event.stated)
    assert item is not None  # noqa: S101 - `add` read it from the same pairs
    created_at, audience = time_of(row["created_at"]), event.scope.audience
    return StoredItem(item, short_ref(row["seq"]), event.event_id, created_at, event.recorded_at, audience, trust)
