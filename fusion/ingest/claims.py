"""Claims: memories whose caller names a source that only the gateway's own readers may name.

The kind of a source stands before its colon. Recall treats lines of a ``file:`` and turns of a session as read at their
place, so a caller that is not a reader must not name such a source. Its memory is stored, under
``claimed:`` and the source that it named: as a memory of its own, which joins no file and no session.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from fusion.contract import CLAIMED_PREFIX, READER_KINDS
from fusion.ingest.intake import NewMemory


def as_stated_by_caller(item: NewMemory) -> NewMemory:
    """The memory as a caller that is not a reader may state it.

    It is without a file, derived from nothing, and a reader's source is claimed.
    """
    return replace(_claimed(item, READER_KINDS), file=None, derived_from=())


def as_stated_by_line(item: NewMemory) -> NewMemory:
    """The memory as a line of a JSONL file may state it, which can name any other source."""
    return _claimed(item, READER_KINDS - {"jsonl"})


def _claimed(item: NewMemory, kinds: Collection[str]) -> NewMemory:
    kind, colon, _ = (item.source or "").partition(":")
    return replace(item, source=f"{CLAIMED_PREFIX}{item.source}") if colon and kind in kinds else item
