"""The shared index is derived data: damaged, lost and outdated files are filled in again from the memories."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.index import Entry, Index, vectors
from adapters.index.lexical import Lexical
from adapters.index.matrix import Matrix, checksums
from adapters.index.vectors import Record, Vectors
from fusion.errors import StoreDamaged
from fusion.store.seal import Seal
from tests.adapters.index.helpers import ANN, BOB, CATS, LONG, both_ways, entry_of, found_everywhere, keys, opened
from tests.fakes import FakeEmbedder


@pytest.fixture(autouse=True, params=["checked at an opening", "sealed at a close"])
def _sealing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything here holds for large files, too, which are not read as a whole where nobody has touched them."""
    if "sealed" in request.param:
        monkeypatch.setattr(Seal, "least_bytes", 0)
        monkeypatch.setattr(vectors, "MANY", 0)


def _files(folder: Path, pattern: str) -> list[Path]:
    found = sorted(folder.glob(pattern))
    assert found, pattern
    return found


def _cut(folder: Path, pattern: str) -> None:
    for path in _files(folder, pattern):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _flip(folder: Path, pattern: str) -> None:
    for path in _files(folder, pattern):
        content = bytearray(path.read_bytes())
        content[len(content) // 4] ^= 0xFF
        path.write_bytes(content)


def _lose(folder: Path, pattern: str) -> None:
    for path in _files(folder, pattern):
        path.unlink()


DAMAGE = {
    "the record cut off": lambda folder: _cut(folder, "vectors.sqlite"),
    "the record lost": lambda folder: _lose(folder, "vectors.sqlite"),
    "the record garbage": lambda folder: (folder / "vectors.sqlite").write_bytes(b"no database" * 500),
    "the record emptied": lambda folder: (folder / "vectors.sqlite").write_bytes(b""),
    "terms cut off": lambda folder: _cut(folder / "lexical", "*.term"),
    "terms flipped": lambda folder: _flip(folder / "lexical", "*.term"),
    "postings flipped": lambda folder: _flip(folder / "lexical", "*.idx"),
    "stored keys flipped": lambda folder: _flip(folder / "lexical", "*.store"),
    "postings lost": lambda folder: _lose(folder / "lexical", "*.idx"),
    "meta.json cut off": lambda folder: _cut(folder / "lexical", "meta.json"),
    "meta.json lost": lambda folder: _lose(folder / "lexical", "meta.json"),
    "meta.json another": lambda folder: (folder / "lexical" / "meta.json").write_text("{}"),
    "lexical lost": lambda folder: shutil.rmtree(folder / "lexical"),
}
RUNNING = (
    "the record garbage",
    "terms flipped",
    "stored keys flipped",
    "postings lost",
    "meta.json lost",
    "lexical lost",
)
"""not what is cut off: to read behind the end of a file that is mapped into memory ends any process"""


@both_ways
async def test_damage_to_words_while_running_leaves_vectors(tmp_path: Path, kind: type[Index]) -> None:
    """Search goes on by vectors and says so; the next open fixes it."""

    class Broken(Lexical):
        def search(self, text: str, tags: Sequence[int] | None, limit: int) -> list[tuple[str, float]]:
            raise StoreDamaged("cut off")

    async with opened(tmp_path, FakeEmbedder(), kind=kind) as index:
        await index.settle()
        index._files.lexical.__class__ = Broken
        assert keys(await index.search("red cat", ANN, 1)) == ["cat"]
        assert index.faults == ("search by words does not work: cut off",)


@pytest.mark.feature("the index: an unchanged store opens without being read")
async def test_a_kept_stamp_opens_without_looking_at_the_truth(tmp_path: Path) -> None:
    """The same stamp: the truth is not read, and what lacks its vector is picked by key. Any other: it is read."""
    by_key = {entry.key: entry for entry in CATS}

    def pick(keys: Sequence[str]) -> list[Entry]:
        return [by_key[key] for key in keys]

    def unread() -> Iterator[Entry]:
        raise AssertionError("the truth was read")
        yield

    async with opened(tmp_path, FakeEmbedder(failing=True)) as index:
        stamp = index.stamp
    index = await Index.open(tmp_path, FakeEmbedder(), unread(), pick=pick, stamp=stamp)
    await index.settle()
    assert (index.vectors, index.pending, index.stamp) == (4, 0, stamp)
    assert keys(await index.search("red cat", ANN, 10))[0] == "cat"
    await index.drop(["dog"])
    assert index.stamp not in {stamp, ""}
    await index.close()
    async with opened(tmp_path, FakeEmbedder()) as index:
        assert index.size == 4
        last = index.stamp
    for kept in (stamp, ""):
        with pytest.raises(AssertionError, match="was read"):
            await Index.open(tmp_path, FakeEmbedder(), unread(), pick=pick, stamp=kept)
    shutil.rmtree(tmp_path / "lexical")
    with pytest.raises(AssertionError, match="was read"):
        await Index.open(tmp_path, FakeEmbedder(), unread(), pick=pick, stamp=last)


async def test_a_change_that_was_cut_short_leaves_no_stamp(tmp_path: Path) -> None:
    """After a crash between the words and their record, the index is compared with the truth, with any stamp."""

    class Dies(Vectors):
        def change(self, put: Mapping[str, Record], drop: Sequence[str]) -> None:
            raise KeyboardInterrupt

    index = await Index.open(tmp_path, None, CATS)
    assert index.stamp
    index._files.vectors.__class__ = Dies
    with pytest.raises(KeyboardInterrupt):
        index._files.write({"cat": None})
    assert index.stamp == ""
    await index.close()


@pytest.mark.feature(
    "… damaged rows are rebuilt, and words are searched meanwhile", of="the index: vectors are in a memory-mapped"
)
@pytest.mark.parametrize("how", ["flipped", "cut off", "lost"])
async def test_damaged_vectors_are_filled_in_again(tmp_path: Path, how: str) -> None:
    """Found at the next open and by a look while it runs; only what is damaged is encoded anew, words go on."""

    def damage() -> None:
        file = tmp_path / "vectors.i8"
        content = bytearray(file.read_bytes())
        content[40] ^= 0xFF  # in the second of four rows of 32
        if how == "lost":
            file.unlink()
        else:
            file.write_bytes(content if how == "flipped" else content[:32])

    count = {"flipped": 1, "cut off": 3, "lost": 4}[how]
    async with opened(tmp_path, FakeEmbedder()) as index:
        before = await found_everywhere(index)
    damage()
    again = FakeEmbedder()
    async with opened(tmp_path, again) as index:
        assert await found_everywhere(index) == before
        assert len([entry for entry in CATS if again.encoded[entry.text]]) == count
        assert await index.damage() is None
    if how == "cut off":
        return  # to read behind the end of a file that is mapped into memory ends any process
    async with opened(tmp_path, FakeEmbedder()) as index:
        await index.settle()
        damage()
        fault = await index.damage()
        assert fault == f"{count} vectors are not what was written"
        await index.rebuild(CATS, fault)
        assert keys(await index.lexical("red cat", ANN, 1)) == ["cat"]
        assert await found_everywhere(index) == before
        if how == "flipped":
            assert await index.damage() is None


async def test_a_start_does_not_make_the_file_of_vectors_longer(tmp_path: Path) -> None:
    """4 rows of 32 bytes in a file of 1,024 rows, however often it is opened: its room goes by what is in it."""
    for _ in range(4):
        async with opened(tmp_path, FakeEmbedder()) as index:
            await index.settle()
            assert (tmp_path / "vectors.i8").stat().st_size == 1024 * 32


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(-127, 127), min_size=1, max_size=64), st.data())
def test_a_component_that_changed_changes_the_checksum(row: list[int], data: st.DataObject) -> None:
    """Each counts an odd number of times, so no other value of one of them comes to the same sum."""
    place, value = data.draw(st.integers(0, len(row) - 1)), data.draw(st.integers(-128, 127))
    other = [*row[:place], value, *row[place + 1 :]]
    first, second = checksums(np.array([row, other], np.int8)).tolist()
    assert (first == second) == (row == other)


