"""Forgetting: in the journal at once, and in every backend in the end."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fusion.contract import Event, Hit, Place, Scope
from fusion.errors import BackendUnreachable, BadInput, NotFound
from fusion.ingest.deliver import Deliverer
from fusion.ingest.forget import ForgetRequest, Forgetter, Preview
from fusion.ingest.intake import Intake, NewMemory
from fusion.journal import Journal, audit, external_refs, listing
from fusion.journal.external_refs import ExternalItem
from fusion.journal.listing import Criteria
from fusion.journal.tombstones import Tombstones
from fusion.store.sqlite import Database
from tests.ingest.helpers import ME, START, FakeBatchStore, FakeClock, FakeStore, event
from tests.journal.helpers import hides


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    opened = await Journal.open(tmp_path / "journal.sqlite")
    yield opened
    await opened.close()


@asynccontextmanager
async def forgetting(journal, time=None, purge=None, **stores):
    time = time or FakeClock()
    deliverer = Deliverer(journal, stores, clock=time.now, sleep=time.sleep)
    await deliverer.start()
    try:
        await deliverer.settle()
        yield Forgetter(journal, deliverer, purge), deliverer
    finally:
        await deliverer.close()


class Keeping:
    """A store that cannot delete."""

    features = FakeStore.features

    def __init__(self) -> None:
        self.shelf = FakeStore()

    open = FakeStore.open
    search = FakeStore.search
    close = FakeStore.close

    def accepts(self, event):
        return True

    async def remember(self, batch):
        return await self.shelf.remember(batch)


@pytest.mark.row("A162", "forgetting reaches every backend, and its receipt says what happened in each")
async def test_a_forget_receipt_has_the_outcome_of_each_backend(journal):
    """Deleted; absent, if another program deleted it; hidden, if it cannot be deleted; nothing if it was declined."""
    (stored,) = await journal.append([event("The code is 4711.", 1)])
    shelves = {"has": FakeStore(), "lost": FakeStore(), "keeps": Keeping(), "declined": FakeStore(declines=["note"])}
    async with forgetting(journal, **shelves) as (forgetter, _):
        shelves["lost"].kept.clear()
        receipt = await forgetter.forget(stored.ref, ME)
    assert receipt.ref == stored.ref
    assert receipt.event_id == stored.event.event_id
    assert receipt.backends == {"has": "deleted", "lost": "absent", "keeps": "hidden"}
    assert receipt.done
    assert not shelves["declined"].asked_to_forget


async def test_forget_purges_the_embedders_caches(journal):
    """As they were said and with their speaker: that is what was encoded. Versions and derivatives, too."""
    purged: list[str] = []

    async def purge(texts):
        purged.extend(texts)

    stored = await journal.append([event("a first version", 1, speaker="Ana"), event("a second version", 1)])
    async with forgetting(journal, purge=purge) as (forgetter, _):
        receipt = await forgetter.forget(stored[1].ref, ME)
    assert receipt.also == (stored[0].ref,)
    assert {"a first version", "Ana: a first version", "a second version"} <= set(purged)


async def test_forget_retries_a_backend_that_is_down(journal):
    """The receipt says pending; the memory is gone here at once, and there when the backend is back, restart or not."""
    time, up, down = FakeClock(), FakeStore(), FakeStore()
    (stored,) = await journal.append([event("The code is 4711.", 1)])
    async with forgetting(journal, time, up=up, down=down) as (forgetter, deliverer):
        down.fault = BackendUnreachable("refused")
        receipt = await forgetter.forget(stored.ref, ME)
        assert receipt.backends == {"up": "deleted", "down": "pending"}
        assert not receipt.done
        assert (await journal.records([stored.event.event_id]))[stored.event.event_id].forgotten
        await time.asleep(1)
        assert await deliverer.backlog() == {"down": 1}
    down.fault = None
    async with forgetting(journal, time, up=up, down=down) as (_, deliverer):
        assert await deliverer.backlog() == {}
        assert down.kept == {}
        assert up.asked_to_forget == {stored.event.event_id: 1}


async def test_forget_survives_a_bug_in_one_backend(journal):
    """After an unexpected exception the deletion is pending and is tried again later."""
    time, good, broken = FakeClock(), FakeStore(), FakeStore()
    (stored,) = await journal.append([event("gone", 1)])
    async with forgetting(journal, time, good=good, broken=broken) as (forgetter, _):
        broken.fault = KeyError("x")
        receipt = await forgetter.forget(stored.ref, ME)
        assert receipt.backends == {"good": "deleted", "broken": "pending"}
        await time.asleep(1)
        broken.fault = None
        time.pass_by(time.slept[-1])
        await broken.until([])


async def test_forget_after_a_crash_is_finished_by_the_next_start(journal):
    """The tombstone is stored first: the next process deletes it in the backends."""
    shelf = FakeStore()
    (stored,) = await journal.append([event("gone", 1)])
    async with forgetting(journal, shelf=shelf):
        pass
    await journal.forget([stored.ref], ME)
    assert shelf.texts == ["gone"]
    async with forgetting(journal, shelf=shelf):
        assert shelf.texts == []


async def test_a_backend_that_is_not_configured_now_stays_pending(journal):
    """It had the memory; when it is configured again, the deletion runs."""
    shelf = FakeStore()
    (stored,) = await journal.append([event("gone", 1)])
    async with forgetting(journal, shelf=shelf):
        pass
    async with forgetting(journal) as (forgetter, _):
        assert (await forgetter.forget(stored.ref, ME)).backends == {"shelf": "pending"}
    async with forgetting(journal, shelf=shelf):
        assert shelf.texts == []


async def test_forget_waits_for_a_running_delivery(journal):
    """A backend that is storing it does not report "absent" a moment before it is there: the deletion waits."""
    shelf = FakeStore()
    async with forgetting(journal, shelf=shelf) as (forgetter, deliverer):
        shelf.gate = asyncio.Event()
        (stored,) = await journal.append([event("in flight", 1)])
        deliverer.wake()
        await shelf.reached.wait()
        asked = asyncio.create_task(forgetter.forget(stored.ref, ME))
        shelf.gate.set()
        assert (await asked).backends == {"shelf": "deleted"}
        await deliverer.settle()
        assert shelf.kept == {}
        assert await deliverer.backlog() == {}


async def test_forget_of_another_users_memory_is_not_found(journal):
    """Another user's, another tenant's, an unknown and a forgotten memory are all the same: not found."""
    (stored,) = await journal.append([event("mine", 1)])
    async with forgetting(journal) as (forgetter, _):
        for ref, scope in [(stored.ref, Scope(user_id="eve")), (stored.ref, Scope(tenant="acme")), ("m99", ME)]:
            with pytest.raises(NotFound):
                await forgetter.forget(ref, scope)
        await forgetter.forget(stored.ref, ME)
        with pytest.raises(NotFound):
            await forgetter.forget(stored.ref, ME)


# The same words, kept more than once


HINT = "The wifi password hint is trombone."


@pytest.mark.feature("duplicates in the same words are forgotten together, within their owner and the caller's scope")
async def test_forget_deletes_duplicates(journal):
    """A block shows one of them, so one is what its reader can name: by its owner, by an agent, and in a file, in other
    case and blanks. What is only like it stays, and so does another user's."""
    line = Place("notes/wifi.md", 3, 3, "line")
    named, *same, like, bens = await journal.append(
        [
            event(HINT),
            event(HINT, origin="agent"),
            event("  the wifi password\n\thint is TROMBONE. ", place=line),
            event("The wifi password hint is not trombone."),
            event(HINT, scope=Scope(user_id="ben")),
        ]
    )
    shelf, purged = FakeStore(), []

    async def purge(texts):
        purged.extend(texts)

    async with forgetting(journal, purge=purge, shelf=shelf) as (forgetter, _):
        receipt = await forgetter.forget(named.ref, ME)
        assert receipt.also == receipt.same == tuple(one.ref for one in same)
        assert receipt.backends == {"shelf": "deleted"}
        assert set(shelf.kept) == {one.event.event_id for one in (like, bens)}
        assert {one.event.text for one in same} <= set(purged)
    assert hides(journal, "markdown", Hit("wifi.md#3", HINT, Scope(user_id="ana"), place=line))


