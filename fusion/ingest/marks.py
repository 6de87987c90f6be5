"""Marks of the journal in the home and next to each store: which journal filled it, and how far that was.

A journal that was replaced by an empty one, cut, or restored from an older copy is sound in itself. Only the stores
know that there was more. So the mark of the journal is written into the home and into each store's folder as that is
filled; at the next start a journal with another id, or with fewer transactions than a mark has, has lost something.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from fusion.ingest.journal.mark import Mark

log = logging.getLogger(__name__)

FILE = "journal.json"
HOME = "the home"
"""what the home itself is called among the places"""


def write_mark(folder: Path, mark: Mark) -> None:
    """Writes the mark, whole or not at all. A folder that is gone or full keeps its last one."""
    fresh = folder / f".{FILE}"
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(asdict(mark), file)
        fresh.replace(folder / FILE)
    except OSError as error:
        log.debug("%s was not marked: %s", folder, error)


def read_mark(folder: Path) -> Mark | None:
    """The mark in a folder; None where there is none, or it is not whole."""
    try:
        found = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return Mark(str(found["id"]), int(found["commits"]), int(found["events"]), int(found["seq"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def places_of(home: Path, backends: Mapping[str, object]) -> dict[str, Path]:
    """The folders that have a mark, by what a message calls them."""
    return {HOME: home, **{name: home / "backends" / name for name in backends}}


def lost(journal: Mark | None, places: Mapping[str, Path]) -> str | None:
    """What a journal has lost by the marks in these places, in one sentence; None where it has lost nothing.

    ``journal`` is None where there is none, or its mark cannot be read.
    """
    found = {name: mark for name, folder in places.items() if (mark := read_mark(folder)) is not None}
    if journal is None:
        beyond = found
    else:
        beyond = {n: mark for n, mark in found.items() if mark.id != journal.id or mark.commits > journal.commits}
    if not beyond:
        return None
    most = max(beyond.values(), key=lambda mark: mark.events)
    has = 0 if journal is None else journal.events
    if journal is not None and all(mark.id == journal.id for mark in beyond.values()):
        what = "it lacks what was written last: it was cut, or is an older copy of itself"
    else:
        what = "it is another one than the stores were filled from"
    return f"{what}. It has {has} memories of all time; {_listed(list(beyond))} knew of {most.events}"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