@pytest.mark.feature("the index: words are searched while a lost record is rebuilt")
async def test_words_are_searched_while_a_lost_record_is_written_again(tmp_path: Path) -> None:
    """The record is garbage, the words are whole: at each step of the repair they answer, within their scopes."""
    gate = asyncio.Event()
    async with opened(tmp_path, embedder := FakeEmbedder()) as index:
        await index.settle()
        index._files.vectors._database.execute("pragma wal_checkpoint(truncate)")
        DAMAGE["the record garbage"](tmp_path)
        fault = await index.damage()
        assert fault is not None
        embedder.gate = gate
        await index._in_thread(lambda: index._files.begin_anew(fault))
        assert index.size == 0
        assert keys(await index.search("red cat", ANN, 10)) == ["cat", "car"]
        gate.set()
        await index.rebuild(CATS[:3], fault)  # Bob's went away meanwhile
        assert index.size == 3
        assert await index.search("red cat", BOB, 10) == []
        assert await index.damage() is None


async def test_a_damaged_passage_takes_the_vectors_of_its_text_alone(tmp_path: Path) -> None:
    """All passages of the text are embedded again at the next opening, and those of no other text."""
    truth = [entry_of(1, "red cat"), entry_of(2, LONG), entry_of(3, "blue dog")]
    async with opened(tmp_path, FakeEmbedder(), truth) as index:
        await index.settle()
        slot = index._files.vectors._database.execute("select slot from entry where key = 'k2' and part = 1").fetchone()
    (file,) = tmp_path.glob("vectors*.i8")
    content = bytearray(file.read_bytes())
    content[slot[0] * 32] ^= 0xFF
    file.write_bytes(content)
    gate = asyncio.Event()
    async with opened(tmp_path, again := FakeEmbedder(gate=gate), truth) as index:
        assert (index.size, index.vectors, index.pending) == (3, 2, 1)
        gate.set()
        await index.settle()
        assert (index.vectors, index.pending) == (3, 0)
        assert set(again.encoded) == set(LONG.split("; "))
        assert keys(await index.similar("green parrot", ANN, 1)) == ["k2"]


