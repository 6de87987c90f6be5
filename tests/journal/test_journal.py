"""The journal file: lookups, a full disk, locks and damage."""

from __future__ import annotations

import sqlite3

import pytest

from fusion.contract import Scope
from fusion.errors import NotFound, StoreBusy, StoreDamaged, StoreFull
from fusion.journal import Journal
from fusion.store.sqlite import Database
from tests.ingest.helpers import ME, event
from tests.journal.helpers import append


async def test_find_takes_a_ref_or_an_event_id_within_the_scope(journal):
    """Another user's, another tenant's and an unknown memory are all the same: not found."""
    (stored,) = await append(journal, event("hello"))
    for ref in (stored.ref, stored.ref.upper(), stored.event.event_id):
        assert (await journal.find(ref, ME)).event == stored.event
    for ref, scope in [(stored.ref, Scope(user_id="ben")), (stored.ref, Scope(tenant="acme")), ("m999", ME), ("?", ME)]:
        with pytest.raises(NotFound):
            await journal.find(ref, scope)


@pytest.mark.feature("a full disk stores nothing partially, and writing recovers")
async def test_a_full_disk_stores_nothing_partially_and_recovers(file_journal, tmp_path):
    """507 for the batch that does not fit, all of it; reads go on; with space again, so do writes."""
    journal = file_journal
    (first,) = await append(journal, event("before", 0))
    pages = await journal._database.read(lambda db: db.execute("pragma page_count").fetchone()[0])
    await journal._database.write(lambda db: db.execute(f"pragma max_page_count = {pages + 10}").fetchone())
    batch = [event(f"{n} " + "x" * 2000, n) for n in range(1, 60)]
    with pytest.raises(StoreFull):
        await append(journal, *batch)
    assert (await journal.find(first.ref, ME)).event.text == "before"
    assert await journal.records([e.event_id for e in batch]) == {}
    assert (await journal.frequencies(ME, ["x"])).documents == 1
    await journal._database.write(lambda db: db.execute("pragma max_page_count = 100000").fetchone())
    assert {s.state for s in await append(journal, *batch)} == {"stored"}
    check = sqlite3.connect(tmp_path / "journal.sqlite")
    assert check.execute("pragma integrity_check").fetchone() == ("ok",)
    check.close()


async def test_another_writer_raises_store_busy_and_does_not_block_readers(tmp_path):
    """While another process writes: StoreBusy after the busy timeout, reads at once; then all is well again."""
    file = tmp_path / "journal.sqlite"
    journal = Journal(await Database.open(file, [*Journal.schema], busy_s=0.02))
    (first,) = await append(journal, event("before", 0))
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("begin immediate")
    with pytest.raises(StoreBusy):
        await append(journal, event("during", 1))
    assert (await journal.find(first.ref, ME)).event.text == "before"
    other.execute("rollback")
    other.close()
    assert (await append(journal, event("during", 1)))[0].state == "stored"
    await journal.close()


@pytest.mark.feature("a damaged journal is never replaced by an empty one")
async def test_a_damaged_journal_is_never_replaced_by_an_empty_one(tmp_path):
    """The error names the file and what to do; the file is left as it is."""
    file = tmp_path / "journal.sqlite"
    journal = await Journal.open(file)
    await append(journal, *(event(f"{n} " + "word " * 200, n) for n in range(200)))
    await journal.close()
    content = bytearray(file.read_bytes())
    content[8192:20480] = b"\xff" * 12288
    file.write_bytes(content)
    with pytest.raises(StoreDamaged, match=r"journal\.sqlite is damaged.*fusion repair --home"):
        await Journal.open(file)
    assert file.read_bytes() == content


async def test_a_newer_journal_is_refused(tmp_path):
    """A file of a later schema is not touched by an earlier program."""
    file = tmp_path / "journal.sqlite"
    await (await Journal.open(file)).close()
    db = sqlite3.connect(file)
    db.execute("pragma user_version = 99")
    db.commit()
    db.close()
    with pytest.raises(StoreDamaged, match="newer"):
        await Journal.open(file)
