"""What other gateways changed in a shared journal, by the number of the commit, for the caches of this one.

In PostgreSQL, triggers write the table ``change`` in the transaction of each change (`fusion.store.postgres_sql`), so
no module can forget to. A journal in a file has one writer and no such table.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from fusion.store.database import VALUES, Connection, LastChange, Row, listed
from fusion.store.postgres_sql import HISTORY

KEPT = 10_000
"""commits whose changes are kept; a gateway that has not looked for longer reads all again"""
MOST = 2_000
"""changed events that are dropped one by one; after more, all that is cached is dropped"""


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed after one commit up to ``last``, the latest that changed anything of this.

    Not ``complete`` if all must be read again.
    """

    last: int
    complete: bool = True
    events: Sequence[Row] = ()
    """as they are now"""
    keys: Sequence[str] = ()
    """of new tombstones"""
    lines: Sequence[tuple[str, str, str, str]] = ()
    """tenant, document, statement and words of new tombstones of files"""
    lifted: bool = False
    """whether a tombstone was taken away"""
    external: bool = False
    """whether the state of an external item changed"""


def since(db: Connection, known: int) -> Changes:
    """What changed after the commit ``known``."""
    commits, latest = db.execute("select commits, (select coalesce(max(commits), 0) from change) from mark").fetchone()
    rows = db.execute("select distinct kind, item from change where commits > ?", (known,)).fetchall()
    of_kind: dict[str, list[str]] = {}
    for kind, item in rows:
        of_kind.setdefault(kind, []).append(item)
    ids = of_kind.get("event", [])
    if commits - known >= KEPT or len(ids) > MOST:
        return Changes(latest, complete=False)
    return Changes(
        latest,
        events=db.execute(f"select * from event where event_id in {VALUES}", listed(ids)).fetchall() if ids else (),
        keys=of_kind.get("tombstone", ()),
        lines=[tuple(json.loads(item, strict=False)) for item in of_kind.get("hidden", ())],
        lifted="lifted" in of_kind,
        external="external" in of_kind,
    )


def begins_anew(known: LastChange, last: LastChange) -> bool:
    """Whether the database lacks commits up to ``known``, and may use their numbers again.

    Its replica was promoted before it had them, or it was restored from a backup.
    """
    return last.history != known.history or last.number < known.number


def forgot_since(db: Connection, known: LastChange) -> bool:
    """Whether a tombstone may have been added or taken away after the commit ``known``."""
    later = (
        f"select 1 from mark where {HISTORY} <> ? or commits < ? union all "
        "select 1 from change where commits > ? and kind in ('tombstone', 'hidden', 'lifted') limit 1"
    )
    return db.execute(later, (known.history, known.number, known.number)).fetchone() is not None


COUNT = (
    f"delete from change where commits <= (select commits from mark) - {KEPT} "
    "and commits < (select max(commits) from change)"
)
"""the statement that every transaction of a shared journal executes besides `watermark.COUNT`"""
