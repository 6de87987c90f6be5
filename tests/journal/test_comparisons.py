"""The stored comparisons: the last of each tenant, newest first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from fusion.journal import Journal, comparisons

NOW = datetime(2026, 3, 14, 9, 30, tzinfo=UTC)


async def test_last_comparisons_of_a_tenant_are_kept(journal: Journal) -> None:
    await journal.write(comparisons.add, "acme", {"n": -1}, "eva", NOW)
    for n in range(comparisons.KEPT + 3):
        await journal.write(comparisons.add, "default", {"n": n}, "owner", NOW + timedelta(minutes=n))
    kept = await journal.read(comparisons.page, "default", 1000, None)
    assert [one.body["n"] for one in kept] == list(range(comparisons.KEPT + 2, 2, -1))
    assert kept[0].at - kept[1].at == timedelta(minutes=1)
    older = await journal.read(comparisons.page, "default", 2, kept[4].id)
    assert [one.id for one in older] == [kept[5].id, kept[6].id]
    assert [one.who for one in await journal.read(comparisons.page, "acme", 10, None)] == ["eva"]
