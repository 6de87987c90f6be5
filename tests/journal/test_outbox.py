"""The outbox: what is due in which backend."""

from __future__ import annotations

from tests.ingest.helpers import ME, START, event
from tests.journal.helpers import append


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
