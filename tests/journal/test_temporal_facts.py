"""The table of temporal facts: what it holds follows from the events, whichever way they came about."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusion.contract import Event, Scope
from fusion.errors import NotFound
from fusion.journal import Journal, temporal_facts
from fusion.lib.fact_timeline import view
from fusion.lib.temporal_facts import Assertion, Ending, FactObject, fact_id, written
from tests.journal.helpers import append

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ANA, BEN = Scope(user_id="ana"), Scope(user_id="ben")


def memory(event_id: str, text: str, scope: Scope = ANA, **more: object) -> Event:
    return Event(event_id, text, NOW, scope, "fact", **more)


def asserts(event_id: str, value: str, sources: tuple[str, ...], scope: Scope = ANA, day: int = 0) -> Event:
    what = Assertion("shop", "status", FactObject("literal", value), NOW + timedelta(days=day), sources=sources)
    return memory(event_id, f"{what.sentence} ({event_id}).", scope, stated=(written(what),))


def ends(event_id: str, fact: str) -> Event:
    return memory(event_id, f"It ended ({event_id}).", stated=(written(Ending(fact, "shop", "invalidated", NOW)),))


async def table(journal: Journal) -> list[tuple[object, ...]]:
    return await journal.read(temporal_facts.rows)


async def test_assertions_come_from_stated_fields_and_from_lines(journal: Journal) -> None:
    await append(journal, memory("s", "the shop is live"), asserts("a", "live", ("s",)))
    await append(journal, memory("n", "Notes\nfact: shop uses Redis\nfact: desk owns a lamp"))
    found = await journal.read(temporal_facts.asserted, ANA, ["entity:shop"])
    assert [(one.ref, one.sources[0].ref, one.is_line) for one in found] == [
        ("m2", "obs:m1", False),
        ("m3", "obs:m3", True),
    ]
    assert await journal.read(temporal_facts.subjects, ANA, 10) == ["entity:desk", "entity:shop"]


async def test_another_user_sees_no_fact(journal: Journal) -> None:
    await append(journal, memory("n", "fact: shop uses Redis"))
    assert await journal.read(temporal_facts.asserted, BEN) == []
    assert await journal.read(temporal_facts.subjects, BEN, 10) == []
    with pytest.raises(NotFound, match="no fact"):
        await journal.read(temporal_facts.subject_of, fact_id("n", 0), BEN)


async def test_a_group_sees_no_private_fact(journal: Journal) -> None:
    await append(journal, memory("n", "fact: shop uses Redis", Scope(user_id="ana", audience="private")))
    assert await journal.read(temporal_facts.asserted, ANA) == []
    assert len(await journal.read(temporal_facts.asserted, Scope(user_id="ana", audience="private"))) == 1


@pytest.mark.feature(
    "forgetting a memory forgets the facts that it asserts, and says of others that they lost a source"
)
async def test_forgetting_reaches_facts(journal: Journal) -> None:
    await append(journal, memory("s", "the shop is live"), asserts("a", "live", ("s",)))
    await journal.forget(["m1"], ANA)
    (one,) = await journal.read(temporal_facts.asserted, ANA)
    assert (one.sources[0].ref, one.sources[0].status) == ("obs:m1", "forgotten")
    await journal.forget(["m2"], ANA)
    assert await table(journal) == []


async def test_a_quarantined_memory_asserts_nothing(journal: Journal) -> None:
    await append(journal, memory("n", "fact: shop uses Redis"))
    made = await journal.decide({"n": {"trust": "quarantined"}}, "ana", "doubtful")
    assert await journal.read(temporal_facts.asserted, ANA) == []
    assert made is not None
    await journal.undo_decision(made.name, ANA, "ana")
    assert len(await journal.read(temporal_facts.asserted, ANA)) == 1


@pytest.mark.row(
    "A143", "a deleted fact view is rebuilt to the same rows; a fact whose sources are missing is no truth"
)
async def test_a_fact_view_rebuilt_with_missing_sources(journal: Journal) -> None:
    await append(journal, memory("s", "the shop is live"), asserts("a", "live", ("s", "never stored")))
    await append(journal, asserts("b", "closed", ("never stored",), day=1))
    await journal.forget(["m1"], ANA)
    before = view(await journal.read(temporal_facts.asserted, ANA), NOW)
    await journal.write(lambda db: db.execute("delete from fact_assertion"))
    assert await journal.write(temporal_facts.rebuild) == (0, 2)
    after = view(await journal.read(temporal_facts.asserted, ANA), NOW)
    assert after == before
    assert [(fact.status, fact.authoritative) for fact in after] == [("superseded", False), ("stale", False)]
    assert after[1].reasons == ("its source never stored is missing",)


async def test_a_tool_does_not_speak_for_its_reader(journal: Journal) -> None:
    await append(journal, memory("n", "fact: shop status closed", origin="tool"))
    (fact,) = view(await journal.read(temporal_facts.asserted, ANA), NOW)
    assert (fact.status, fact.tier, fact.authoritative, fact.assertion.by) == ("stale", "low", False, "tool")


_STEPS = st.lists(
    st.tuples(st.sampled_from(["line", "assert", "end", "forget", "quarantine", "undo", "update"]), st.integers(0, 7)),
    max_size=12,
)


@settings(max_examples=25, deadline=None)
@given(_STEPS)
def test_a_rebuilt_table_equals_one_that_grew(steps: list[tuple[str, int]]) -> None:
    grown, rebuilt = asyncio.run(_grown_and_rebuilt(steps))
    assert rebuilt == grown


async def _grown_and_rebuilt(steps: list[tuple[str, int]]) -> tuple[object, object]:
    """The rows and the view of the facts after these steps, and after the table was made anew."""

    async def kept() -> object:
        return await table(journal), view(await journal.read(temporal_facts.asserted, Scope()), NOW)

    with TemporaryDirectory() as folder:
        journal = await Journal.open(Path(folder) / "journal.sqlite")
        try:
            made: list[str] = []
            for number, (step, which) in enumerate(steps):
                await _take(journal, step, f"e{number}", which, made)
            grown = await kept()
            await journal.write(temporal_facts.rebuild)
            return grown, await kept()
        finally:
            await journal.close()


async def _take(journal: Journal, step: str, event_id: str, which: int, made: list[str]) -> None:
    """Take one step; ``made`` are the ids of the events so far, ``which`` chooses among them."""
    chosen = made[which % len(made)] if made else "none"
    if step == "line":
        await append(journal, memory(event_id, f"fact: shop uses tool {event_id}\nfact: desk status {which}"))
    elif step == "assert":
        await append(journal, asserts(event_id, str(which), (chosen,), day=which))
    elif step == "end":
        await append(journal, ends(event_id, fact_id(chosen, 0)))
    elif made and step == "update":
        known = (await journal.records([chosen]))[chosen]
        if known.superseded_by is None and not known.forgotten:
            await append(journal, memory(event_id, f"fact: shop uses {event_id} now", supersedes=chosen))
    elif made and step == "forget":
        known = (await journal.records([chosen]))[chosen]
        if not known.forgotten:
            await journal.forget([known.ref], ANA)
    elif made and step == "quarantine":
        await journal.decide({chosen: {"trust": "quarantined"}}, "ana", "doubtful")
    elif step == "undo":
        for decision in await journal.read(_last_decision):
            await journal.undo_decision(decision, ANA, "ana")
    if step in ("line", "assert", "end"):
        made.append(event_id)


def _last_decision(db) -> list[str]:
    rows = db.execute("select id from decision where undone_by is null and undoes is null order by id desc limit 1")
    return [f"d{row['id']}" for row in rows]
