"""Forgetting items that other programs stored in a backend."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from fusion.contract import Scope
from fusion.errors import BackendUnreachable, NotFound
from fusion.journal import audit, external_refs
from fusion.journal.external_refs import ExternalItem
from tests.ingest.helpers import (
    ME,
    START,
    THEIRS,
    FakeClock,
    FakeStore,
    KeepingStore,
    forgetting,
    store_external,
)
from tests.journal.helpers import hides


async def test_forget_of_an_external_item_deletes_and_hides_it(journal):
    """By its own id, and by its words within its owner should it come back under another one."""
    store = FakeStore()
    store.own["n7"] = THEIRS
    ref = await store_external(journal)
    async with forgetting(journal, store=store) as (forgetter, _):
        receipt = await forgetter.forget(ref, ME)
        assert (receipt.ref, receipt.backends) == (ref, {"store": "deleted"})
        assert store.own == {}
        with pytest.raises(NotFound):
            await forgetter.forget(ref, ME)
    assert hides(journal, "store", replace(THEIRS, text="changed"))
    assert hides(journal, "other", replace(THEIRS, native_id="n8"))
    assert not hides(journal, "other", replace(THEIRS, native_id="n8", scope=Scope(user_id="ben")))
    assert not hides(journal, "other", replace(THEIRS, text="changed"))
    assert [(entry.ref, dict(entry.backends)) for _, entry in await journal.read(audit.page, ME, 9)] == [
        (ref, {"store": "deleted"})
    ]


async def test_forget_of_a_read_only_external_item_hides_it(journal):
    """Read only, or without a way to delete: it is kept out of answers, and the receipt says so."""
    reading = KeepingStore()
    ref = await store_external(journal, backend="reading")
    async with forgetting(journal, reading=reading) as (forgetter, _):
        assert (await forgetter.forget(ref, ME)).backends == {"reading": "hidden"}
    assert hides(journal, "reading", THEIRS)


async def test_forget_of_an_external_item_is_retried_when_its_backend_is_back(journal):
    """Hidden from the first moment, and pending, like a memory of our own."""
    time, store = FakeClock(), FakeStore()
    store.own["n7"] = THEIRS
    ref = await store_external(journal)
    async with forgetting(journal, time, store=store) as (forgetter, deliverer):
        store.fault = BackendUnreachable("refused")
        assert (await forgetter.forget(ref, ME)).backends == {"store": "pending"}
        assert hides(journal, "store", THEIRS)
        await time.asleep(1)
    store.fault = None
    async with forgetting(journal, store=store) as (_, deliverer):
        assert store.own == {}
        assert await deliverer.backlog() == {}


async def test_forget_of_an_external_item_shown_to_another_is_not_found(journal):
    """A ref is valid for scopes that could ask the question it answered: the same user, or the whole tenant."""
    store = FakeStore()
    store.own["n7"] = THEIRS
    ref = await store_external(journal)
    async with forgetting(journal, store=store) as (forgetter, _):
        for scope in (Scope(user_id="eve", audience="private"), Scope(tenant="acme"), Scope(user_id="ana")):
            with pytest.raises(NotFound):
                await forgetter.forget(ref, scope)
        assert (await forgetter.forget(ref, Scope(audience="private"))).done


async def test_external_items_are_bounded_in_number_and_age(journal):
    """Bounded in number and in age: the journal is no copy of other people's stores."""
    items = [
        ExternalItem(f"x{n:010}", "store", replace(THEIRS, native_id=str(n)), ME)
        for n in range(external_refs.KEPT + 10)
    ]
    for first in range(0, len(items), 2000):
        await journal.write(external_refs.store_items, items[first : first + 2000], START + timedelta(seconds=first))
    counted = await journal._database.read(lambda db: db.execute("select count(*) from shown").fetchone()[0])
    assert counted <= external_refs.KEPT
    await journal.write(external_refs.store_items, items[:1], START + timedelta(days=external_refs.KEPT_DAYS + 1))
    counted = await journal._database.read(lambda db: db.execute("select count(*) from shown").fetchone()[0])
    assert counted == 1