async def test_duplicates_compare_the_speaker_as_shown(journal):
    """`Ana: …` as it was typed, and the same with Ana as its speaker."""
    typed, told_ = await journal.append(
        [event("Ana: the key is under the pot"), event("the key is under the pot", 1, speaker="Ana")]
    )
    async with forgetting(journal) as (forgetter, _):
        assert (await forgetter.forget(told_.ref, ME)).same == (typed.ref,)


async def test_forget_leaves_duplicates_outside_the_scope(journal):
    """The same user's, and of these only what the scope of the request admits."""
    session = Scope(user_id="ana", session_id="s1")
    here, other, private = await journal.append(
        [
            event(HINT, scope=session),
            event(HINT, scope=Scope(user_id="ana", session_id="s2")),
            event(HINT, scope=replace(session, audience="private")),
        ]
    )
    async with forgetting(journal) as (forgetter, _):
        assert (await forgetter.forget(here.ref, session)).same == ()
        assert (await forgetter.forget(other.ref, Scope(user_id="ana", audience="private"))).same == (private.ref,)


async def test_short_turns_are_no_duplicates(journal):
    """The "yes" of one conversation is not that of another; the code that was noted twice is."""
    yes, _, code, again = await journal.append(
        [
            event("yes", 1, kind="turn"),
            event("yes", 2, kind="turn"),
            event("code 4711"),
            event("code 4711", origin="agent"),
        ]
    )
    async with forgetting(journal) as (forgetter, _):
        assert (await forgetter.forget(yes.ref, ME)).same == ()
        assert (await forgetter.forget(code.ref, ME)).same == (again.ref,)


async def test_a_forget_preview_names_duplicates_once(journal):
    """With the ref that they go with; what is named itself is no copy."""
    one, two, three, other = await journal.append(
        [event(HINT), event(HINT, origin="agent"), event(HINT, origin="tool"), event("something else")]
    )
    async with forgetting(journal) as (forgetter, _):
        looked = (await told(forgetter, refs=(one.ref, three.ref, other.ref), dry_run=True)).found
        assert [(found.ref, found.same_as) for found in looked] == [
            (one.ref, None),
            (three.ref, None),
            (other.ref, None),
            (two.ref, one.ref),
        ]
        reply = await told(forgetter, refs=(one.ref,))
    assert [(found.ref, found.text) for found in reply.found] == [(one.ref, ""), (two.ref, ""), (three.ref, "")]
    assert [receipt.same for receipt in reply.receipts] == [(two.ref, three.ref)]


