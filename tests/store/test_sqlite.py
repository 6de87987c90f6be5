"""The SQLite database: durable, one writer, one error for each fault."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fusion.errors import BackendUnreachable, StoreBusy, StoreDamaged, StoreFull
from fusion.store.sqlite import Connection, Database, connect

STEPS = ("create table note (text text)",)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = await Database.open(tmp_path / "folder" / "notes.sqlite", STEPS)
    try:
        yield opened
    finally:
        await opened.close()


def notes(db: Connection) -> list[str]:
    return [row["text"] for row in db.execute("select text from note order by rowid")]


def add(*texts: str):  # type: ignore[no-untyped-def]
    """A work that writes notes, and fails on one that says "fail"."""

    def work(db: Connection) -> int:
        for text in texts:
            db.execute("insert into note values (?)", (text,))
            if text == "fail":
                raise ValueError("set to fail")
        return len(texts)

    return work


async def test_a_write_is_read_back(database: Database) -> None:
    """``write`` gives back what its work returns, and a read sees it."""
    assert await database.write(add("one", "two")) == 2
    assert await database.read(notes) == ["one", "two"]


async def test_waiting_writers_share_a_commit_but_not_errors(database: Database) -> None:
    """One of three works that wait together fails: it alone is undone and hears of it."""
    entered, go_on = threading.Event(), threading.Event()

    def hold(db: Connection) -> None:
        entered.set()
        go_on.wait(60)

    first = asyncio.create_task(database.write(hold))
    await asyncio.to_thread(entered.wait, 30)
    rest = [asyncio.create_task(database.write(add(*texts))) for texts in (["a"], ["b", "fail"], ["c"])]
    await asyncio.sleep(0)
    go_on.set()
    assert await asyncio.gather(first, *rest, return_exceptions=True) == [None, 1, rest[1].exception(), 1]
    assert isinstance(rest[1].exception(), ValueError)
    assert await database.read(notes) == ["a", "c"]


async def test_no_cursor_leaves_the_thread_of_its_connection(database: Database) -> None:
    """Freed in the caller's thread, a cursor of ``executemany`` resets a statement that the writer runs again."""
    written = await database.write(lambda db: db.executemany("insert into note values (?)", [("one",), ("two",)]))
    read = await database.read(lambda db: db.execute("select text from note"))
    assert written.rowcount == 2
    for cursor in (written, read):
        with pytest.raises(sqlite3.ProgrammingError, match="closed cursor"):
            cursor.fetchone()


async def test_a_reader_cannot_write(database: Database) -> None:
    """A read that writes is a mistake of ours, and SQLite refuses it."""
    with pytest.raises(StoreDamaged, match="readonly"):
        await database.read(add("sneaked in"))
    assert await database.read(notes) == []


