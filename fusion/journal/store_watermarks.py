"""Copies of the journal's watermark in the home and next to each store, by which a start detects a lost journal.

A journal that was replaced by an empty one, truncated, or restored from an older copy is intact in itself; only the
stores know that there was more. So its watermark is written into the home and each store's folder as the store is
filled. At the next start a journal with another id, or with fewer transactions than a copy has, has lost memories.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from fusion.journal.watermark import Watermark
from fusion.store.private_files import write_atomically

log = logging.getLogger(__name__)

FILE = "journal.json"
COUNT_FILE = "count.json"
HOME = "the home"
"""the name of the home among the places"""


@dataclass(frozen=True, slots=True)
class StoreCount:
    """How many events a store held when it was last counted.

    ``journal`` is the id of the journal that filled it, ``surplus`` how many events it has held at least besides those
    of the journal (None in the file of an earlier version; negative if it never held all of them), and ``missing`` the
    number of events that were gone without a deletion.
    """

    journal: str
    events: int
    surplus: int | None
    missing: int = 0


def write_mark(folder: Path, mark: Watermark) -> None:
    """Write the watermark atomically; errors of the disk are logged and ignored."""
    _write(folder, FILE, mark)


def remove_marks(places: Mapping[str, Path]) -> None:
    """Remove the watermarks in these places, before the journal is replaced."""
    for folder in places.values():
        (folder / FILE).unlink(missing_ok=True)


def write_count(folder: Path, count: StoreCount) -> None:
    """Write the count of a store atomically; errors of the disk are logged and ignored."""
    _write(folder, COUNT_FILE, count)


def read_count(folder: Path) -> StoreCount | None:
    """The count in a folder; None if it is missing or invalid."""
    try:
        found = json.loads((folder / COUNT_FILE).read_text(encoding="utf-8"))
        surplus = None if found.get("surplus") is None else int(found["surplus"])
        return StoreCount(str(found["journal"]), int(found["events"]), surplus, int(found["missing"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remove_count(folder: Path) -> None:
    """Remove the count of a store whose events are about to change other than by deliveries."""
    with suppress(OSError):
        (folder / COUNT_FILE).unlink(missing_ok=True)


def _write(folder: Path, name: str, value: Watermark | StoreCount) -> None:
    try:
        write_atomically(folder / name, json.dumps(asdict(value)).encode())
    except OSError as error:
        log.debug("%s was not written in %s: %s", name, folder, error)


def read_mark(folder: Path) -> Watermark | None:
    """The watermark in a folder; None if it is missing or invalid."""
    try:
        found = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return Watermark(str(found["id"]), int(found["commits"]), int(found["events"]), int(found["seq"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def places_of(home: Path, backends: Mapping[str, object]) -> dict[str, Path]:
    """The folders that have a watermark, by their names in messages."""
    return {HOME: home, **{name: home / "backends" / name for name in backends}}


def places_of_another(journal: Watermark, places: Mapping[str, Path]) -> list[Path]:
    """The files with the watermark of another journal than this one."""
    marks = {folder / FILE: read_mark(folder) for folder in places.values()}
    return [file for file, mark in marks.items() if mark is not None and mark.id != journal.id]


def lost(journal: Watermark | None, places: Mapping[str, Path]) -> str | None:
    """What a journal has lost according to the watermarks in these places, in words; None if nothing.

    ``journal`` is None if there is none, or its watermark cannot be read.
    """
    found = {name: mark for name, folder in places.items() if (mark := read_mark(folder)) is not None}
    beyond = {name: mark for name, mark in found.items() if journal is None or _is_beyond(mark, journal)}
    if not beyond:
        return None
    most = max(beyond.values(), key=lambda mark: mark.events)
    has = 0 if journal is None else journal.events
    if journal is not None and not any(_is_other(mark, journal) for mark in beyond.values()):
        what = "another program deleted memories from it"
    elif journal is not None and all(mark.id == journal.id for mark in beyond.values()):
        what = "it lacks what was written last: it was truncated, or is an older copy of itself"
    else:
        what = "it is another one than the stores were filled from"
    return f"{what}. It has {has} memories of all time; {_listed(list(beyond))} knew of {most.events}"


def _is_beyond(mark: Watermark, journal: Watermark) -> bool:
    """Whether a watermark counts more than the journal has: events are never deleted, only emptied."""
    return _is_other(mark, journal) or mark.events > journal.events


def _is_other(mark: Watermark, journal: Watermark) -> bool:
    """Whether a watermark is of another journal, or of a later state of this one."""
    return mark.id != journal.id or mark.commits > journal.commits


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
