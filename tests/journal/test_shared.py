"""Journals of several gateways on one database: no cache is behind a write that another gateway acknowledged."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import TYPE_CHECKING

import pytest

from fusion.contract import Hit, Place, Scope, State
from fusion.journal import Journal, feed, outbox
from fusion.journal.append import Stored
from fusion.journal.external_refs import ExternalItem, store_items
from fusion.journal.outbox import ClaimsOfOthers, Due, DueState, Outbox
from fusion.lib.ids import external_ref
from fusion.lib.text_words import text_words
from fusion.store.database import READERS, Connection
from tests.ingest.helpers import ME, event
from tests.journal.conftest import Journals
from tests.journal.helpers import append, hides, neighbour_texts
from tests.journal.test_merge import journals, merge_into, rows_of

if TYPE_CHECKING:
    from fusion.store.postgres import Server

NOW = datetime.now(UTC)


@pytest.fixture
async def pair(journal_server: Server, tmp_path) -> tuple[Journal, Journal]:
    """The journals of two gateways."""
    journals = Journals(tmp_path, journal_server)
    yield await journals.open(), await journals.open()
    await journals.close()


async def test_another_gateways_memories_are_in_records_neighbours_and_frequencies(pair) -> None:
    one, two = pair
    (first,) = await append(one, event("the first turn about herons", 0))
    await two.refresh()
    assert await neighbour_texts(two, first, 2) == []
    assert (await two.frequencies(ME, ["heron"])).documents == 1
    await append(one, event("the second turn about herons", 1))
    (edited,) = await append(one, event("the first turn about cranes", 0, revision="2"))
    await two.refresh()
    assert (await two.frequencies(ME, ["heron", "crane"])).counts == {"heron": 1, "crane": 1}
    assert await neighbour_texts(two, edited, 2) == ["the second turn about herons"]
    (known,) = (await two.records([first.event.event_id])).values()
    assert known.superseded_by == edited.event.event_id


async def test_what_another_gateway_forgot_is_hidden_and_kept_out(pair) -> None:
    """By its words, by its lines in a file, and by the native id of an external item; a repeat in a file stays out."""
    one, two = pair
    said = "- the heron ledger is under the oak in the garden"
    piece = event(said, place=Place("notes/a.md", 5, 5, "line"), source="file:/notes/a.md")
    (stored,) = await append(one, piece)
    hit = Hit("n1", "Ana keeps the spare key under the third pot", ME)
    ref = external_ref("shop", "n1")
    await one.write(store_items, [ExternalItem(ref, "shop", hit, ME)], NOW)
    await two.refresh()
    assert not hides(two, "md", Hit("x", said, ME, place=Place("notes/a.md", 9, 9, "line")))
    await one.forget([stored.ref, ref], ME)
    longer = replace(piece, event_id="longer", text=f"{said}\n- more", place=Place("notes/a.md", 5, 6, "line"))
    (cut,) = await append(two, replace(longer, revision="2"))  # without a refresh
    assert (cut.event.text, cut.withheld) == ("- more", 1)
    await two.refresh()
    assert hides(two, "md", Hit("x", said, ME, place=Place("notes/a.md", 9, 9, "line")))
    assert hides(two, "shop", hit)
    (known,) = (await two.records([stored.event.event_id])).values()
    assert known.forgotten


async def test_a_statement_that_another_gateway_forgets_during_a_merge_stays_out(pair) -> None:
    one, two = pair
    said = "- the heron ledger is under the oak in the garden"
    piece = event(said, place=Place("notes/a.md", 5, 5, "line"), source="file:/notes/a.md")
    longer = replace(piece, event_id="longer", text=f"{said}\n- more", place=Place("notes/a.md", 5, 6, "line"))
    async with journals(1) as (other,):
        await append(other, replace(longer, revision="2"))
        rows = await rows_of(other)
    (stored,) = await append(one, piece)
    await merge_into(one, rows, lambda: two.forget([stored.ref], ME))
    assert [record.event.text for record in (await one.page(ME, 9)).records] == ["- more"]


async def test_what_was_computed_for_a_text_goes_when_another_gateway_forgets_it(pair) -> None:
    """Both gateways are in one process here, so the caches are those of both."""
    one, two = pair
    (stored,) = await append(one, event("Ana keeps the spare key under the third pot"))
    await two.refresh()
    await one.forget([stored.ref], ME)
    text_words("Ana keeps the spare key under the third pot")  # the other gateway ranked it just before
    await two.refresh()
    assert text_words.cache_info().currsize == 0


async def test_what_another_gateway_allows_again_is_shown(pair) -> None:
    one, two = pair
    text = "Ana keeps the spare key under the third pot"
    (stored,) = await append(one, event(text))
    await one.forget([stored.ref], ME)
    await two.refresh()
    assert hides(two, "md", Hit("x", text, ME))
    await append(one, event(text, None, source=None, place=None))
    await two.refresh()
    assert not hides(two, "md", Hit("x", text, ME))


async def test_decisions_of_another_gateway_count(pair) -> None:
    """The state of a memory, its quarantine, and the state of an external item."""
    one, two = pair
    (stored,) = await append(one, event("the code of the gate is in the blue book", None, source=None, place=None))
    hit = Hit("n1", "Ana likes tea", ME, stated_by="backend:shop")
    ref = external_ref("shop", "n1")
    await one.write(store_items, [ExternalItem(ref, "shop", hit, ME)], NOW)
    await two.records([stored.event.event_id])
    await one.decide({stored.event.event_id: {"trust": "quarantined"}}, "ana", "odd")
    await one.decide_external(ref, ME, {"ended_at": NOW, "ended": "archived"}, "ana", "old")
    await two.refresh()
    assert (await two.records([stored.event.event_id]))[stored.event.event_id].trust == "quarantined"
    assert hides(two, "md", Hit("x", stored.event.text, ME))
    assert hides(two, "shop", hit)


async def test_owners_of_another_gateway_are_known(pair) -> None:
    one, two = pair
    assert (await two.owners("default")).users == ()
    await append(one, event("Ana likes tea", scope=Scope(user_id="ana")))
    await two.refresh()
    assert [*(await two.owners("default")).users] == ["ana"]


async def test_a_gateway_that_slept_for_long_reads_all_again(pair, monkeypatch) -> None:
    """The feed keeps a bounded number of commits; one that is beyond it drops all that it has cached."""
    one, two = pair
    (stored,) = await append(one, event("Ana keeps the spare key under the third pot"))
    await two.records([stored.event.event_id])
    await one.forget([stored.ref], ME)
    monkeypatch.setattr(feed, "KEPT", 0)
    await two.refresh()
    assert hides(two, "md", Hit("x", stored.event.text, ME))
    assert (await two.records([stored.event.event_id]))[stored.event.event_id].forgotten


async def test_the_feed_does_not_grow_without_end(pair, monkeypatch) -> None:
    one, _ = pair
    count = feed.COUNT.replace(str(feed.KEPT), "3")
    monkeypatch.setattr(one._database, "_count", f"update mark set commits = commits + 1; {count}")
    for n in range(8):
        await append(one, event(f"turn {n}", n))
    rows = await one.read(lambda db: db.execute("select distinct commits from change").fetchall())
    assert len(rows) == 3
    for _ in range(8):
        await one.write(lambda db: db.execute("select 1"))
    rows = await one.read(lambda db: db.execute("select distinct commits from change").fetchall())
    assert len(rows) == 1  # the last one stays, by which others see that there was one


# Claims ---------------------------------------------------------------------------------------------------------------


def outboxes(*journals: Journal) -> list[Outbox]:
    for journal in journals:
        journal.outbox.stores = ("shelf",)
    return [journal.outbox for journal in journals]


async def expire(journal: Journal) -> None:
    """Let every claim end, as time does."""
    await journal.write(lambda db: db.execute("update delivery set claimed_until = 1 where claimed_until > 0").rowcount)


LATER = NOW + timedelta(minutes=1)


async def ended_claim(pair: tuple[Journal, Journal]) -> tuple[list[Outbox], Stored, Due]:
    """A memory whose delivery the first of two gateways has begun, and then stood still for longer than its claim."""
    boxes = outboxes(*pair)
    (stored,) = await append(pair[0], event("Ana keeps the spare key under the third pot"))
    (due,) = await boxes[0].due("shelf", LATER, 9)
    assert await boxes[0].mark_sent("shelf", [due.seq]) == {due.seq}
    await expire(pair[0])
    return boxes, stored, due


async def test_a_delivery_is_claimed_by_one_gateway_until_its_lease_ends(pair) -> None:
    one, two = outboxes(*pair)
    stored = await append(pair[0], *(event(f"turn {n}", n) for n in range(20)))
    later = NOW + timedelta(minutes=1)
    seqs = [due.seq for due in await one.due("shelf", later, 100)]
    assert len(seqs) == len(stored)
    claims = await asyncio.gather(*(box.mark_sent("shelf", seqs) for box in (one, two, one, two)))
    assert {frozenset(claim) for claim in claims} == {frozenset(seqs), frozenset()}
    loser = two if claims[0] else one
    assert await loser.due("shelf", later, 100) == []
    assert await loser.next_due("shelf", later) is None
    await expire(pair[0])
    assert await loser.mark_sent("shelf", seqs) == set(seqs)
    winner = one if loser is two else two
    await winner.mark_delivered("shelf", [(seqs[0], ["late"])])  # it lost its lease, so it marks nothing
    assert await pair[0].backlog() == {"shelf": 20}
    await loser.mark_delivered("shelf", [(seq, [str(seq)]) for seq in seqs])
    assert await pair[0].backlog() == {}


@pytest.mark.feature("an event that a gateway stores after another one has deleted it is deleted again")
@pytest.mark.parametrize("deleting", [False, True])
async def test_an_event_that_is_stored_after_its_deletion_is_deleted_again(pair, deleting) -> None:
    """The first gateway stood still for longer than its claim. The second one has deleted the event by then, or has
    looked for it and not marked that yet."""
    (one, two), stored, due = await ended_claim(pair)
    await pair[1].forget([stored.ref], ME)
    assert await two.claim("shelf", [due.seq], "forget") == {due.seq}
    if not deleting:
        await two.mark_forgotten("shelf", [(due.seq, "absent")])
        assert await two.due_deletions("shelf", LATER, 9) == []
    await one.mark_delivered("shelf", [(due.seq, ["late"])])
    if deleting:
        await two.mark_forgotten("shelf", [(due.seq, "absent")])
    (deletion,) = await two.due_deletions("shelf", LATER, 9)
    assert deletion.native_ids == ("late",)
    assert await one.claim("shelf", [due.seq], "forget") == {due.seq}
    await one.mark_forgotten("shelf", [(due.seq, "deleted")])
    assert await pair[0].backlog() == {}


class Sender:
    """A gateway that sends due states in steps: it reads them, the store gets them, and it marks them."""

    def __init__(self, outbox: Outbox, store: dict[str, State]) -> None:
        self.outbox, self.store = outbox, store
        self.due: Sequence[DueState] = ()

    async def read(self) -> None:
        self.due = await self.outbox.due_states("shelf", 9)

    async def send(self) -> None:
        self.store |= {one.event_id: one.state for one in self.due}

    async def mark(self) -> None:
        await self.outbox.mark_states_stored("shelf", self.due)

    async def fail(self) -> None:
        """In place of `mark`: the store's answer was lost."""
        await self.outbox.repeat_changed_states("shelf", self.due)

    async def send_all(self) -> None:
        await self.read()
        while self.due:
            await self.send()
            await self.mark()
            await self.read()


