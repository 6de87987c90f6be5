"""Forgetting a memory forgets its duplicates."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fusion.contract import Hit, Place, Scope
from tests.ingest.helpers import (
    ME,
    THEIRS,
    FakeStore,
    event,
    forgetting,
    request,
    store_external,
)
from tests.journal.helpers import hides

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
    store, purged = FakeStore(), []

    async def purge(texts):
        purged.extend(texts)

    async with forgetting(journal, purge=purge, store=store) as (forgetter, _):
        receipt = await forgetter.forget(named.ref, ME)
        assert receipt.also == receipt.same == tuple(one.ref for one in same)
        assert receipt.backends == {"store": "deleted"}
        assert set(store.kept) == {one.event.event_id for one in (like, bens)}
        assert {one.event.text for one in same} <= set(purged)
    assert hides(journal, "markdown", Hit("wifi.md#3", HINT, Scope(user_id="ana"), place=line))


async def test_duplicates_compare_the_speaker_as_shown(journal):
    """`Ana: …` as it was typed, and the same with Ana as its speaker."""
    typed, labelled = await journal.append(
        [event("Ana: the key is under the pot"), event("the key is under the pot", 1, speaker="Ana")]
    )
    async with forgetting(journal) as (forgetter, _):
        assert (await forgetter.forget(labelled.ref, ME)).same == (typed.ref,)


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
        looked = (await request(forgetter, refs=(one.ref, three.ref, other.ref), dry_run=True)).found
        assert [(found.ref, found.same_as) for found in looked] == [
            (one.ref, None),
            (three.ref, None),
            (other.ref, None),
            (two.ref, one.ref),
        ]
        reply = await request(forgetter, refs=(one.ref,))
    assert [(found.ref, found.text) for found in reply.found] == [(one.ref, ""), (two.ref, ""), (three.ref, "")]
    assert [receipt.same for receipt in reply.receipts] == [(two.ref, three.ref)]


async def test_forget_of_an_external_item_deletes_own_duplicates(journal):
    """An external item and the journal's memory in the same words are one memory to a reader."""
    (ours,) = await journal.append([event(THEIRS.text)])
    store = FakeStore()
    store.own["n7"] = THEIRS
    ref = await store_external(journal)
    async with forgetting(journal, store=store) as (forgetter, _):
        [_, copy] = (await request(forgetter, refs=(ref,), dry_run=True)).found
        assert (copy.ref, copy.same_as) == (ours.ref, ref)
        assert (await forgetter.forget(ref, ME)).same == (ours.ref,)
        assert store.kept == {}
