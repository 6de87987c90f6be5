"""The table of items: which event is a version of which item. It is derived from the events alone.

Each version of an item has a row; the one whose event is current is the item. A row goes with its event, so an undo
brings the earlier version back, and forgetting leaves nothing. `fusion.journal.items` reads the table.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from fusion.contract import DIMENSIONS, Event, Scope
from fusion.lib.item_address import joined
from fusion.lib.items import item_in
from fusion.store.database import Connection, replacing
from fusion.store.rows import storable

SCHEMA = """
create table item(
    seq integer primary key references event(seq), tenant text not null, owner text not null, namespace text not null,
    key text not null
);
create index item_address on item(tenant, owner, namespace, key, seq);
"""
"""``namespace`` has each label escaped and followed by a dot, so that a namespace begins those that are in it"""

_PUT = replacing("item", "seq", "tenant, owner, namespace, key")


def add(db: Connection, seq: int, event: Event) -> None:
    """Enter the item that an event has."""
    item = item_in(event.stated)
    if item is not None:
        address = (owner_key(event.scope), folder(item.address.namespace), item.address.key)
        row = (seq, event.scope.tenant, *map(storable, address))
        db.execute(_PUT, row)


def drop(db: Connection, seq: int) -> None:
    """Remove the row of a forgotten event."""
    db.execute("delete from item where seq = ?", (seq,))


def owner_key(scope: Scope) -> str:
    """The key of an owner by all dimensions of a scope: an item of a user is not one of no user."""
    return json.dumps([getattr(scope, dimension) or "" for dimension in DIMENSIONS], ensure_ascii=False)


def folder(namespace: Sequence[str]) -> str:
    """A namespace as in the table; "" for that of all items."""
    return f"{joined(namespace)}." if namespace else ""