async def test_files_are_private(database: Database) -> None:
    """0600 for the files, 0700 for the folder."""
    await database.write(add("secret"))
    modes = {stat.S_IMODE(path.stat().st_mode) for path in database.path.parent.iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE(database.path.parent.stat().st_mode) == 0o700


async def test_look_reads_in_the_callers_thread(database: Database) -> None:
    """It sees what was written and writes nothing; closing waits for the one that is under way, later ones are
    refused."""
    await database.write(add("one"))
    assert await asyncio.to_thread(database.look, notes) == ["one"]
    with pytest.raises(StoreDamaged, match="readonly"):
        await asyncio.to_thread(database.look, add("two"))
    looking, go_on = threading.Event(), threading.Event()

    def slowly(db: Connection) -> list[str]:
        looking.set()
        go_on.wait()
        return notes(db)

    found = asyncio.create_task(asyncio.to_thread(database.look, slowly))
    await asyncio.to_thread(looking.wait)
    closing = asyncio.create_task(database.close())
    await asyncio.sleep(0)  # it has begun, and refuses what comes now
    with pytest.raises(BackendUnreachable):
        await database.read(notes)
    go_on.set()
    assert await found == ["one"]
    await closing
    with pytest.raises(BackendUnreachable):
        await asyncio.to_thread(database.look, notes)


@pytest.mark.feature("readers of a store do not wait for each other", part="faults/stores")
async def test_looks_run_concurrently(database: Database) -> None:
    """Two threads read at once: each continues only when both have begun."""
    await database.write(add("one"))
    both = threading.Barrier(2, timeout=60)

    def together(db: Connection) -> list[str]:
        both.wait()
        return notes(db)

    looks = [asyncio.to_thread(database.look, together) for _ in range(2)]
    assert await asyncio.gather(*looks) == [["one"], ["one"]]


async def test_close_is_idempotent_and_refuses_later_calls(database: Database) -> None:
    """``close`` is idempotent; afterwards every call fails."""
    await database.close()
    await database.close()
    with pytest.raises(BackendUnreachable):
        await database.read(notes)
    with pytest.raises(BackendUnreachable):
        await database.write(add("late"))


async def test_another_writer_raises_store_busy(tmp_path: Path) -> None:
    """Another process locks the file: ``StoreBusy`` after the wait, while reads continue; then it recovers."""
    database = await Database.open(tmp_path / "notes.sqlite", STEPS, busy_s=0.01)
    other = connect(database.path)
    try:
        other.execute("begin immediate")
        with pytest.raises(StoreBusy) as busy:
            await database.write(add("blocked"))
        assert busy.value.retry_after_s > 0
        assert await database.read(notes) == []
        other.execute("rollback")
        await database.write(add("at last"))
        assert await database.read(notes) == ["at last"]
    finally:
        other.close()
        await database.close()


async def test_a_full_disk_raises_store_full(database: Database) -> None:
    """A full disk: ``StoreFull``, nothing partial, reads continue, and it recovers when there is space."""
    pages = await database.write(lambda db: int(db.execute("pragma page_count").fetchone()[0]))
    await database.write(lambda db: db.execute(f"pragma max_page_count = {pages}").fetchone())
    with pytest.raises(StoreFull, match="no space"):
        await database.write(add("small", "x" * 1_000_000))
    assert await database.read(notes) == []
    await database.write(lambda db: db.execute("pragma max_page_count = 1000000").fetchone())
    await database.write(add("small"))
    assert await database.read(notes) == ["small"]


async def test_a_file_that_is_no_database_is_damaged(tmp_path: Path) -> None:
    """A file that is no database is ``StoreDamaged``, names the fix, and is left as it is."""
    path = tmp_path / "notes.sqlite"
    path.write_bytes(b"this is no database, " * 500)
    with pytest.raises(StoreDamaged, match="backup"):
        await Database.open(path, STEPS)
    assert path.read_bytes().startswith(b"this is no database")


async def test_check_finds_damage(tmp_path: Path) -> None:
    """SQLite itself answers from a file with a ruined page: opening checks, so that nothing is silently missing."""
    path = tmp_path / "notes.sqlite"
    database = await Database.open(path, STEPS)
    await database.write(add(*(f"note {n} " + "x" * 300 for n in range(200))))
    await database.close()
    content = bytearray(path.read_bytes())
    content[4096 * 3 : 4096 * 4] = b"\xff" * 4096
    path.write_bytes(content)
    with pytest.raises(StoreDamaged, match=r"damaged .* backup"):
        await Database.open(path, STEPS)


@pytest.mark.feature("an older schema is migrated, a newer one refused", part="faults/stores")
async def test_newer_schema_is_refused(tmp_path: Path) -> None:
    """A file of a later version is not touched; an older one is brought forward, step by step."""
    path = tmp_path / "notes.sqlite"
    database = await Database.open(path, STEPS)
    await database.write(add("old"))
    await database.close()
    newer = await Database.open(path, (*STEPS, "alter table note add column stars integer not null default 3"))
    assert await newer.read(lambda db: db.execute("select stars from note").fetchone()[0]) == 3
    await newer.close()
    with pytest.raises(StoreDamaged, match="newer version"):
        await Database.open(path, STEPS)