async def stored_on_shelf(pair: tuple[Journal, Journal]) -> tuple[str, int]:
    """The id and the number of a memory that is delivered."""
    outboxes(*pair)
    (stored,) = await append(pair[0], event("Ana keeps the spare key under the third pot"))
    (due,) = await pair[0].outbox.due("shelf", LATER, 9)
    await pair[0].outbox.mark_sent("shelf", [due.seq])
    await pair[0].outbox.mark_delivered("shelf", [(due.seq, ["n1"])])
    return stored.event.event_id, due.seq


STEPS_OF_TWO = sorted({*permutations(("one", "one", "two", "two", "two"))})
"""every order in which a gateway sends and marks what it has read, and another one reads, sends and marks"""


@pytest.mark.feature("the last state that a store gets of a memory is the journal's, in any order of two gateways")
@pytest.mark.parametrize("ends", ["mark", "fail"])
async def test_the_last_state_of_a_store_is_the_journals(pair, ends) -> None:
    """The first gateway has read a state, and the other one undoes it before it sends its own."""
    known, _ = await stored_on_shelf(pair)
    for number, order in enumerate(STEPS_OF_TWO):
        store: dict[str, State] = {}
        one, two = Sender(pair[0].outbox, store), Sender(pair[1].outbox, store)
        await pair[0].decide({known: {"ended_at": NOW, "ended": "archived"}}, "ana", "old")
        await one.read()
        await pair[1].decide({known: {"ended_at": None, "ended": None, "confidence": 1 / (2 + number)}}, "ana", "new")
        steps = {"one": [one.send, getattr(one, ends)], "two": [two.read, two.send, two.mark]}
        for who in order:
            await steps[who].pop(0)()
        await two.send_all()
        current = (await pair[0].records([known]))[known].state
        assert store == {known: current}, order
        assert current.ended is None


