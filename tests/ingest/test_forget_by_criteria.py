"""Forgetting by refs, query, source, document and time: previews, pages, batches and the audit."""

from __future__ import annotations

import sqlite3
from datetime import timedelta

import pytest

from fusion.contract import Hit, Place, Scope
from fusion.errors import BackendUnreachable, BadInput
from fusion.ingest.forget import Preview
from fusion.journal import audit, listing
from fusion.journal.listing import Criteria
from tests.ingest.helpers import (
    ME,
    START,
    FakeBatchStore,
    FakeClock,
    FakeStore,
    event,
    forgetting,
    request,
)
from tests.journal.helpers import hides


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

        async def found(**fields):
            return [one.text for one in (await request(forgetter, dry_run=True, **fields)).found]

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
    async with forgetting(journal, store=FakeStore()) as (forgetter, _):
        [one] = (await request(forgetter, dry_run=True, source="mail")).found
    assert one.text.startswith("first line word word")
    assert len(one.text) == 160
    assert "AKIA" not in one.text
    assert (one.backends, one.source, one.at) == (("store",), "mail", START)


@pytest.mark.feature("… 500 at a time; the same request continues", of="forgetting by a question skips")
async def test_forget_takes_500_per_request_and_continues(journal):
    """``more`` says so; a preview is paged by its cursor, for nothing goes away under it."""
    store = FakeStore()
    await journal.append([event(f"turn {n}", n, source="mail") for n in range(1250)])
    async with forgetting(journal, store=store) as (forgetter, _):
        pages, cursor = [], None
        while True:
            page = await request(forgetter, dry_run=True, source="mail", cursor=cursor)
            pages.append([one.text for one in page.found])
            cursor = page.next_cursor
            if cursor is None:
                break
        assert [len(page) for page in pages] == [500, 500, 250]
        assert [text for page in pages for text in page] == [f"turn {n}" for n in range(1250)]
        replies = [await request(forgetter, source="mail") for _ in range(3)]
    assert [(len(r.receipts), r.more, r.done, r.pending) for r in replies] == [
        (500, True, True, 0),
        (500, True, True, 0),
        (250, False, True, 0),
    ]
    assert [one.text for one in replies[0].found] == [""] * 500
    assert store.kept == {}


@pytest.mark.feature(
    "everything from one source is forgotten in batches, each verified by its ids and a sample by a search"
)
async def test_forget_by_source_takes_a_whole_source_in_batches(journal):
    """A store that can is asked for a batch and once more to verify it, and searched for a sample of it; others are
    asked one by one. What came from elsewhere stays."""
    many, single = FakeBatchStore(), FakeStore()
    await journal.append([event(f"turn {n}", n, source="mail") for n in range(550)])
    await journal.append([event("another turn", 1, source="chat")])
    async with forgetting(journal, many=many, single=single) as (forgetter, deliverer):
        many.asked.clear()
        batches = [(await request(forgetter, source="mail")).receipts for _ in range(2)]
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
    time, store = FakeClock(), FakeBatchStore()
    stored = await journal.append([event(f"turn {n}", n, source="mail") for n in range(40)])
    liar = stored[7].event.event_id
    async with forgetting(journal, time, store=store) as (forgetter, deliverer):
        store.stays = {liar}
        receipts = (await request(forgetter, source="mail")).receipts
        outcomes = {receipt.event_id: receipt.backends["store"] for receipt in receipts}
        assert outcomes.pop(liar) == "still_there"
        assert set(outcomes.values()) == {"deleted"}
        assert await deliverer.backlog() == {"store": 1}
        await time.asleep(1)
        store.stays = set()
        time.pass_by(time.slept[-1])
        await store.until([])
        await deliverer.settle()
        assert await deliverer.backlog() == {}