async def test_an_index_of_an_older_layout_is_written_again(tmp_path: Path) -> None:
    truth = [entry_of(1, "red cat"), entry_of(2, LONG)]
    async with opened(tmp_path, FakeEmbedder(), truth) as index:
        await index.settle()
    with closing(sqlite3.connect(tmp_path / "vectors.sqlite")) as database:
        database.execute("pragma user_version = 3")
    async with opened(tmp_path, FakeEmbedder(), truth) as index:
        await index.settle()
        assert (index.size, index.vectors, index.pending, index.faults) == (2, 2, 0, ())
        assert keys(await index.similar("green parrot", ANN, 1)) == ["k2"]


@pytest.mark.row("A080", "the index: another model's vectors are never mixed in")
async def test_another_embedder_starts_its_own_vectors(tmp_path: Path) -> None:
    """Vectors of another identity are dropped and filled in anew; none are mixed. Without an embedder they are left."""
    async with opened(tmp_path, FakeEmbedder(identity="old@1")) as index:
        await index.settle()
    gate = asyncio.Event()
    new = FakeEmbedder(identity="new@2", dimensions=16, gate=gate)
    async with opened(tmp_path, new) as index:
        assert (index.vectors, index.pending) == (0, 4)
        gate.set()
        await index.settle()
        assert index.vectors == 4
    async with opened(tmp_path, None) as index:
        assert index.vectors == 0
    again = FakeEmbedder(identity="new@2", dimensions=16)
    async with opened(tmp_path, again) as index:
        assert (index.vectors, index.pending) == (4, 0)
        assert not again.encoded