async def test_the_last_state_of_a_store_is_the_journals_with_three_gateways(pair, journal_server) -> None:
    """Two of them stood still with an old state, which arrives around a new one that is sent once more."""
    known, _ = await stored_on_shelf(pair)
    store: dict[str, State] = {}
    late, later, *newest = [Sender(pair[n % 2].outbox, store) for n in range(4)]
    await pair[0].decide({known: {"ended_at": NOW, "ended": "archived"}}, "ana", "old")
    await late.read()
    await later.read()
    await pair[1].decide({known: {"ended_at": None, "ended": None}}, "ana", "new")
    await newest[0].send_all()
    await late.send()
    await late.mark()
    for one in newest:  # both read that it is due again
        await one.read()
    await newest[0].send()
    await newest[0].mark()
    await newest[1].send()
    await later.send()
    await later.mark()
    await newest[1].mark()  # what arrived last was old, though this one sent the newest
    await newest[0].send_all()
    assert store[known].ended is None


async def test_a_memory_that_was_stored_late_gets_its_state_once_more(pair) -> None:
    """With the memory, a gateway whose claim had ended stored the state that it had read."""
    (one, two), stored, due = await ended_claim(pair)
    known = stored.event.event_id
    assert await two.mark_sent("shelf", [due.seq]) == {due.seq}
    await two.mark_delivered("shelf", [(due.seq, ["n1"])])
    await pair[1].decide({known: {"confidence": 0.9}}, "ana", "sure")
    store: dict[str, State] = {}
    await Sender(two, store).send_all()
    store[known] = due.state
    await one.mark_delivered("shelf", [(due.seq, ["n1"])])
    await Sender(two, store).send_all()
    assert store[known].confidence == 0.9


