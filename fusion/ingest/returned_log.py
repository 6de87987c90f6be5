"""The log of observations of a home whose journal comes back from a database that other gateways had, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

from fusion.ingest.observe import FOLDER
from fusion.journal.observations import forgotten_among
from fusion.lib.observation import EpisodeType, Observation
from fusion.lib.observation_lines import BLANK, BadRecord, own_observation
from fusion.store.database import Connection
from fusion.store.segments import CutSegment, Place, SegmentLog
from fusion.store.sqlite import connect


def blank_forgotten(
    folder: Path, journal: Path, tenant: str, kept_days: Mapping[EpisodeType, float], now: datetime
) -> int:
    """Blank the lines that other gateways forgot, redacted or deleted as too old; returns how many.

    ``folder`` is the tenant's. A gateway on the database puts the log aside once it has read it, so there is one only
    if none was started in this home. All other lines stay, also those that ``journal`` has not read. Raises StoreFull,
    OSError and sqlite3.Error.
    """
    if not (folder / FOLDER).is_dir() or not journal.exists():
        return 0
    log = SegmentLog.open(folder / FOLDER)
    with closing(connect(journal)) as db:
        gone = [
            place
            for place, one in _observations(log, tenant)
            if _is_gone(db, one, one.type in kept_days and one.ts < now - timedelta(days=kept_days[one.type]))
        ]
    return log.rewrite(dict.fromkeys(gone, BLANK))


def _is_gone(db: Connection, one: Observation, past: bool) -> bool:
    row = db.execute("select redacted from observation where key = ?", (one.key,)).fetchone()
    if row is not None:
        return bool(row["redacted"] > one.redacted)
    return past or bool(forgotten_among(db, [one.key]))


def _observations(log: SegmentLog, tenant: str) -> Iterator[tuple[Place, Observation]]:
    """The lines of a log that are observations; what cannot be read of a segment is passed over."""
    for segment in log.segments():
        try:
            for place, line in log.lines_of(segment.number):
                try:
                    found = own_observation(line, tenant)
                except BadRecord:  # it has a dead letter
                    continue
                if found is not None:
                    yield place, found
        except CutSegment:
            continue
