"""The log of observations of a home whose journal comes back from a database that other gateways had, too."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from fusion.ingest.observe import FOLDER, OWN
from fusion.lib.observation_lines import BLANK, BadRecord, own_observation
from fusion.store.segments import CutSegment, Place, SegmentLog
from fusion.store.sqlite import read_only


def blank_forgotten(folder: Path, journal: Path, tenant: str) -> int:
    """Blank the lines that other gateways forgot, redacted or deleted as too old; returns how many.

    ``folder`` is the tenant's. A gateway on the database puts the log aside once it has read it, so there is one only
    if none was started in this home. Lines that ``journal`` has not read yet stay for the next harvest. Raises
    StoreFull, and sqlite3.Error.
    """
    if not (folder / FOLDER).is_dir():
        return 0
    with closing(read_only(journal)) as db:
        read = db.execute("select place from harvested where source = ?", (OWN,)).fetchone()
        if read is None:
            return 0
        kept = {
            (pointer, bytes(key)): redacted
            for pointer, key, redacted in db.execute("select pointer, key, redacted from observation")
        }
    log, end = SegmentLog.open(folder / FOLDER), Place.of(read[0])
    gone = []
    for segment in log.segments():
        try:
            for place, line in log.lines_from(Place(segment.number, 1)):
                if place >= end or place.segment != segment.number:
                    break
                if not _is_kept(line, place, tenant, kept):
                    gone.append(place)
        except CutSegment:
            continue
    return log.rewrite(dict.fromkeys(gone, BLANK))


def _is_kept(line: bytes, place: Place, tenant: str, kept: dict[tuple[str, bytes], int]) -> bool:
    """Whether nothing of a line was forgotten; one that is no observation has a dead letter."""
    try:
        found = own_observation(line, tenant)
    except BadRecord:
        return True
    if found is None:
        return True
    redacted = kept.get((place.pointer, found.key))
    return redacted is not None and redacted <= found.redacted