@pytest.mark.feature("a gateway claims deliveries without waiting for the writes of another one (SKIP LOCKED)")
async def test_a_claim_waits_for_no_writer_that_holds_none_of_its_rows(pair) -> None:
    """The other gateway is in the middle of a write, which has the tenant's lock."""
    one, two = outboxes(*pair)
    await append(pair[0], event("the first turn about herons", 0), event("the second one", 1))
    first, second = [due.seq for due in await one.due("shelf", NOW + timedelta(minutes=1), 9)]
    writes, ends = threading.Event(), threading.Event()

    def hold(db: Connection) -> None:
        db.execute("update delivery set urgent = 1 where seq = ?", (second,))
        writes.set()
        assert ends.wait(60)

    holding = asyncio.create_task(pair[1].write(hold))
    try:
        await asyncio.to_thread(writes.wait, 60)
        assert await one.mark_sent("shelf", [first, second]) == {first}
        assert await two.mark_sent("shelf", [first]) == set()  # claimed by the other one, so there is no need to wait
        claiming = asyncio.create_task(one.mark_sent("shelf", [second]))
        assert await two.claims_of_others() == ClaimsOfOthers(held=True, ended=False)
        assert not claiming.done()  # its row may be about to be deleted, so this one waits
    finally:
        ends.set()
        await holding
    assert await claiming == {second}


