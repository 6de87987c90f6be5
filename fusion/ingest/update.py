"""Updating: a new version of a memory takes its place, and the earlier one stays as its history until it is undone.

The new version has every field of the earlier one that the change does not name, so it holds for the same time, and for
the same readers. It is a statement of its own: it is not derived from what the earlier one was derived from. A memory
that was read from a file is changed in the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime

from fusion.contract import READER_KINDS, SESSION_KINDS, Event, Kind, Origin, Place, Scope
from fusion.errors import BadInput
from fusion.ingest.intake import Acknowledged, Intake, NewMemory
from fusion.journal import Journal, versions
from fusion.journal.versions import Version
from fusion.lib.items import item_in


@dataclass(frozen=True, slots=True)
class Change:
    """What a new version says; None keeps what the earlier one says. ``origin`` is who says it."""

    text: str | None = None
    kind: Kind | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    origin: Origin = "owner"


async def update(
    journal: Journal,
    intake: Intake,
    ref: str,
    change: Change,
    scope: Scope,
    idempotency_key: str | None = None,
    *,
    may_raise_trust: bool = True,
) -> Sequence[Acknowledged]:
    """Store a new version of a memory; one acknowledgement, which names both refs.

    A change that changes nothing is a duplicate. Raises NotFound for a memory that is forgotten or out of scope,
    AlreadyReplaced for one that is not current, BadInput for one of a file, and what `Intake.remember` raises. It
    raises BadInput for a trusted memory if an agent changes it, or without ``may_raise_trust``: the new text would be
    trusted without its owner's word.
    """
    old = await journal.read(versions.find, ref, scope)
    _refuse_memory_of_file(old)
    _refuse_item(old)
    if old.trust == "trusted" and not (may_raise_trust and change.origin == "owner"):
        raise BadInput(
            f"{old.record.ref} is trusted, so only the owner can change what it says: with the home's token, or an API "
            f"key with all_users = true in [[server.keys]]. Remember a memory of its own instead"
        )
    item = _new_version(old.event, change)
    written = intake.prepared(item, scope.tenant).event
    if old.record.superseded_by is None and written is not None and _says(written) == _says(old.event):
        return [Acknowledged(old.record.ref, old.event.event_id, "duplicate", reason="it says that already")]
    return await intake.remember([item], tenant=scope.tenant, idempotency_key=idempotency_key, updates=True)


def _new_version(old: Event, change: Change) -> NewMemory:
    """The new version as it is stored."""
    kept = {field.name: getattr(old, field.name) for field in fields(NewMemory)}
    named = {field.name: getattr(change, field.name) for field in fields(Change)}
    changed = {name: value for name, value in named.items() if value is not None}
    new = replace(NewMemory(**kept), **changed, supersedes=old.event_id, derived_from=())
    if new.valid_from is not None and new.valid_to is not None and new.valid_to <= new.valid_from:
        raise BadInput("valid_to is not after valid_from: such a memory would never be true")
    return replace(new, revision=versions.revision_of(old, repr(_says(new))))


def _says(memory: Event | NewMemory) -> tuple[object, ...]:
    """What a change can change, but for who says it."""
    return memory.text, memory.kind, memory.valid_from, memory.valid_to


def _refuse_memory_of_file(old: Version) -> None:
    """Raise BadInput for a memory that was read from a file: it says where the change belongs."""
    ref, event = old.record.ref, old.event
    kind, colon, rest = (event.source or "").partition(":")
    if colon and kind == "file":
        raise BadInput(
            f"{ref} is read from {rest}{_lines(event.place)}: edit it there. A folder of [notes] is followed; of "
            f"another file, `fusion ingest {rest}` remembers the change"
        )
    if colon and kind in SESSION_KINDS:
        raise BadInput(
            f"{ref} is a turn of the session {event.source}, and its transcript stays as it is. Remember what holds "
            f"now in its place: fusion remember … --supersedes {ref}"
        )
    if old.file is not None or (colon and kind in READER_KINDS):
        where = old.file or rest
        place = f" ({event.place.document}, position {event.place.start})" if event.place else ""
        raise BadInput(
            f"{ref} is read from {where}{place}: change that line there, and `fusion ingest {where}` remembers it"
        )


def _refuse_item(old: Version) -> None:
    """Raise BadInput for a memory that is an item: its text is made of its value."""
    if (item := item_in(old.event.stated)) is not None:
        raise BadInput(
            f"{old.record.ref} is the item {item.address.path}: put its new value there, PUT /v1/items/"
            f"{item.address.path}"
        )


def _lines(place: Place | None) -> str:
    """The lines of a file that a memory has, ", line 3" or ", lines 3 to 5"; "" where they are not known."""
    if place is None:
        return ""
    return f", line {place.start}" if place.start == place.end else f", lines {place.start} to {place.end}"