async def test_forget_of_an_external_item_deletes_own_duplicates(journal):
    """An external item and the journal's memory in the same words are one memory to a reader."""
    (ours,) = await journal.append([event(THEIRS.text)])
    shelf = FakeStore()
    shelf.own["n7"] = THEIRS
    ref = await shown(journal)
    async with forgetting(journal, shelf=shelf) as (forgetter, _):
        [_, copy] = (await told(forgetter, refs=(ref,), dry_run=True)).found
        assert (copy.ref, copy.same_as) == (ours.ref, ref)
        assert (await forgetter.forget(ref, ME)).same == (ours.ref,)
        assert shelf.kept == {}


# Verified


@pytest.mark.row(
    "A162",
    "a backend that reports a deletion but still returns the memory is detected, and asked until it has deleted it",
)
async def test_forget_detects_a_backend_that_still_returns_the_memory(journal):
    """It says deleted and still returns it: the receipt says still_there, and it is asked again, later each time."""
    time, honest, liar = FakeClock(), FakeStore(), FakeStore()
    (stored,) = await journal.append([event("The code is 4711.", 1)])
    async with forgetting(journal, time, honest=honest, liar=liar) as (forgetter, deliverer):
        liar.lies = True
        receipt = await forgetter.forget(stored.ref, ME)
        assert receipt.backends == {"honest": "deleted", "liar": "still_there"}
        assert not receipt.done
        assert await deliverer.backlog() == {"liar": 1}
        await time.asleep(1)
        liar.lies = False
        time.pass_by(time.slept[-1])
        await liar.until([])
        await deliverer.settle()
        assert await deliverer.backlog() == {}


async def test_forget_verifies_in_the_memorys_scope_before_any_filter(journal):
    """By its text and its owner, as a reader asks: a tombstone of ours does not hide that it is still there."""
    shelf = FakeStore()
    (stored,) = await journal.append([event("The code is 4711.", 1, speaker="Ana")])
    async with forgetting(journal, shelf=shelf) as (forgetter, _):
        await forgetter.forget(stored.ref, ME)
    [asked] = shelf.asked
    assert asked.text == "Ana: The code is 4711."
    # This store says that it cannot filter by user, so it is asked without one.
    assert asked.scope == Scope(audience="private")


async def test_forget_verifies_absent_too(journal):
    """Under another id it is still there: who says that he never had it is not believed either."""
    shelf = FakeStore()
    (stored,) = await journal.append([event("The code is 4711.", 1)])
    async with forgetting(journal, shelf=shelf) as (forgetter, _):
        captured = shelf.kept.pop(stored.event.event_id)
        shelf.own["copy"] = Hit.of(captured.event, "copy")
        assert (await forgetter.forget(stored.ref, ME)).backends == {"shelf": "still_there"}


class AskedAtOnce:
    """A journal whose deliverer wakes as soon as it has forgotten something, and is the first to ask the store."""

    def __init__(self, journal, deliverer):
        self._journal, self._deliverer = journal, deliverer

    def __getattr__(self, name):
        return getattr(self._journal, name)

    async def forget(self, *asked):
        forgotten = await self._journal.forget(*asked)
        for one in await self._journal.outbox.due_deletions("shelf", START + timedelta(hours=1), 10):
            await self._deliverer.delete("shelf", [one])
        return forgotten


async def test_forget_verifies_by_the_text_also_in_the_background(journal):
    """The journal has no text once it has forgotten: by ids alone a copy under another id would count as absent."""
    shelf = FakeStore()
    (stored,) = await journal.append([event("The code is 4711.", 1)])
    async with forgetting(journal, shelf=shelf) as (_, deliverer):
        captured = shelf.kept.pop(stored.event.event_id)
        shelf.own["copy"] = Hit.of(captured.event, "copy")
        forgetter = Forgetter(AskedAtOnce(journal, deliverer), deliverer)
        assert (await forgetter.forget(stored.ref, ME)).backends == {"shelf": "still_there"}


class SlowToTell:
    """A database that returns the tombstones it has read when a test lets it."""

    def __init__(self, database):
        self._database = database
        self.holding, self.reached, self.go = False, asyncio.Event(), asyncio.Event()

    def __getattr__(self, name):
        return getattr(self._database, name)

    async def read(self, work):
        found = await self._database.read(work)
        if self.holding and isinstance(found, Tombstones):
            self.reached.set()
            await self.go.wait()
        return found


async def test_forget_during_a_reload_of_tombstones_keeps_them(tmp_path):
    """A wish to remember has them read again; what is forgotten meanwhile must not be lost with the older reading."""
    file = tmp_path / "journal.sqlite"
    database = SlowToTell(await Database.open(file, Journal.schema, fix=Journal.fix_for(file)))
    journal = Journal(database)
    await journal.load()
    places = [Place("notes/a.md", line, line, "line") for line in (3, 7)]
    lines = ["- the old code is 1188", "- the code of the door is 4711"]
    old, secret = await journal.append([event(line, place=place) for line, place in zip(lines, places, strict=True)])
    await journal.forget([old.ref], ME)
    database.holding = True
    remembering = asyncio.ensure_future(journal.append([Event("e9", "Tea at four.", START, scope=ME)]))
    await database.reached.wait()
    burying = asyncio.ensure_future(journal.forget([secret.ref], ME))
    await asyncio.wait([burying], timeout=0.2)  # it may have to wait for the reading, and then it is late, not lost
    database.go.set()
    await asyncio.gather(remembering, burying)
    assert hides(journal, "markdown", Hit("a.md#L7", lines[1], Scope(user_id="ana"), place=places[1]))
    await journal.close()


