"""Why a memory is as it is: the answers with it, the decisions on it, and what is left of it once it is forgotten."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from adapters.inmemory import InMemory
from fusion.contract import Event, Fact, Hit, Query
from fusion.errors import NotFound
from fusion.gateway.decisions import StateRequest
from fusion.gateway.gateway import Gateway
from fusion.gateway.packing import PackRequest
from fusion.gateway.progressive import IndexRequest
from fusion.ingest.update import Change
from fusion.journal import inclusions
from tests.gateway.helpers import ASKED, DECIDED, NADIA, OMAR, remember, small


class Graph(InMemory):
    """A graph whose edge says that the status of the bookings database has changed since."""

    async def search(self, query: Query) -> Sequence[Hit]:
        fact = Fact("bookings database", "status", "retired")
        return [Hit("edge/1", "the bookings database is retired", query.scope, valid_from=query.now, fact=fact)]

    def accepts(self, event: Event) -> bool:
        return False


@pytest.fixture
async def gateway(home: Path) -> AsyncIterator[Gateway]:
    async with Gateway.open(small(home)) as opened:
        yield opened


@pytest.mark.row(
    "A122", "`why` lists every block and pack that a memory was in with its receipt, place, score and finders"
)
async def test_why_lists_the_answers_with_a_memory(gateway: Gateway) -> None:
    (ref,) = await remember(gateway, DECIDED)
    fused = await gateway.fuse(ASKED, scope=NADIA)
    pack = await gateway.pack(PackRequest(ASKED, NADIA))
    await gateway.index(IndexRequest(ASKED, NADIA))
    found = await gateway.why(f"obs:{ref}", NADIA)
    assert (found["ref"], found["status"], found["included"]) == (ref, "current", 2)
    assert [(one["kind"], one["receipt_id"], one["place"]) for one in found["inclusions"]] == [
        ("pack", pack.receipt.receipt_id, 1),
        ("block", fused.receipt_id, 1),
    ]
    assert all("found by one, two" in one["why"] for one in found["inclusions"])
    assert found["copies"] == {"one": "done", "two": "done"}
    assert found["layers"] == {}, "a short memory has none"
    assert found["provenance"] is not None
    assert found["provenance"]["origin"] == "owner"
    assert len((await gateway.why(ref, NADIA, limit=1))["inclusions"]) == 1


@pytest.mark.feature("`why` shows what another store said otherwise, with both stores, both times and what decided")
async def test_why_shows_what_contradicted_a_memory(home: Path) -> None:
    """Of the latest answers with it, by their receipts; the newer value is the graph's."""
    settings = small(home, one="adapters.inmemory:InMemory", graph="tests.gateway.test_why:Graph")
    async with Gateway.open(settings) as opened:
        (ref,) = await remember(opened, "fact: bookings database status live")
        fused = await opened.fuse("what is the status of the bookings database?", scope=NADIA)
        found = await opened.why(ref, NADIA)
        (edge,) = (one for one in fused.disputed[0].refs if one != ref)
        (other,) = (await opened.why(edge, NADIA))["contradictions"]
    (row,) = found["contradictions"]
    assert row == other
    assert (row["receipt_id"], row["decision"], row["on"]) == (fused.receipt_id, "newest", "value")
    assert (row["refs"], row["stores"]) == ([edge, ref], ["graph", "journal"])
    assert row["why"] == "the first was asserted later"
    assert f"{ref} is superseded by {edge} (" in fused.block


@pytest.mark.feature("`why` shows every change of a memory's state, and its earlier and later versions")
async def test_why_shows_changes_and_versions(gateway: Gateway) -> None:
    (ref,) = await remember(gateway, DECIDED)
    await gateway.set_state(StateRequest(ref, NADIA, importance=0.9, why="it decides a lot"))
    await gateway.set_state(StateRequest(ref, NADIA, archived=True))
    found = await gateway.why(ref, NADIA)
    assert found["status"] == "archived"
    assert [one["why"] for one in found["changes"]] == ["set by hand", "it decides a lot"]
    await gateway.set_state(StateRequest(ref, NADIA, archived=False))
    (kept,) = await gateway.update(ref, Change(text="The bookings database moves to SQLite"), NADIA)
    earlier, later = await gateway.why(ref, NADIA), await gateway.why(kept.ref, NADIA)
    assert (earlier["status"], earlier["superseded_by"]) == ("superseded", kept.ref)
    assert (later["status"], later["supersedes"]) == ("current", ref)


@pytest.mark.feature("`why` says of a forgotten memory when and by what, and nothing of its uses: they are deleted")
async def test_why_of_a_forgotten_memory(gateway: Gateway) -> None:
    (ref,) = await remember(gateway, DECIDED)
    event_id = (await gateway.memory(ref, NADIA))["event_id"]
    await gateway.fuse(ASKED, scope=NADIA)
    await gateway.inclusions.flush()
    await gateway.fuse(ASKED, scope=NADIA)  # this one waits to be written while the memory is forgotten
    await gateway.forget(ref, NADIA)
    found = await gateway.why(ref, NADIA)
    assert (found["status"], found["included"], found["inclusions"]) == ("forgotten", 0, [])
    assert found["provenance"] is None
    assert found["forgotten"] is not None
    assert found["forgotten"]["by"] == "ref"
    await gateway.inclusions.flush()
    assert await gateway.journal.read(inclusions.of, event_id, datetime(2000, 1, 1, tzinfo=UTC), 9) == ([], 0)


async def test_why_keeps_to_its_scope(gateway: Gateway) -> None:
    (ref,) = await remember(gateway, DECIDED)
    (shared,) = await remember(gateway, "The harbour opens at six.", scope=replace(NADIA, user_id=None))
    await gateway.fuse("when does the harbour open?", scope=NADIA)
    with pytest.raises(NotFound, match="there is no memory"):
        await gateway.why(ref, OMAR)
    assert (await gateway.why(shared, replace(NADIA, user_id=None)))["included"] == 0
    await gateway.forget(ref, NADIA)
    with pytest.raises(NotFound, match="none was forgotten"):
        await gateway.why(ref, OMAR)


async def test_why_shows_the_facts_that_graphs_got(gateway: Gateway) -> None:
    """Those of the rules, as every graph has them; none of a memory that was forgotten."""
    (ref,) = await remember(gateway, "Nadia Petrova works for Hjulhuset.")
    assert {"subject": "Nadia Petrova", "predicate": "works at", "object": "Hjulhuset"} in (
        await gateway.why(ref, NADIA)
    )["facts"]
    await gateway.forget(ref, NADIA)
    assert (await gateway.why(ref, NADIA))["facts"] == []
