"""How many memories a store has is asked each second, so it costs the same among few and many of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from qdrant_client import models as shapes

from adapters.cortex.sqlite import SqliteGraph, _keep_concepts
from adapters.markdown.catalogue import Document, Item, ItemTable
from adapters.mem0.local import FILE, Client, open_client
from adapters.triples.triples import Triples, _find_titles
from fusion.contract import Event, Hit, Scope
from fusion.lib.ids import uuid7
from fusion.store.rows import INSERT_EVENT, event_row
from fusion.store.sqlite import migrate
from tests.sqlite_steps import counted

FEW, MANY = 40, 320
NAME = "memories"
pytestmark = pytest.mark.feature("a store's memories are counted as they come and go, at the same cost in a large home")


def _fill(db: sqlite3.Connection, size: int) -> None:
    for _ in range(size):
        event = Event(event_id=str(uuid7()), text="text", recorded_at=datetime(2026, 1, 1, tzinfo=UTC), scope=Scope())
        db.execute(INSERT_EVENT, event_row(event))


@pytest.mark.parametrize("kind", [SqliteGraph, Triples])
def test_graph_counts_its_memories_without_reading_them(kind: type[SqliteGraph] | type[Triples]) -> None:
    steps = {}
    for size in (FEW, MANY):
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
            migrate(db, kind.schema[:-1])
            _fill(db, size // 2)
            migrate(db, kind.schema)  # of a home that has memories
            _fill(db, size // 2)
            db.execute("delete from memory where id <= 3")
            with counted(db) as at_size:
                assert db.execute("select memories from tally").fetchone() == (size - 3,)
            steps[size] = at_size.count
    assert steps[MANY] == steps[FEW]


@pytest.mark.feature("an opening reads no memory that the version before has stored, unless it lacks something")
@pytest.mark.parametrize(("kind", "complete"), [(SqliteGraph, _keep_concepts), (Triples, _find_titles)])
def test_opening_reads_no_complete_memories(
    kind: type[SqliteGraph] | type[Triples], complete: Callable[[sqlite3.Connection], int]
) -> None:
    steps = {}
    for size in (FEW, MANY):
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
            db.row_factory = sqlite3.Row
            migrate(db, kind.schema)
            _fill(db, size)
            while complete(db):
                pass
            with counted(db) as at_size:
                assert complete(db) == 0
            steps[size] = at_size.count
    assert steps[MANY] == steps[FEW]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    opened = open_client(tmp_path)
    opened.create_collection(NAME, vectors_config=shapes.VectorParams(size=2, distance=shapes.Distance.COSINE))
    yield opened
    opened.close()


def _put(client: Client, numbers: range) -> None:
    client.upsert(NAME, [shapes.PointStruct(id=n, vector=[1.0, float(n)], payload={"text": "a"}) for n in numbers])


def test_mem0_counts_its_points_without_reading_them(client: Client) -> None:
    engine, steps = client.engine, {}
    for size in (FEW, MANY):
        _put(client, range(size))
        with counted(engine._db) as at_size:
            assert engine.count_points() == engine.count_in(NAME) == size
        steps[size] = at_size.count
    assert steps[MANY] == steps[FEW]
    client.delete(NAME, points_selector=[1, 2, 2, 99_999])
    assert engine.count_points() == MANY - 2
    client.delete_collection(NAME)
    assert engine.count_points() == 0


@pytest.mark.feature("mem0 finds out which memories it has without reading the others")
def test_mem0_looks_up_ids_without_reading_the_others(client: Client) -> None:
    engine, steps = client.engine, {}
    for size in (FEW, MANY):
        _put(client, range(size))
        with counted(engine._db) as at_size:
            assert engine.held([3, 4, 99_999]) == {3: [NAME], 4: [NAME]}
        steps[size] = at_size.count
    assert steps[MANY] == steps[FEW]


def test_mem0_counts_the_points_of_an_earlier_version(tmp_path: Path) -> None:
    first = open_client(tmp_path)
    first.create_collection(NAME, vectors_config=shapes.VectorParams(size=2, distance=shapes.Distance.COSINE))
    _put(first, range(7))
    first.close()
    with closing(sqlite3.connect(tmp_path / FILE)) as db:
        db.executescript(
            "drop trigger point_counted; drop trigger point_uncounted; drop table tally; pragma user_version = 2"
        )
    again = open_client(tmp_path)
    _put(again, range(5, 9))
    assert again.engine.count_points() == 9
    again.close()


def _document(name: str, numbers: range) -> Document:
    hits = (Hit(native_id=f"{name}/{n}", text=f"text {n}", scope=Scope()) for n in numbers)
    return Document(name, [Item(hit, ()) for hit in hits])


async def test_markdown_counts_what_a_change_adds_and_removes(tmp_path: Path) -> None:
    async def added() -> int:
        """The steps of the statements that one more item takes."""
        grown = _document("log", range(len(table), len(table) + 1))
        seen: list[int] = []

        def follow(db: sqlite3.Connection) -> None:
            db.set_progress_handler(lambda: seen.append(1), 1)

        def stop(db: sqlite3.Connection) -> None:
            db.set_progress_handler(None, 1)

        await table._database.write(follow)
        await table.extend([(grown.name, grown.items, None)], f"stamp {len(table)}")
        await table._database.write(stop)
        return len(seen)

    table = await ItemTable.open(tmp_path, "reading")
    steps = {}
    for size in (FEW, MANY):
        await table.extend([("log", _document("log", range(len(table), size)).items, None)], f"grown to {size}")
        steps[size] = await added()
    assert steps[MANY] < steps[FEW] * 1.2  # the trees of the indexes are higher
    await table.change([_document("log", range(5)), _document("other", range(3))], [])
    assert len(table) == 8
    await table.extend([("other", _document("other", range(2, 4)).items, None)], "again")
    assert len(table) == 9
    await table.change([], ["log"])
    assert len(table) == 4
    await table.close()
    reopened = await ItemTable.open(tmp_path, "reading")
    assert len(reopened) == 4
    await reopened.close()