@pytest.mark.feature(
    "… what a user's own file still contains is hidden, not deleted", of="a backend that reports a deletion"
)
async def test_forget_hides_a_text_of_a_users_own_file(journal):
    """The note is deleted, and the user's file has the same words: hidden, not deleted."""
    shelf = FakeStore()
    (stored,) = await journal.append([event("The spare key is under the third flower pot.", 1)])
    async with forgetting(journal, shelf=shelf) as (forgetter, _):
        shelf.own["a.md#L1"] = Hit("a.md#L1", "The spare key is under the third flower pot.", Scope(user_id="ana"))
        receipt = await forgetter.forget(stored.ref, ME)
    assert receipt.backends == {"shelf": "hidden"}
    assert hides(journal, "shelf", Hit("a.md#L9", "The spare key is under the third flower pot.", Scope(user_id="ana")))


@pytest.mark.feature("… what was extracted from it alone must be gone as well", of="a backend that reports a deletion")
async def test_forget_reports_a_fact_without_other_sources_as_still_there(journal):
    """A returned fact derived from it alone is still there; one that another memory also states is hidden."""
    shelf = FakeStore()
    one, two = await journal.append(
        [event("Julien likes pizza a lot.", 1), event("Everybody knows Julien's taste.", 2)]
    )
    fact = Hit("fact:1", "julien likes pizza", derived_from=(one.event.event_id,), scope=Scope(user_id="ana"))
    async with forgetting(journal, shelf=shelf) as (forgetter, _):
        shelf.own["fact:1"] = replace(fact, derived_from=(one.event.event_id, two.event.event_id))
        assert (await forgetter.forget(one.ref, ME)).backends == {"shelf": "deleted"}
        assert (await forgetter.forget(two.ref, ME)).backends == {"shelf": "still_there"}
        del shelf.own["fact:1"]


async def test_forget_reports_a_fact_with_other_sources_as_hidden(journal):
    """Cited and forgotten by itself: no backend can delete what its memories still say, so it is not asked for ever."""
    shelf = FakeStore()
    (stored,) = await journal.append([event("Julien likes pizza a lot.", 1)])
    fact = Hit("fact:1", "julien likes pizza", derived_from=(stored.event.event_id,), scope=Scope(user_id="ana"))

    async def keep_it(event_id, native_ids):
        return "absent"

    async with forgetting(journal, shelf=shelf) as (forgetter, deliverer):
        shelf.own["fact:1"], shelf.forget = fact, keep_it
        ref = await shown(journal, fact)
        assert (await forgetter.forget(ref, ME)).backends == {"shelf": "hidden"}
        assert await deliverer.backlog() == {}
    assert hides(journal, "shelf", fact)


@pytest.mark.feature(
    "… a backend that was down is verified when it is back, with or without a restart",
    of="a backend that reports a deletion",
)
async def test_forget_verifies_a_backend_that_was_down_when_it_is_back(journal):
    """In the same process by its text; after a restart, when the text is unknown, by a second deletion of its ids.

    A backend by the contract finds nothing the second time: one that deletes twice had it still.
    """
    time, shelf = FakeClock(), FakeStore()
    first, second = await journal.append([event("The code is 4711.", 1), event("The code is 4712.", 2)])
    async with forgetting(journal, time, shelf=shelf) as (forgetter, deliverer):
        shelf.fault = BackendUnreachable("refused")
        assert (await forgetter.forget(first.ref, ME)).backends == {"shelf": "pending"}
        await time.asleep(1)
        shelf.fault, shelf.lies = None, True
        time.pass_by(time.slept[-1])
        await time.asleep(2)
        assert (await journal.backlog()) == {"shelf": 1}
        assert shelf.asked[-1].text == "The code is 4711."
        shelf.fault = BackendUnreachable("refused")
        await forgetter.forget(second.ref, ME)
    shelf.fault, shelf.asked = None, []
    async with forgetting(journal, shelf=shelf) as (_, deliverer):
        assert (await journal.backlog()) == {"shelf": 2}
        assert shelf.asked == []
    shelf.lies = False
    late = FakeClock()
    late.pass_by(86_400)
    async with forgetting(journal, late, shelf=shelf) as (_, deliverer):
        assert await deliverer.backlog() == {}
        assert shelf.kept == {}


# By what it says, where it stands, when it was


async def nothing(query, scope):
    return []


async def told(forgetter, recall=nothing, scope=ME, **said):
    criteria = {k: said.pop(k) for k in ("source", "document", "after", "before", "recorded") if k in said}
    return await forgetter.request(ForgetRequest(scope, criteria=Criteria(**criteria), **said), recall)


