"""The outbox: what is due in which backend."""

from __future__ import annotations

import pytest

from fusion.journal import outbox
from fusion.journal.outbox import MAX_MADE_CHARS, Holding
from tests.ingest.helpers import ME, START, event
from tests.journal.helpers import append
from tests.sqlite_steps import counted


async def test_redeliver_makes_all_events_due_except_deletions(journal):
    """An emptied store gets every live event again; its open deletions stay due."""
    await journal.outbox.register(["shelf"])
    one, two = await append(journal, event("one", 1), event("two", 2))
    due = await journal.outbox.due("shelf", START, 9)
    await journal.outbox.mark_delivered("shelf", [(d.seq, ["native"]) for d in due])
    await journal.forget([one.ref], ME)
    await journal.outbox.redeliver(["shelf"])
    assert [d.event.event_id for d in await journal.outbox.due("shelf", START, 9)] == [two.event.event_id]
    assert [d.event.event_id for d in await journal.outbox.due_deletions("shelf", START, 9)] == [one.event.event_id]


async def test_holding_counts_what_a_backend_has(journal):
    """Delivered ones surely, open deletions and begun deliveries perhaps; others' deliveries and refused ones not."""
    await journal.outbox.register(["shelf", "other"])
    one, *_ = await append(journal, *(event(f"event number {n}", n) for n in range(5)))
    due = await journal.outbox.due("shelf", START, 9)
    await journal.outbox.mark_sent("shelf", [d.seq for d in due[:3]])
    await journal.outbox.mark_delivered("shelf", [(d.seq, ["native"]) for d in due[:3]])
    await journal.outbox.give_up("shelf", [due[3].seq], "declined")
    assert await journal.outbox.holding("shelf") == Holding(3, 3)
    await journal.outbox.mark_sent("shelf", [due[4].seq])
    await journal.forget([one.ref], ME)
    assert await journal.outbox.holding("shelf") == Holding(2, 4)
    assert await journal.outbox.holding("other") == Holding(0, 1)
    assert await journal.outbox.holding("unknown") == Holding(0, 0)


@pytest.mark.feature("a store is compared with its own deliveries alone, and sorts few of them")
async def test_holding_reads_no_deliveries_of_others(file_journal):
    """It groups only what is not done; it grouped the deliveries to all backends, twice for each store."""
    names = ["shelf", "second", "third", "fourth"]
    await file_journal.outbox.register(names)
    await append(file_journal, *(event(f"event number {n}", n) for n in range(200)))
    for name in names:
        due = await file_journal.outbox.due(name, START, 200)
        await file_journal.outbox.mark_delivered(name, [(d.seq, ["native"]) for d in due])

    def steps(db):
        with counted(db) as taken:
            assert outbox.holding(db, "shelf") == Holding(200, 200)
        return taken.count

    assert await file_journal.read(steps) < 200 * 12


@pytest.mark.feature("an event is made once for all stores, and anew when its row changes")
async def test_event_is_made_once_for_all_stores(journal):
    await journal.outbox.register(["shelf", "other"])
    await append(journal, event("one", 1))
    (first,), (second,) = [await journal.outbox.due(name, START, 9) for name in ("shelf", "other")]
    assert first.event is second.event
    await journal.write(lambda db: db.execute("update event set text = 'another'").rowcount)
    (again,) = await journal.outbox.due("other", START, 9)
    assert again.event.text == "another"
    assert len(journal.outbox._made) == 1


async def test_events_that_were_made_are_bounded_by_their_text(journal):
    """One longer than all that is kept leaves no room for others, and stays for nobody."""
    await journal.outbox.register(["shelf", "other"])
    await append(journal, *(event("x" * (MAX_MADE_CHARS // 2 - 1), n) for n in range(3)))
    first, second = [await journal.outbox.due(name, START, 9) for name in ("shelf", "other")]
    assert [one.event.event_id for one in first] == [one.event.event_id for one in second]
    assert len(journal.outbox._made) == 2
    journal.outbox.drop_made()
    assert journal.outbox._made_chars == len(journal.outbox._made) == 0
