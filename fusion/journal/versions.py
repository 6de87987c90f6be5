"""Versions of a memory: an explicit update is a new event in the place of the current one, and a run of its own.

`UPDATED` begins the revision of such an event: when the source sends the earlier text once more, the update stays.
"""

from __future__ import annotations

from dataclasses import dataclass

from fusion.contract import Event, Scope, Trust
from fusion.errors import AlreadyReplaced
from fusion.journal.rows import RETIRED, Record, delivered_event, record_of, row_of, state_of
from fusion.lib.ids import short_ref
from fusion.lib.words import content_hash
from fusion.store.database import Connection, Row

UPDATED = "update:"
"""prefix of the revision of an event that updates another"""
_BATCH = "update-"


@dataclass(frozen=True, slots=True)
class Version:
    """A memory that is to be updated: its record, and its event with what only deliveries and the journal have."""

    record: Record
    event: Event
    file: str | None
    """the file of JSONL that it was read from"""
    trust: Trust
    """as it is now: what was decided, or else what was stated with it"""


def find(db: Connection, ref: str, scope: Scope) -> Version:
    """The memory of a ref, whether it is current or not. Raises NotFound, as `fusion.journal.rows.row_of`."""
    row = row_of(db, ref, scope)
    return Version(record_of(row), delivered_event(row), row["file"], state_of(row).trust or row["trust"])


def revision_of(replaced: Event, text: str) -> str:
    """The revision of an update, the same for the same request."""
    return UPDATED + content_hash(f"{replaced.event_id}\0{text}")


def batch_of(ref: str) -> str:
    """The id of the run that an update is: undoing the run takes the update back."""
    return _BATCH + ref


def is_update(batch: str) -> bool:
    """Whether a run is an update of one memory."""
    return batch.startswith(_BATCH)


def require_current(db: Connection, row: Row) -> None:
    """Raise AlreadyReplaced, which names the newest version, for an event that is not current."""
    if row["superseded_by"] is None:
        return
    ref, newest = short_ref(row["seq"]), row
    while newest["superseded_by"] not in (None, RETIRED):
        newest = db.execute("select * from event where event_id = ?", (newest["superseded_by"],)).fetchone()
    if newest["superseded_by"] == RETIRED or newest["forgotten"]:
        raise AlreadyReplaced(f"{ref} is not current any more: what it came from was edited or removed since")
    current = short_ref(newest["seq"])
    raise AlreadyReplaced(
        f"{ref} was replaced by {current} since: read that, and update {current} if it still is wrong", current
    )