@pytest.mark.feature("a memory that two gateways stored has the native ids of both, so that forgetting it deletes both")
@pytest.mark.parametrize("late_first", [False, True])
async def test_an_event_that_two_gateways_stored_is_deleted_under_both_ids(pair, late_first) -> None:
    """The first gateway stood still for longer than its claim, and the backend makes ids of its own."""
    (one, two), stored, due = await ended_claim(pair)
    assert await two.mark_sent("shelf", [due.seq]) == {due.seq}
    for box, native_id in ((one, "late"), (two, "n1")) if late_first else ((two, "n1"), (one, "late")):
        await box.mark_delivered("shelf", [(due.seq, [native_id])])
    assert await pair[0].backlog() == {}
    await pair[1].forget([stored.ref], ME)
    (deletion,) = await two.due_deletions("shelf", LATER, 9)
    assert sorted(deletion.native_ids) == ["late", "n1"]


async def test_a_claim_waits_for_no_reads(pair) -> None:
    """Both threads that read are busy: a lease must not end because of that."""
    one, _ = outboxes(*pair)
    await append(pair[0], event("Ana keeps the spare key under the third pot"))
    (due,) = await one.due("shelf", LATER, 9)
    ends = threading.Event()
    reads = [asyncio.create_task(pair[0].read(lambda db: ends.wait(60))) for _ in range(READERS)]
    try:
        assert await asyncio.wait_for(one.mark_sent("shelf", [due.seq]), 30) == {due.seq}
        assert not any(read.done() for read in reads)
    finally:
        ends.set()
        assert await asyncio.gather(*reads) == [True] * READERS


async def test_an_event_is_not_deleted_while_another_gateway_delivers_it(pair) -> None:
    one, two = outboxes(*pair)
    (stored,) = await append(pair[0], event("Ana keeps the spare key under the third pot"))
    (due,) = await one.due("shelf", NOW + timedelta(minutes=1), 9)
    assert await one.mark_sent("shelf", [due.seq]) == {due.seq}
    await pair[1].forget([stored.ref], ME)
    assert await two.claim("shelf", [due.seq], "forget") == set()
    await one.mark_delivered("shelf", [(due.seq, ["n1"])])
    assert await two.claim("shelf", [due.seq], "forget") == {due.seq}
    (deletion,) = await two.due_deletions("shelf", NOW + timedelta(minutes=1), 9)
    assert deletion.native_ids == ("n1",)


# A database that lacks its last commits ------------------------------------------------------------------------------


async def lose_commits(journal: Journal, count: int) -> None:
    """Let the database be as it was that many commits ago, as far as its numbers say so."""

    def lose(db: Connection) -> None:
        db.execute("update mark set commits = commits - ?", (count + 1,))  # this write is counted, too
        db.execute("delete from change where commits > (select commits from mark)")

    await journal.write(lose)


