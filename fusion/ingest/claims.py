"""Claims: memories whose caller names a source that only the gateway's own readers may name.

A source has its kind before a colon. Recall gives the lines of a ``file:`` and the turns of a session the place that
their reader found them at, so a caller that is no reader must not name such a source. What it sends is kept, under
``claimed:`` and the source that it named: as a memory of its own, which joins no file and no session.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from fusion.contract import CLAIMED_PREFIX, READER_KINDS
from fusion.ingest.intake import NewMemory


def unread(item: NewMemory) -> NewMemory:
    """The memory as a caller that is no reader may state it."""
    return _claimed(item, READER_KINDS)


def unread_line(item: NewMemory) -> NewMemory:
    """The memory as a line of JSONL may state it: any file may hold such lines, whatever they say of other files."""
    return _claimed(item, READER_KINDS - {"jsonl"})


def _claimed(item: NewMemory, kinds: Collection[str]) -> NewMemory:
    kind, colon, _ = (item.source or "").partition(":")
    return replace(item, source=f"{CLAIMED_PREFIX}{item.source}") if colon and kind in kinds else item