@pytest.mark.feature("forgetting by source, document and time stays within a scope")
async def test_forget_by_source_document_and_time(journal):
    """Each criterion narrows, all together; times are when it happened or else was recorded, the end left out."""
    day = timedelta(days=1)
    await journal.append(
        [
            event("mailed", source="mail", at=START - 9 * day),
            event("mailed late", source="mail", at=START - 2 * day),
            event("in chat", 1, at=START - 2 * day),
            event("never dated"),
            event("theirs", source="mail", scope=Scope(user_id="ben")),
        ]
    )
    async with forgetting(journal) as (forgetter, _):

        async def found(**said):
            return [one.text for one in (await told(forgetter, dry_run=True, **said)).found]

        assert await found(source="mail") == ["mailed", "mailed late"]
        assert await found(document="chat") == ["in chat"]
        assert await found(source="mail", after=START - 2 * day) == ["mailed late"]
        assert await found(before=START - 2 * day) == ["mailed"]
        assert await found(after=START - 2 * day) == ["mailed late", "in chat", "never dated"]
        assert await found(after=START - 2 * day, recorded=True) == ["mailed", "mailed late", "in chat", "never dated"]
        assert await found(source="mail", scope=Scope(user_id="eve")) == []
        # Looking changed nothing.
        assert (await journal.frequencies(Scope(), [])).documents == 5
        assert await journal.read(audit.page, ME, 9) == []


async def test_a_forget_preview_is_one_short_line_without_secrets(journal):
    """What is shown of a memory before it is forgotten."""
    await journal.append([event("first line\n" + "word " * 100 + "AKIAIOSFODNN7EXAMPLE", 1, source="mail")])
    async with forgetting(journal, shelf=FakeStore()) as (forgetter, _):
        [one] = (await told(forgetter, dry_run=True, source="mail")).found
    assert one.text.startswith("first line word word")
    assert len(one.text) == 160
    assert "AKIA" not in one.text
    assert (one.backends, one.source, one.at) == (("shelf",), "mail", START)


@pytest.mark.feature("… a hundred at a time; the same request continues", of="forgetting by a question skips")
async def test_forget_takes_a_hundred_per_request_and_continues(journal):
    """``more`` says so; a preview is paged by its cursor, for nothing goes away under it."""
    shelf = FakeStore()
    await journal.append([event(f"turn {n}", n, source="mail") for n in range(250)])
    async with forgetting(journal, shelf=shelf) as (forgetter, _):
        pages, cursor = [], None
        while True:
            page = await told(forgetter, dry_run=True, source="mail", cursor=cursor)
            pages.append([one.text for one in page.found])
            cursor = page.next_cursor
            if cursor is None:
                break
        assert [len(page) for page in pages] == [100, 100, 50]
        assert [text for page in pages for text in page] == [f"turn {n}" for n in range(250)]
        replies = [await told(forgetter, source="mail") for _ in range(3)]
    assert [(len(r.receipts), r.more, r.done, r.pending) for r in replies] == [
        (100, True, True, 0),
        (100, True, True, 0),
        (50, False, True, 0),
    ]
    assert [one.text for one in replies[0].found] == [""] * 100
    assert shelf.kept == {}


@pytest.mark.feature(
    "everything from one source is forgotten in batches, each verified by its ids and a sample by a search"
)
async def test_forget_matching_forgets_a_whole_source_in_batches(journal):
    """A store that can is asked for a batch and once more to verify it, and searched for a sample of it; others are
    asked one by one. What came from elsewhere stays."""
    many, single = FakeBatchStore(), FakeStore()
    await journal.append([event(f"turn {n}", n, source="mail") for n in range(550)])
    await journal.append([event("another turn", 1, source="chat")])
    async with forgetting(journal, many=many, single=single) as (forgetter, deliverer):
        many.asked.clear()
        batches = [receipts async for receipts in forgetter.forget_matching(ME, Criteria(source="mail"))]
        assert await deliverer.backlog() == {}
    assert [len(receipts) for receipts in batches] == [500, 50]
    assert all(one.backends == {"many": "deleted", "single": "deleted"} for some in batches for one in some)
    assert many.batches == [500, 500, 50, 50]
    assert len(many.asked) == 10
    assert many.texts == single.texts == ["another turn"]
    assert not await journal.read(listing.matching, ME, Criteria(source="mail"), 1)


@pytest.mark.feature("a backend that lies about one memory of a batch is detected")
async def test_forget_detects_one_of_many_that_is_still_there(journal):
    """The one that it kept stays due and is asked for again; the others are done."""
    time, shelf = FakeClock(), FakeBatchStore()
    stored = await journal.append([event(f"turn {n}", n, source="mail") for n in range(40)])
    liar = stored[7].event.event_id
    async with forgetting(journal, time, shelf=shelf) as (forgetter, deliverer):
        shelf.stays = {liar}
        ((*receipts,),) = [some async for some in forgetter.forget_matching(ME, Criteria(source="mail"))]
        outcomes = {receipt.event_id: receipt.backends["shelf"] for receipt in receipts}
        assert outcomes.pop(liar) == "still_there"
        assert set(outcomes.values()) == {"deleted"}
        assert await deliverer.backlog() == {"shelf": 1}
        await time.asleep(1)
        shelf.stays = set()
        time.pass_by(time.slept[-1])
        await shelf.until([])
        await deliverer.settle()
        assert await deliverer.backlog() == {}


async def test_forget_verifies_a_busy_store_by_ids(journal):
    """A search that times out after the deletion does not leave the whole batch undone."""

    class Busy(FakeBatchStore):
        async def search(self, query):
            raise BackendUnreachable("busy")

    shelf = Busy()
    await journal.append([event(f"turn {n}", n, source="mail") for n in range(10)])
    async with forgetting(journal, shelf=shelf) as (forgetter, deliverer):
        ((*receipts,),) = [some async for some in forgetter.forget_matching(ME, Criteria(source="mail"))]
        assert all(receipt.backends == {"shelf": "deleted"} for receipt in receipts)
        assert await deliverer.backlog() == {}
    assert shelf.batches == [10, 10]


