"""Helpers of the embedders' tests."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path


def token_bytes(file: Path) -> int:
    """The bytes of all token vectors in the file of a `VectorStore`, as it accounts for them."""
    with closing(sqlite3.connect(file)) as database:
        (total,) = database.execute("select coalesce(sum(bytes), 0) from text where bytes > 0").fetchone()
    return int(total)