@pytest.mark.feature("a gateway learns what another one forgot, although the database lacks its last commits by then")
@pytest.mark.parametrize("promoted", [False, True], ids=["restored", "promoted"])
async def test_a_database_that_uses_numbers_of_commits_again_is_read_from_the_start(
    pair, monkeypatch: pytest.MonkeyPatch, promoted: bool
) -> None:
    """A replica that was promoted gives the numbers of commits that it lacks to others. Without looking at its history,
    the gateway would take them for those that it knows."""
    one, two = pair
    said = "- the heron ledger is under the oak in the garden"
    piece = event(said, place=Place("notes/a.md", 5, 5, "line"), source="file:/notes/a.md")
    (stored,) = await append(one, piece)
    for n in range(4):
        await append(one, event(f"turn {n}", n))
    await two.refresh()
    assert not hides(two, "shelf", Hit("x", stored.event.text, ME))
    await lose_commits(one, 4)
    if promoted:  # a history of its own is all that distinguishes the numbers, once there are as many
        monkeypatch.setattr(two, "_last_change", two._last_change._replace(history="00000000"))
    await one.forget([stored.ref], ME)
    if promoted:
        await append(one, *(event(f"a later turn {n}", 10 + n) for n in range(3)))
        await append(one, event("the last turn", 20))
    longer = replace(piece, event_id="longer", text=f"{said}\n- more", place=Place("notes/a.md", 5, 6, "line"))
    (cut,) = await append(two, replace(longer, revision="2"))  # without a refresh
    assert (cut.event.text, cut.withheld) == ("- more", 1)
    await two.refresh()
    (known,) = (await two.records([stored.event.event_id])).values()
    assert known.forgotten
    assert hides(two, "shelf", Hit("x", stored.event.text, ME))


async def test_a_call_that_waited_for_another_one_takes_the_database_for_the_same(pair, caplog) -> None:
    """It asked for the last change before another call learned of a later one."""
    one, two = pair
    await append(one, event("turn 0", 0))
    async with two._refreshing:
        waiting = asyncio.create_task(two.refresh())
        while not two._refreshing._waiters:  # noqa: ASYNC110 — it has asked, and waits for its turn
            await asyncio.sleep(0.01)
        await append(one, event("turn 1", 1))
        two._last_change = await two._database.last_change()
    await waiting
    assert "everything is read again" not in caplog.text


# A backend that only some gateways have ------------------------------------------------------------------------------


@pytest.mark.feature("a backend that only some gateways have gets the memories that the others store")
@pytest.mark.parametrize("first", [False, True], ids=["known by a later memory", "known by none"])
async def test_a_backend_gets_what_gateways_without_it_stored(pair, first: bool) -> None:
    """A gateway that has it enters those deliveries, as it follows the others."""
    one, two = pair
    if not first:
        await append(one, event("turn 0", 0))
    await one.outbox.register(["shelf", "new"])
    await two.outbox.register(["shelf"])
    others = [(await append(two, event(f"turn {n}", n)))[0] for n in (1, 3)]
    await append(one, event("turn 4", 4))
    (gone,) = await append(two, event("turn 5 is forgotten before anybody sees it", 5))
    await two.forget([gone.ref], ME)

    async def due(journal: Journal) -> list[str]:
        return [one.event.text for one in await journal.outbox.due("new", LATER, 99)]

    assert not {stored.event.text for stored in others} & set(await due(one))
    await one.outbox.enter_left_out()
    assert await due(one) == [*(["turn 0"] if not first else []), "turn 1", "turn 3", "turn 4"]
    await append(two, event("turn 6", 6))
    await two.outbox.register(["shelf", "new"])  # it was started again, with the backend
    await two.outbox.enter_left_out()
    assert (await due(two))[-1] == "turn 6"
    await one.outbox.enter_left_out()  # the other one has entered it
    assert len(await due(one)) == len(await due(two))


async def test_a_memory_that_is_current_again_is_due_in_the_backends_of_all_gateways(pair) -> None:
    one, _ = pair
    await one.outbox.register(["shelf", "new"])
    (stored,) = await append(one, event("turn 0", 0))
    (due,) = await one.outbox.due("new", LATER, 9)
    await one.write(lambda db: db.execute("update delivery set state = 'forget'").rowcount)
    await one.write(outbox.enter_again, due.seq, ["shelf"])  # by a gateway that has no other
    for backend in ("shelf", "new"):
        assert [again.event.event_id for again in await one.outbox.due(backend, LATER, 9)] == [stored.event.event_id]