async def test_deletions_due_at_the_start_run_in_batches(journal):
    shelf = FakeBatchStore()
    stored = await journal.append([event(f"turn {n}", n, source="mail") for n in range(30)])
    async with forgetting(journal, shelf=shelf):
        assert len(shelf.kept) == 30
    await journal.forget([one.ref for one in stored], ME)
    async with forgetting(journal, shelf=shelf) as (_, deliverer):
        assert await deliverer.backlog() == {}
    assert shelf.kept == {}
    assert shelf.batches == [30, 30]


async def test_forget_matching_refuses_no_criteria(journal):
    async with forgetting(journal) as (forgetter, _):
        with pytest.raises(BadInput, match="Say what to forget"):
            await anext(forgetter.forget_matching(ME, Criteria()))


async def test_forget_by_query_combines_query_and_criteria(journal):
    """Best match first, at most 20 without a limit; what meets another criterion alone is not included."""
    stored = await journal.append([event(f"turn {n}", n, source="mail" if n % 2 else None) for n in range(50)])

    async def recall(query, scope):
        assert (query, scope) == ("turns", ME)
        return [Preview(one.ref, one.event.text) for one in reversed(stored)]

    async with forgetting(journal) as (forgetter, _):
        reply = await told(forgetter, recall, query="turns", dry_run=True)
        assert ([one.text for one in reply.found[:2]], len(reply.found), reply.more) == (
            ["turn 49", "turn 48"],
            20,
            True,
        )
        reply = await told(forgetter, recall, query="turns", source="mail", limit=3)
    assert [one.ref for one in reply.receipts] == [stored[49].ref, stored[47].ref, stored[45].ref]
    assert [entry.by for _, entry in await journal.read(audit.page, ME, 9)] == ["query+source"] * 3


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({}, "Say what to forget"),
        ({"refs": ("m1",), "source": "mail"}, "refs cannot be combined"),
        ({"query": "x", "cursor": "c1"}, "cursor"),
        ({"source": "mail", "cursor": "7"}, "cursor"),
    ],
)
async def test_forget_refuses_requests_for_everything_and_wrong_combinations(journal, said, why):
    """The error says what to write instead."""
    async with forgetting(journal) as (forgetter, _):
        with pytest.raises(BadInput, match=why):
            await told(forgetter, **said)


async def test_a_repeated_forget_reports_missing_refs(journal):
    """Refs that are not here, maybe because the first run got that far, are no error; nor are those of others."""
    one, two, theirs = await journal.append([event("one", 1), event("two", 2), event("no", scope=Scope(user_id="ben"))])
    async with forgetting(journal, shelf=FakeStore()) as (forgetter, _):
        await forgetter.forget(one.ref, ME)
        reply = await told(forgetter, refs=(one.ref, two.ref, theirs.ref, "m99", two.ref))
    assert [r.ref for r in reply.receipts] == [two.ref]
    assert reply.missing == (one.ref, theirs.ref, "m99")


@pytest.mark.feature("remembering a text on purpose removes every tombstone of it")
async def test_an_explicit_memory_lifts_every_tombstone_of_its_words(journal):
    """Remembered again by its owner, it may be ingested again wherever it stood, and its file is shown again.

    Another owner's wish lifts nothing, and a short text is lifted as well.
    """
    line, place = "- the heron ledger is under the oak", Place("notes/a.md", 5, 5, "line")
    stored = await journal.append([event(line, place=place), event("yes", 1)])
    for one in stored:
        await journal.forget([one.ref], ME)
    hit = Hit("a.md#L5", line, Scope(user_id="ana"), place=place)
    await journal.append([event(line, scope=Scope(user_id="ben"))])
    assert hides(journal, "markdown", hit)
    await journal.append([event(line), event("yes")])
    assert not hides(journal, "markdown", hit)
    again = await journal.append([event(line, place=place), event("yes", 1)])
    assert [one.state for one in again] == ["stored", "stored"]


