"""Counts the steps of SQLite's virtual machine, which show what a statement reads and do not depend on speed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager


class Steps:
    """The steps that were counted so far."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> int:
        """One more; 0, so that SQLite goes on."""
        self.count += 1
        return 0


@contextmanager
def counted(db: sqlite3.Connection) -> Iterator[Steps]:
    """Counts what this connection does in the block."""
    steps = Steps()
    db.set_progress_handler(steps, 1)
    try:
        yield steps
    finally:
        db.set_progress_handler(None, 1)
