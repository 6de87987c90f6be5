"""Putting items: the memory at a namespace and a key is replaced by a new version, and nothing is stored twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from fusion.contract import Origin, Scope
from fusion.errors import AlreadyReplaced, BadInput, NotFound, StoreBusy
from fusion.ingest.intake import Intake, NewMemory
from fusion.journal import Journal, items
from fusion.journal.append import Stored
from fusion.journal.items import StoredItem
from fusion.lib.item_address import Address
from fusion.lib.items import Item, same_value, text_of, written
from fusion.store.database import Connection

MAX_TRIES = 100
"""tries of a put while others put the same key; each time one of them gets through"""


@dataclass(frozen=True, slots=True)
class NewItem:
    """An item as a caller puts it. ``scope`` is its owner, in all dimensions, and its audience."""

    address: Address
    value: Mapping[str, Any]
    scope: Scope
    origin: Origin = "agent"


@dataclass(frozen=True, slots=True)
class Put:
    """The outcome of a put; it is durable. ``redacted`` is the number of masked secrets."""

    status: Literal["stored", "superseded", "duplicate"]
    ref: str
    redacted: int = 0


async def put(journal: Journal, intake: Intake, item: NewItem, *, may_raise_trust: bool = True) -> Put:
    """Store the value of an item, or nothing if it is the same as before.

    Of several puts of one key at once the last acknowledged wins. Raises BadInput, also for an item that the owner
    trusts and somebody else changes, and what `Intake.remember` raises.
    """
    value, redacted = written(item.value)
    for _ in range(MAX_TRIES):
        old = await journal.read(items.find, _private(item.scope), item.address)
        if old is not None:
            if same_value(old.item.json, value) and old.audience == item.scope.audience:
                return Put("duplicate", old.ref)
            _require_owner_of_trusted(old, item, may_raise_trust)
        try:
            return await _store(intake, item, Item(item.address, value), old, redacted)
        except (AlreadyReplaced, NotFound):  # another put, or a deletion, came first
            continue
    raise StoreBusy(f"{item.address.path} is put by many at once; put it again in a second")


async def _store(intake: Intake, new: NewItem, item: Item, old: StoredItem | None, redacted: int) -> Put:
    """Store a version. Raises AlreadyReplaced and NotFound if the current one is not ``old`` any more."""
    memory = NewMemory(
        text_of(new.value, item.address.key),
        new.scope,
        origin=new.origin,
        stated=item.stated,
        supersedes=None if old is None else old.event_id,
    )
    if intake.prepared(memory, new.scope.tenant).event is None:  # a heartbeat, or a block of recalled memories
        memory = replace(memory, text=f"{item.address.key}: (nothing to search)")
    (kept,) = await intake.remember(
        [memory],
        tenant=new.scope.tenant,
        updates=old is not None,
        around=_only_if_new(new) if old is None else None,
    )
    return Put("stored" if old is None else "superseded", kept.ref, redacted)


def _only_if_new(new: NewItem) -> Callable[[Connection], Callable[[Sequence[Stored]], None]]:
    """Work of an append that raises AlreadyReplaced if the address has an item meanwhile."""

    def check(db: Connection) -> Callable[[Sequence[Stored]], None]:
        there = items.find(db, _private(new.scope), new.address)
        if there is not None:
            raise AlreadyReplaced(f"{new.address.path} was put meanwhile", there.ref)
        return lambda stored: None

    return check


def _private(scope: Scope) -> Scope:
    """The scope in which all versions of an item are visible: its audience may change."""
    return replace(scope, audience="private")


def _require_owner_of_trusted(old: StoredItem, new: NewItem, may_raise_trust: bool) -> None:
    if old.trust == "trusted" and not (may_raise_trust and new.origin == "owner"):
        raise BadInput(
            f"{old.ref} is trusted, so only the owner can change what it says: with the home's token, or an API key "
            "with all_users = true in [[server.keys]], and origin = owner"
        )