async def test_forget_verifies_a_busy_store_by_ids(journal):
    """A search that times out after the deletion does not leave the whole batch undone."""

    class Busy(FakeBatchStore):
        async def search(self, query):
            raise BackendUnreachable("busy")

    store = Busy()
    await journal.append([event(f"turn {n}", n, source="mail") for n in range(10)])
    async with forgetting(journal, store=store) as (forgetter, deliverer):
        receipts = (await request(forgetter, source="mail")).receipts
        assert all(receipt.backends == {"store": "deleted"} for receipt in receipts)
        assert await deliverer.backlog() == {}
    assert store.batches == [10, 10]


async def test_deletions_due_at_the_start_run_in_batches(journal):
    store = FakeBatchStore()
    stored = await journal.append([event(f"turn {n}", n, source="mail") for n in range(30)])
    async with forgetting(journal, store=store):
        assert len(store.kept) == 30
    await journal.forget([one.ref for one in stored], ME)
    async with forgetting(journal, store=store) as (_, deliverer):
        assert await deliverer.backlog() == {}
    assert store.kept == {}
    assert store.batches == [30, 30]


async def test_forget_by_query_combines_query_and_criteria(journal):
    """Best match first, at most 20 without a limit; what meets another criterion alone is not included."""
    stored = await journal.append([event(f"turn {n}", n, source="mail" if n % 2 else None) for n in range(50)])

    async def recall(query, scope):
        assert (query, scope) == ("turns", ME)
        return [Preview(one.ref, one.event.text) for one in reversed(stored)]

    async with forgetting(journal) as (forgetter, _):
        reply = await request(forgetter, recall, query="turns", dry_run=True)
        assert ([one.text for one in reply.found[:2]], len(reply.found), reply.more) == (
            ["turn 49", "turn 48"],
            20,
            True,
        )
        reply = await request(forgetter, recall, query="turns", source="mail", limit=3)
    assert [one.ref for one in reply.receipts] == [stored[49].ref, stored[47].ref, stored[45].ref]
    assert [entry.by for _, entry in await journal.read(audit.page, ME, 9)] == ["query+source"] * 3


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "Say what to forget"),
        ({"refs": ("m1",), "source": "mail"}, "refs cannot be combined"),
        ({"query": "x", "cursor": "c1"}, "cursor"),
        ({"source": "mail", "cursor": "7"}, "cursor"),
    ],
)
async def test_forget_refuses_requests_for_everything_and_wrong_combinations(journal, fields, why):
    """The error says what to write instead."""
    async with forgetting(journal) as (forgetter, _):
        with pytest.raises(BadInput, match=why):
            await request(forgetter, **fields)


async def test_a_repeated_forget_reports_missing_refs(journal):
    """Refs that are not here, maybe because the first run got that far, are no error; nor are those of others."""
    one, two, theirs = await journal.append([event("one", 1), event("two", 2), event("no", scope=Scope(user_id="ben"))])
    async with forgetting(journal, store=FakeStore()) as (forgetter, _):
        await forgetter.forget(one.ref, ME)
        reply = await request(forgetter, refs=(one.ref, two.ref, theirs.ref, "m99", two.ref))
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
    store = FakeStore()
    one, two = await journal.append([event("The code is 4711.", 1), event("a second version", 1)])
    async with forgetting(journal, store=store) as (forgetter, _):
        await request(forgetter, document="chat")
    [(_, last), (_, first)] = await journal.read(audit.page, ME, 9)
    assert {first.ref, last.ref} == {one.ref, two.ref}
    assert (first.by, dict(first.backends)) == ("document", {"store": "deleted"})
    assert await journal.read(audit.page, Scope(user_id="ben"), 9) == []
    assert await journal.read(audit.page, Scope(tenant="acme"), 9) == []
    assert len(await journal.read(audit.page, Scope(), 9)) == 2
    for sql in ("delete from audit", "update audit set ref = 'm0'"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            await journal._database.write(lambda db, sql=sql: db.execute(sql))
    await journal._database.checkpoint()
    for file in tmp_path.iterdir():
        assert b"4711" not in file.read_bytes(), file.name