async def test_filling_resumes_at_the_next_open(tmp_path: Path) -> None:
    """Closed in the middle: what has its vector keeps it, the others get theirs later."""
    truth = [Entry(f"k{i:03}", ANN, f"memory number {i}") for i in range(300)]
    async with opened(tmp_path, FakeEmbedder(), truth[:100]) as index:
        await index.settle()
    gate = asyncio.Event()
    held = FakeEmbedder(gate=gate)
    async with opened(tmp_path, held, truth) as index:
        await held.waiting.wait()
    embedder = FakeEmbedder()
    async with opened(tmp_path, embedder, truth) as index:
        await index.settle()
        assert index.vectors == 300
        assert len(embedder.encoded) == 200


async def test_a_deleted_folder_comes_back_identical(tmp_path: Path) -> None:
    """It is derived data: the same truth gives the same answers, scores included."""
    async with opened(tmp_path / "index", FakeEmbedder()) as index:
        before = await found_everywhere(index)
    shutil.rmtree(tmp_path / "index")
    async with opened(tmp_path / "index", FakeEmbedder()) as index:
        assert await found_everywhere(index) == before


@pytest.mark.row("A053", "the index: damaged files are rebuilt")
@pytest.mark.row("A053", "a corrupt index at the start", part="faults/stores")
@pytest.mark.parametrize("damage", DAMAGE)
async def test_damaged_files_are_written_again(tmp_path: Path, damage: str) -> None:
    """Whichever file is cut off, flipped or gone: after the next open every answer is as before."""
    async with opened(tmp_path, FakeEmbedder()) as index:
        before = await found_everywhere(index)
    DAMAGE[damage](tmp_path)
    async with opened(tmp_path, FakeEmbedder()) as index:
        assert await found_everywhere(index) == before
        assert (index.size, index.vectors) == (4, 4)


@pytest.mark.parametrize("damage", RUNNING)
async def test_damage_is_found_and_repaired_while_running(tmp_path: Path, damage: str) -> None:
    """Written again from the truth without closing: every answer is as before, and vectors are not lost with words."""
    async with opened(tmp_path, embedder := FakeEmbedder()) as index:
        await index.settle()
        before, encoded = await found_everywhere(index), embedder.encoded.copy()
        assert await index.damage() is None
        index._files.vectors._database.execute("pragma wal_checkpoint(truncate)")
        DAMAGE[damage](tmp_path)
        fault = await index.damage()
        assert fault is not None
        await index.rebuild(CATS, fault)
        await index.settle()
        assert await index.damage() is None
        assert await found_everywhere(index) == before
        assert all(embedder.encoded[entry.text] == encoded[entry.text] for entry in CATS)
        await index.put([Entry("new", ANN, "a red parrot")])
        assert keys(await index.lexical("parrot", ANN, 1)) == ["new"]
    async with opened(tmp_path, FakeEmbedder()) as index:
        assert await index.damage() is None


@pytest.mark.feature("a kill between the index's deletions and their commit", part="faults/stores")
async def test_a_list_of_deletions_that_was_never_committed_is_swept_away(tmp_path: Path) -> None:
    """Killed between tantivy's file of deletions and its commit: the next one that wants that name gets it."""
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    async with opened(here, None):
        pass
    shutil.copytree(here, elsewhere)
    async with opened(elsewhere, None) as index:
        await index.drop(["car"])
    [deletions] = (elsewhere / "lexical").glob("*.del")
    shutil.copy(deletions, here / "lexical")
    async with opened(here, None) as index:
        await index.drop(["car"])
        assert keys(await index.search("red", ANN, 10)) == ["cat"]


