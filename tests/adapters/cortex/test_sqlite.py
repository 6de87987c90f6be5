"""The cortex's SQLite store: every store's promises, and what only a file can go through."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from adapters.cortex.port import Graph
from adapters.cortex.records import KIND_CHARS, json_of, kind_in
from adapters.cortex.sqlite import SqliteGraph
from adapters.graph.options import WalkOptions
from fusion.contract import KINDS, Embedder, Entity, Extraction, Fact, Kind, Opening
from fusion.errors import StoreBusy, StoreDamaged
from fusion.store.sqlite import Database
from tests.adapters.cortex.store_contract import StoreContract, look, memory, numbers
from tests.backend_contract import event_id
from tests.sqlite_steps import Steps


async def opened(folder: Path, embedder: Embedder | None = None) -> SqliteGraph:
    return await SqliteGraph.open(Opening("cortex", folder, {}, embedder), WalkOptions())


class TestSqliteGraph(StoreContract):
    async def open_store(self, folder: Path, embedder: Embedder | None) -> Graph:
        return await opened(folder, embedder)


async def test_an_older_file_is_brought_up_to_date(tmp_path: Path) -> None:
    """What the first schema kept gets its state, its extraction from the graph, and its concepts."""
    graph = await opened(tmp_path)
    await graph.add([memory(1, "I signed up for a pottery class", ("Ada", "knows", "Ben"))])
    await graph.close()
    with closing(sqlite3.connect(tmp_path / "graph.sqlite")) as db:
        later = "select name from sqlite_schema where sql like '%from in_step%' or sql like '%update tally%'"
        for (trigger,) in db.execute(later).fetchall():
            db.execute(f"drop trigger {trigger}")
        db.execute("drop table in_step")
        db.execute("drop table tally")
        for index in ("conflict", "merged", "concepts", "contradicts"):
            db.execute(f"drop index memory_{index}")
        for (column,) in db.execute("select name from pragma_table_info('memory')").fetchall()[-12:]:
            db.execute(f"alter table memory drop column {column}")
        db.execute("drop table phrase")
        db.execute("pragma user_version = 1")
        db.commit()
    graph = await opened(tmp_path)
    try:
        known = (await graph.get([event_id(1)]))[event_id(1)]
        assert known.extraction.facts == (Fact("Ada", "knows", "Ben"),)
        assert {entity.name for entity in known.extraction.entities} == {"Ada", "Ben"}
        assert known.state == memory(1, "").state
        assert numbers(link.id for link in await graph.link("the pottery class", look(), [], 5)) == [1]
    finally:
        await graph.close()


@pytest.mark.feature("a newer schema is reported, and not a byte of it is written", part="faults/cortex")
async def test_a_newer_file_is_left_alone(tmp_path: Path) -> None:
    """Its schema is named, and what to install; nothing is written to it."""
    await (await opened(tmp_path)).close()
    with closing(sqlite3.connect(tmp_path / "graph.sqlite")) as db:
        db.execute("pragma user_version = 99")
    before = (tmp_path / "graph.sqlite").read_bytes()
    with pytest.raises(StoreDamaged, match=r"newer version of memory-fusion \(schema 99"):
        await opened(tmp_path)
    assert (tmp_path / "graph.sqlite").read_bytes() == before


@pytest.mark.feature(
    "a corrupted file is reported, with its fix, and never mistaken for an empty one", part="faults/cortex"
)
async def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    """A corrupt file is never silently empty: the error names it and the fix."""
    (tmp_path / "graph.sqlite").write_bytes(b"garbage" * 1000)
    with pytest.raises(StoreDamaged, match=r"graph\.sqlite is damaged.*backup"):
        await opened(tmp_path)


@pytest.mark.row("A104", "Cortex: a locked, damaged or newer file is reported, and nothing is stored partially")
@pytest.mark.feature(
    "a locked file is reported as busy; nothing is stored partially, all of it once the file is free",
    part="faults/cortex",
)
async def test_a_locked_file_says_so_and_nothing_is_half_kept(tmp_path: Path) -> None:
    """While another process writes: StoreBusy in our words, nothing kept; once it is free, all of it."""
    database = await Database.open(tmp_path / "graph.sqlite", SqliteGraph.schema, busy_s=0.05)
    other = await opened(tmp_path / "other")
    graph = SqliteGraph(database, other._index, WalkOptions())
    batch = [memory(1, "one", ("Alpha", "is", "Beta")), memory(2, "two")]
    try:
        with closing(sqlite3.connect(tmp_path / "graph.sqlite", isolation_level=None)) as held:
            held.execute("begin immediate")
            with pytest.raises(StoreBusy, match="another process is writing"):
                await graph.add(batch)
            held.execute("rollback")
        assert await graph.get([event_id(1), event_id(2)]) == {}
        await graph.add(batch)
        assert len(await graph.get([event_id(1), event_id(2)])) == 2
    finally:
        await database.close()
        await other.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_read_from_the_first_characters(kind: Kind) -> None:
    """…of an extraction, whatever else is in it: a fact that is named like the field changes nothing."""
    extraction = Extraction(kind, (Entity('kind":"rule'),), (Fact("kind", "is", '"fact"'),))
    for learnt in (extraction, Extraction(kind)):
        assert kind_in(json_of(learnt)[:KIND_CHARS]) == kind


@pytest.mark.feature("Cortex: a deletion reads none of the other memories, however many there are")
async def test_a_deletion_reads_no_other_memories(tmp_path: Path) -> None:
    """Deleting one memory takes SQLite as many steps among 400 memories as among 40."""
    graph = await opened(tmp_path)
    taken = []
    try:
        for first, last in ((1, 40), (41, 400)):
            await graph.add([memory(n, f"unrelated note number {n}") for n in range(first, last + 1)])
            steps = Steps()
            await graph._database.write(lambda db, steps=steps: db.set_progress_handler(steps, 1))
            assert await graph.delete([event_id(last)]) == {event_id(last)}
            await graph._database.write(lambda db: db.set_progress_handler(None, 1))
            taken.append(steps.count)
    finally:
        await graph.close()
    assert taken[1] <= taken[0] + 100
