"""The mark that a journal leaves next to the stores after each delivery."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fusion.journal import Journal, watermark
from tests.ingest.helpers import event
from tests.journal.helpers import append
from tests.sqlite_steps import counted


@pytest.mark.feature("the mark after each delivery costs the same in a large home")
async def test_mark_counts_no_events(file_journal: Journal) -> None:
    steps = {}
    for size in (50, 400):
        held = (await file_journal.watermark()).events
        await append(file_journal, *(event(f"event number {n}", n) for n in range(held, size)))

        def read(db: sqlite3.Connection) -> int:
            with counted(db) as taken:
                mark = watermark.read_uncounted(db, 0)
            assert mark == watermark.read(db)
            return taken.count

        steps[size] = await file_journal.read(read)
        assert await file_journal.mark() == await file_journal.watermark()
    assert steps[400] == steps[50]


async def test_mark_of_a_journal_that_lost_events_says_how_many_it_had(tmp_path: Path) -> None:
    journal = await Journal.open(tmp_path / "journal.sqlite")
    await append(journal, *(event(f"event number {n}", n) for n in range(3)))
    with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as db, db:
        db.execute("delete from event where seq = 2")
    assert (await journal.watermark()).events == 2
    assert (await journal.mark()).events == 3
    await journal.close()
    reopened = await Journal.open(tmp_path / "journal.sqlite")
    assert (await reopened.mark()).events == 2
    await reopened.close()
