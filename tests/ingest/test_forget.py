"""Forgetting one memory: its receipt, every backend, and the audit."""

from __future__ import annotations

import asyncio

import pytest

from fusion.contract import Scope
from fusion.errors import BackendUnreachable, NotFound
from fusion.lib.passages import spoken_passages
from tests.ingest.helpers import (
    ME,
    FakeClock,
    FakeStore,
    KeepingStore,
    event,
    forgetting,
)


@pytest.mark.row("A162", "forgetting reaches every backend, and its receipt says what happened in each")
async def test_a_forget_receipt_has_the_outcome_of_each_backend(journal):
    """Deleted; absent, if another program deleted it; hidden, if it cannot be deleted; nothing if it was declined."""
    (stored,) = await journal.append([event("The code is 4711.", 1)])
    stores = {
        "has": FakeStore(),
        "lost": FakeStore(),
        "keeps": KeepingStore(),
        "declined": FakeStore(declines=["note"]),
    }
    async with forgetting(journal, **stores) as (forgetter, _):
        stores["lost"].kept.clear()
        receipt = await forgetter.forget(stored.ref, ME)
    assert receipt.ref == stored.ref
    assert receipt.event_id == stored.event.event_id
    assert receipt.backends == {"has": "deleted", "lost": "absent", "keeps": "hidden"}
    assert receipt.done
    assert not stores["declined"].asked_to_forget


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


async def test_forget_purges_the_passages_of_a_long_memory(journal):
    text = "\n\n".join(f"Paragraph {n}: " + "of many words " * 30 for n in range(4))
    [stored] = await journal.append([event(text, speaker="Ana")])
    purged = []

    async def purge(texts):
        purged.extend(texts)

    async with forgetting(journal, purge=purge, store=FakeStore()) as (forgetter, _):
        await forgetter.forget(stored.ref, ME)
    assert {text, f"Ana: {text}", *spoken_passages(text, "Ana")} == set(purged)


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
    store = FakeStore()
    (stored,) = await journal.append([event("gone", 1)])
    async with forgetting(journal, store=store):
        pass
    await journal.forget([stored.ref], ME)
    assert store.texts == ["gone"]
    async with forgetting(journal, store=store):
        assert store.texts == []


async def test_a_backend_that_is_not_configured_now_stays_pending(journal):
    """It had the memory; when it is configured again, the deletion runs."""
    store = FakeStore()
    (stored,) = await journal.append([event("gone", 1)])
    async with forgetting(journal, store=store):
        pass
    async with forgetting(journal) as (forgetter, _):
        assert (await forgetter.forget(stored.ref, ME)).backends == {"store": "pending"}
    async with forgetting(journal, store=store):
        assert store.texts == []


async def test_forget_waits_for_a_running_delivery(journal):
    """A backend that is storing it does not report "absent" a moment before it is there: the deletion waits."""
    store = FakeStore()
    async with forgetting(journal, store=store) as (forgetter, deliverer):
        store.gate = asyncio.Event()
        (stored,) = await journal.append([event("in flight", 1)])
        deliverer.wake()
        await store.reached.wait()
        asked = asyncio.create_task(forgetter.forget(stored.ref, ME))
        store.gate.set()
        assert (await asked).backends == {"store": "deleted"}
        await deliverer.settle()
        assert store.kept == {}
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