@pytest.mark.feature("the audit of what was forgotten is append-only and holds refs only")
async def test_the_audit_can_only_grow_and_has_no_text(journal, tmp_path):
    """Who, when, by what kind of criterion, and what became of it where by now: refs only."""
    shelf = FakeStore()
    one, two = await journal.append([event("The code is 4711.", 1), event("a second version", 1)])
    async with forgetting(journal, shelf=shelf) as (forgetter, _):
        await told(forgetter, document="chat")
    [(_, last), (_, first)] = await journal.read(audit.page, ME, 9)
    assert {first.ref, last.ref} == {one.ref, two.ref}
    assert (first.by, dict(first.backends)) == ("document", {"shelf": "deleted"})
    assert await journal.read(audit.page, Scope(user_id="ben"), 9) == []
    assert await journal.read(audit.page, Scope(tenant="acme"), 9) == []
    assert len(await journal.read(audit.page, Scope(), 9)) == 2
    for sql in ("delete from audit", "update audit set ref = 'm0'"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            await journal._database.write(lambda db, sql=sql: db.execute(sql))
    await journal._database.checkpoint()
    for file in tmp_path.iterdir():
        assert b"4711" not in file.read_bytes(), file.name


# Other people's memories

THEIRS = Hit("n7", "The spare key is under the third flower pot.", Scope(user_id="ana"))


async def shown(journal, hit=THEIRS, backend="shelf", ref="xabcdefghij", scope=ME):
    await journal.write(external_refs.store_items, [ExternalItem(ref, backend, hit, scope)], START)
    return ref


async def test_forget_of_an_external_item_deletes_and_hides_it(journal):
    """By its own id, and by its words within its owner should it come back under another one."""
    shelf = FakeStore()
    shelf.own["n7"] = THEIRS
    ref = await shown(journal)
    async with forgetting(journal, shelf=shelf) as (forgetter, _):
        receipt = await forgetter.forget(ref, ME)
        assert (receipt.ref, receipt.backends) == (ref, {"shelf": "deleted"})
        assert shelf.own == {}
        with pytest.raises(NotFound):
            await forgetter.forget(ref, ME)
    assert hides(journal, "shelf", replace(THEIRS, text="changed"))
    assert hides(journal, "other", replace(THEIRS, native_id="n8"))
    assert not hides(journal, "other", replace(THEIRS, native_id="n8", scope=Scope(user_id="ben")))
    assert not hides(journal, "other", replace(THEIRS, text="changed"))
    assert [(entry.ref, dict(entry.backends)) for _, entry in await journal.read(audit.page, ME, 9)] == [
        (ref, {"shelf": "deleted"})
    ]


async def test_forget_of_a_read_only_external_item_hides_it(journal):
    """Read only, or without a way to delete: it is kept out of answers, and the receipt says so."""
    reading = Keeping()
    ref = await shown(journal, backend="reading")
    async with forgetting(journal, reading=reading) as (forgetter, _):
        assert (await forgetter.forget(ref, ME)).backends == {"reading": "hidden"}
    assert hides(journal, "reading", THEIRS)


async def test_forget_of_an_external_item_is_retried_when_its_backend_is_back(journal):
    """Hidden from the first moment, and pending, like a memory of our own."""
    time, shelf = FakeClock(), FakeStore()
    shelf.own["n7"] = THEIRS
    ref = await shown(journal)
    async with forgetting(journal, time, shelf=shelf) as (forgetter, deliverer):
        shelf.fault = BackendUnreachable("refused")
        assert (await forgetter.forget(ref, ME)).backends == {"shelf": "pending"}
        assert hides(journal, "shelf", THEIRS)
        await time.asleep(1)
    shelf.fault = None
    async with forgetting(journal, shelf=shelf) as (_, deliverer):
        assert shelf.own == {}
        assert await deliverer.backlog() == {}


async def test_forget_of_an_external_item_shown_to_another_is_not_found(journal):
    """A ref is valid for scopes that could ask the question it answered: the same user, or the whole tenant."""
    shelf = FakeStore()
    shelf.own["n7"] = THEIRS
    ref = await shown(journal)
    async with forgetting(journal, shelf=shelf) as (forgetter, _):
        for scope in (Scope(user_id="eve", audience="private"), Scope(tenant="acme"), Scope(user_id="ana")):
            with pytest.raises(NotFound):
                await forgetter.forget(ref, scope)
        assert (await forgetter.forget(ref, Scope(audience="private"))).done


async def test_external_items_are_bounded_in_number_and_age(journal):
    """Bounded in number and in age: the journal is no copy of other people's stores."""
    items = [
        ExternalItem(f"x{n:010}", "shelf", replace(THEIRS, native_id=str(n)), ME)
        for n in range(external_refs.KEPT + 10)
    ]
    for first in range(0, len(items), 2000):
        await journal.write(external_refs.store_items, items[first : first + 2000], START + timedelta(seconds=first))
    counted = await journal._database.read(lambda db: db.execute("select count(*) from shown").fetchone()[0])
    assert counted <= external_refs.KEPT
    await journal.write(external_refs.store_items, items[:1], START + timedelta(days=external_refs.KEPT_DAYS + 1))
    counted = await journal._database.read(lambda db: db.execute("select count(*) from shown").fetchone()[0])
    assert counted == 1


# Crashes


class Crash(BaseException):
    """The process ends here."""


class Mortal:
    """Counts the steps of a forgetting, and ends the process before the one that is next to be the ``last``."""

    def __init__(self, last: int) -> None:
        self.left = last

    def step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Crash


class MortalDatabase(Database):
    mortal: Mortal | None = None

    async def write(self, work):
        if self.mortal is not None:
            self.mortal.step()
        return await super().write(work)

    async def checkpoint(self):
        if self.mortal is not None:
            self.mortal.step()
        await super().checkpoint()


class MortalShelf(FakeStore):
    mortal: Mortal | None = None

    async def forget(self, event_id, native_ids):
        if self.mortal is not None:
            self.mortal.step()
        return await super().forget(event_id, native_ids)

    async def search(self, query):
        if self.mortal is not None:
            self.mortal.step()
        return await super().search(query)


@pytest.mark.feature("forgetting that crashed at any step is finished by the next run")
async def test_forget_after_a_crash_at_any_step_is_finished_by_a_repeat(tmp_path):
    """The process ends before the k-th write, checkpoint, deletion or question, for every k: the same request again
    leaves nothing anywhere, one line in the audit for each memory, and nothing to do."""
    steps = 0
    for k in range(100):
        file = tmp_path / str(k) / "journal.sqlite"
        one, two = MortalShelf(), MortalShelf()
        database = await MortalDatabase.open(file, Journal.schema)
        journal = Journal(database)
        await journal.append([event(f"The code of door {n} is 47{n}.", n, source="mail") for n in range(3)])
        crashed = False
        async with forgetting(journal, one=one, two=two) as (forgetter, _):
            database.mortal = one.mortal = two.mortal = Mortal(k)
            try:
                await told(forgetter, source="mail")
            except Crash:
                crashed = True
            database.mortal = one.mortal = two.mortal = None
        await journal.close()
        journal = await Journal.open(file)
        async with forgetting(journal, one=one, two=two) as (forgetter, deliverer):
            await told(forgetter, source="mail")
            await deliverer.settle()
            assert await deliverer.backlog() == {}
        assert (one.kept, two.kept) == ({}, {})
        assert len(await journal.read(audit.page, ME, 99)) == 3
        await journal._database.checkpoint()
        await journal.close()
        assert b"code of door" not in file.read_bytes()
        if not crashed:
            steps = k
            break
    assert steps > 10


async def test_forget_purges_caches_even_after_a_crash(tmp_path):
    """After it the text is unknown, so the caches are purged before the deletion, and once more at the end."""
    purged: list[str] = []

    async def purge(texts):
        purged.extend(texts)

    database = await MortalDatabase.open(tmp_path / "journal.sqlite", Journal.schema)
    journal = Journal(database)
    (stored,) = await journal.append([event("The code is 4711.", 1)])
    async with forgetting(journal, purge=purge) as (forgetter, _):
        database.mortal = Mortal(1)
        with pytest.raises(Crash):
            await forgetter.forget(stored.ref, ME)
        database.mortal = None
        assert purged == ["The code is 4711."] * 2
        assert (await journal.records([stored.event.event_id]))[stored.event.event_id].forgotten
    await journal.close()


TEXTS = ["The key is under the third flower pot.", "yes", "We moved the office to Lund in May.", "no, not yet"]


@pytest.mark.row("A165", "a tombstone keeps a forgotten memory away, whatever work is in flight")
class NeverAgain(RuleBasedStateMachine):
    """Remember, forget, deliver, fail, restart and ingest again, in any order: what was forgotten stays away.

    The model knows which (position, text) were forgotten, and which events.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.shelf = FakeStore()
        self.sent: list[NewMemory] = []
        self.live: set[str] = set()
        self.gone: set[str] = set()
        self.tombstones: set[tuple[int, str]] = set()
        self.open()

    def open(self) -> None:
        async def begin() -> None:
            self.journal = await Journal.open(Path(self.folder.name) / "journal.sqlite")
            time = FakeClock()
            self.deliverer = Deliverer(self.journal, {"shelf": self.shelf}, clock=time.now, sleep=time.sleep)
            self.intake = Intake(self.journal, self.deliverer)
            self.forgetter = Forgetter(self.journal, self.deliverer)
            await self.deliverer.start()

        self.runner.run(begin())

    def close(self) -> None:
        async def end() -> None:
            await self.deliverer.close()
            await self.journal.close()

        self.runner.run(end())

    def send(self, item: NewMemory) -> None:
        (answer,) = self.runner.run(self.intake.remember([item]))
        if item.place is not None and (item.place.start, item.text) in self.tombstones:
            assert answer.status in ("blocked", "duplicate")
        if answer.status in ("stored", "superseded"):
            assert answer.event_id not in self.gone
            self.live.add(answer.event_id)

    @rule(text=st.sampled_from(TEXTS), position=st.integers(0, 2))
    def ingest(self, text: str, position: int) -> None:
        item = NewMemory(text, Scope(user_id="ana"), place=Place("chat", position, position))
        self.sent.append(item)
        self.send(item)

    @rule(text=st.sampled_from(TEXTS))
    def remember(self, text: str) -> None:
        """An explicit wish: the same may be ingested again, wherever it was said."""
        self.send(NewMemory(text, Scope(user_id="ana")))
        self.tombstones = {(place, said) for place, said in self.tombstones if said != text}

    @rule()
    def ingest_everything_again(self) -> None:
        for item in self.sent:
            self.send(item)

    @precondition(lambda self: self.live)
    @rule(which=st.integers(0, 100))
    def forget(self, which: int) -> None:
        event_id = sorted(self.live)[which % len(self.live)]
        before = self.runner.run(self.journal.records(sorted(self.live)))
        self.runner.run(self.forgetter.forget(event_id, ME))
        for i, record in self.runner.run(self.journal.records(sorted(self.live))).items():
            if record.forgotten:
                self.live.discard(i)
                self.gone.add(i)
                if (place := before[i].event.place) is not None:
                    self.tombstones.add((place.start, before[i].event.text))
        assert event_id in self.gone

    @rule()
    def go_down(self) -> None:
        self.shelf.fault = BackendUnreachable("down")

    @rule()
    def crash_and_come_back(self) -> None:
        self.close()
        self.shelf.fault = None
        self.open()
        self.runner.run(self.deliverer.settle())
        assert not self.gone & self.shelf.kept.keys()
        assert self.live == self.shelf.kept.keys()

    @invariant()
    def what_is_gone_is_known_as_gone(self) -> None:
        records = self.runner.run(self.journal.records(sorted(self.gone)))
        assert len(records) == len(self.gone)
        assert all(r.forgotten and not r.event.text for r in records.values())

    def teardown(self) -> None:
        self.crash_and_come_back()
        self.close()
        self.runner.close()
        self.folder.cleanup()


NeverAgain.TestCase.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
test_what_was_forgotten_never_comes_back = NeverAgain.TestCase
