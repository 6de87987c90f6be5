"""Pages of memories."""

from __future__ import annotations

import pytest

from fusion.contract import Scope
from fusion.lib.ids import parse_short_ref
from tests.ingest.helpers import ME, event
from tests.journal.helpers import append


async def walked(journal, scope, limit, *, between=None, **options) -> list[str]:
    """The texts of all pages, one after the other; ``between`` is awaited after each."""
    texts, before = [], None
    while True:
        page = await journal.page(scope, limit, before=before, **options)
        assert len(page.records) <= limit
        texts += [record.event.text for record in page.records]
        if page.next is None:
            return texts
        before = page.next
        if between is not None:
            await between()


@pytest.mark.feature("pages are newest first and stable under inserts")
async def test_pages_are_newest_first_and_stable_under_inserts(journal):
    """Memories added between two pages come before the first one: no page repeats or misses one."""
    await append(journal, *(event(f"note {n}") for n in range(7)))

    async def one_more() -> None:
        await append(journal, event("late"))

    for limit in (1, 2, 3, 7, 100):
        texts = await walked(journal, ME, limit, between=one_more)
        assert [t for t in texts if t != "late"] == [f"note {n}" for n in reversed(range(7))]


async def test_a_page_has_the_current_memories_of_its_scope(journal):
    """Neither forgotten nor superseded, nor another's; by document and by source where they are named."""
    old, gone, *_ = await append(
        journal,
        event("old", 1),
        event("gone"),
        event("theirs", scope=Scope(user_id="bo")),
        event("acme's", scope=Scope(tenant="acme", user_id="ana")),
        event("mine alone", scope=ME),
        event("mailed", source="mail"),
    )
    await append(journal, event("new", 1))
    await journal.forget([gone.ref], ME)
    assert (await journal.page(ME, 1, before=parse_short_ref(old.ref))).records == ()
    assert await walked(journal, ME, 2) == ["new", "mailed", "mine alone"]
    assert await walked(journal, Scope(user_id="ana"), 2) == ["new", "mailed"]
    assert await walked(journal, Scope(), 100) == ["new", "mailed", "theirs"]
    assert await walked(journal, ME, 100, document="chat") == ["new"]
    assert await walked(journal, ME, 100, source="mail") == ["mailed"]
    assert await walked(journal, Scope(tenant="acme"), 100) == ["acme's"]


async def test_a_page_does_not_read_rows_of_other_users(file_journal):
    """A user with a few memories among many is answered from an index, in order, without sorting."""
    for where in ("tenant = 'a'", "tenant = 'a' and user_id = 'u'", "tenant = 'a' and source = 's'"):
        plan = await file_journal._database.read(
            lambda db, where=where: db.execute(
                f"explain query plan select * from event where {where} and seq < 9 order by seq desc limit 3"
            ).fetchall()
        )
        index = where.rpartition(" and ")[2].split("_id")[0].split(" ")[0]
        assert [row["detail"].partition(" (")[0] for row in plan] == [f"SEARCH event USING INDEX event_{index}"]
