"""Deletion: texts are gone, with earlier versions and derived memories."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from fusion.contract import Scope
from fusion.errors import NotFound
from fusion.journal import deletion
from tests.ingest.helpers import ME, event
from tests.journal.helpers import append
from tests.sqlite_steps import counted


@pytest.mark.feature("a forgotten text is in none of the journal's files")
async def test_forget_leaves_the_text_in_no_file(journal, tmp_path):
    """The row stays without text and speaker; no file of the journal has the words any more."""
    (stored, _) = await append(
        journal, event("The treasure is forgotten under xylophone.", 1, speaker="Quentin"), event("other", 2)
    )
    (deletion,) = (await journal.forget([stored.ref], ME))[stored.ref]
    assert deletion.record.event.text == "The treasure is forgotten under xylophone."
    record = (await journal.records([stored.event.event_id]))[stored.event.event_id]
    assert (record.forgotten, record.event.text, record.event.speaker) == (True, "", None)
    for file in tmp_path.iterdir():
        found = file.read_bytes().lower()
        assert b"xylophon" not in found, file.name
        assert b"quentin" not in found, file.name
    for ref in (stored.ref, stored.event.event_id):
        with pytest.raises(NotFound):
            await journal.find(ref, ME)
        assert await journal.forget([ref], ME) == {ref: []}


async def test_forget_deletes_earlier_versions(journal):
    """Forgetting the third version also forgets the first two, which a question about last week would find."""
    stored = await append(journal, *(event(f"The budget is {n} kronor this year.", 1) for n in (10, 20, 30)))
    deletions = (await journal.forget([stored[2].ref], ME))[stored[2].ref]
    assert [b.record.ref for b in deletions] == [stored[2].ref, stored[1].ref, stored[0].ref]
    assert all(r.forgotten for r in (await journal.records([s.event.event_id for s in stored])).values())
    assert (await journal.frequencies(ME, [])).documents == 0


async def test_forget_deletes_derived_memories_with_their_last_source(journal):
    """A summary of two turns outlives the first of them, not both; what another tenant claims to derive stays."""
    one, two = await append(journal, event("turn one", 1), event("turn two", 2))
    sources = (one.event.event_id, two.event.event_id)
    summary, foreign = await append(
        journal,
        event("both turns", derived_from=sources),
        event("theirs", scope=Scope(tenant="acme"), derived_from=sources),
    )
    assert len((await journal.forget([one.ref], ME))[one.ref]) == 1
    assert [b.record.ref for b in (await journal.forget([two.ref], ME))[two.ref]] == [two.ref, summary.ref]
    assert (await journal.find(foreign.ref, Scope(tenant="acme"))).event.text == "theirs"


@pytest.mark.feature("to forget a memory, the journal reads none of the others, however many there are")
async def test_forgetting_one_memory_reads_no_others(file_journal):
    """Forgetting one memory takes SQLite as many steps among 300 memories as among 30."""
    taken = []

    def forget(db, ref, event_id):
        with counted(db) as steps:
            assert deletion.released_by(db, [event_id], ME) == {}
            assert len(deletion.forget_all(db, [ref], ME, "test", datetime.now(UTC))[ref]) == 1
        taken.append(steps.count)

    for first, last in ((1, 30), (31, 300)):
        stored = await append(file_journal, *(event("ab " * n, n) for n in range(first, last + 1)))
        await file_journal.write(forget, stored[-1].ref, stored[-1].event.event_id)
    assert taken[1] <= taken[0] + 200