@pytest.mark.parametrize("change", ["added", "replaced", "dropped"])
async def test_a_process_that_died_between_the_two_files_is_repaired(tmp_path: Path, change: str) -> None:
    """Words committed, their record not, and the caller knows nothing of it: the next open makes it as it was."""

    class Dies(Vectors):
        def change(self, put: Mapping[str, Record], drop: Sequence[str]) -> None:
            raise KeyboardInterrupt

    class Dead(Lexical):
        def change(self, put: Iterable[tuple[str, int, str]], drop: Iterable[str]) -> None:
            undoes = change == "added" and bool(list(drop))  # which a dead process does not
            super().change(put, [] if undoes else drop)

    index = await Index.open(tmp_path, None, CATS)
    index._files.vectors.__class__, index._files.lexical.__class__ = Dies, Dead
    changes = {
        "added": {"new": Entry("new", ANN, "a stray sofa")},
        "replaced": {"cat": Entry("cat", ANN, "a stray")},
        "dropped": {"cat": None},
    }[change]
    with pytest.raises(KeyboardInterrupt):
        index._files.write(changes)
    await index.close()
    async with opened(tmp_path, None) as again:
        assert keys(await again.lexical("stray", ANN, 10)) == []
        assert keys(await again.lexical("sofa", ANN, 10)) == ["cat"]


async def test_another_way_to_cut_words_writes_the_index_again(tmp_path: Path) -> None:
    """An index whose record names another analysis is not trusted, though its entries are the same."""
    async with opened(tmp_path, None):
        pass
    with sqlite3.connect(tmp_path / "vectors.sqlite") as database:
        database.execute("update meta set value = 'older' where name = 'analysis'")
    database.close()
    lexical = Lexical(tmp_path / "lexical")
    lexical.change([("cat", 1, "terms of an older program")], [])
    lexical.close()
    async with opened(tmp_path, None) as index:
        assert keys(await index.lexical("sofa", ANN, 10)) == ["cat"]
        assert keys(await index.lexical("program", ANN, 10)) == []


@pytest.mark.feature("… and reads no vector", of="a large store that was closed in order")
async def test_a_sealed_index_reads_no_rows_at_an_opening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong checksums, written before the seal, are found by the check alone. The answers, what is added, dropped and
    waits, and the slots that are taken next are those of an index that reads its rows."""
    monkeypatch.setattr(Seal, "least_bytes", 0)
    monkeypatch.setattr(vectors, "MANY", 0)
    async with opened(tmp_path, FakeEmbedder()) as index:
        await index.settle()
        await index.drop(["dog"])
        expected = await found_everywhere(index)
    files = [tmp_path / "vectors.sqlite", tmp_path / "vectors.saved.npz", *tmp_path.glob("*.i8")]
    with closing(sqlite3.connect(files[0])) as db, db:
        db.execute("update entry set sum = sum + 1")
    Seal(tmp_path / "vectors.seal").put(files)
    truth = [entry for entry in CATS if entry.key != "dog"]
    async with opened(tmp_path, FakeEmbedder(), truth) as index:
        assert (index.size, index.vectors, index.pending) == (3, 3, 0)
        assert await found_everywhere(index) == expected
        assert "3 vectors" in (await index.damage() or "")
        await index.put([CATS[1]])
        await index.settle()
        assert (index.size, index.vectors) == (4, 4)
    async with opened(tmp_path, FakeEmbedder()) as index:
        assert keys(await index.search("blue dog", ANN, 1)) == ["dog"]


class FewRows(Matrix):
    """Any matrix counts as a large one; it counts its searches."""

    many = 2
    searched = 0

    def search(self, *given: Any) -> list[tuple[str, float]]:
        FewRows.searched += 1
        return super().search(*given)


@pytest.mark.feature("a large index is searched once as it opens, so that the first question after a boot is answered")
@pytest.mark.parametrize(("rows", "searched"), [(2, 0), (3, 1)])
def test_a_large_matrix_is_searched_once_as_it_is_restored(tmp_path: Path, rows: int, searched: int) -> None:
    """Else its first search reads the file place by place, which takes longer than a question may."""
    matrix = FewRows(tmp_path / "rows", 8)
    matrix.write(range(rows), [1] * rows, list(np.ones((rows, 8), np.int8)))
    matrix.save(tmp_path / "saved", {})
    FewRows.searched = 0
    restored = FewRows(tmp_path / "rows", 8)
    restored.restore(tmp_path / "saved")
    assert FewRows.searched == searched
    assert restored.count == rows
