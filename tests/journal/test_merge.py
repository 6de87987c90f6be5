"""Merging two journals: the result does not depend on which of them is merged into which."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fusion.contract import Event, Place, Scope, StateChange
from fusion.journal import Journal
from fusion.journal.export import write_rows
from fusion.journal.export_format import ORDER, ExportFile
from fusion.journal.merge import Arrival
from fusion.lib.ids import UuidSource

EVERYBODY = Scope(audience="private")
NADIA, OMAR = Scope(user_id="nadia"), Scope(user_id="omar")


async def rows_of(journal: Journal) -> bytes:
    """The rows of an export, without header and footer."""
    file = io.BytesIO()
    await journal.snapshot(write_rows, "default", None, file)
    return file.getvalue()


async def nothing() -> None:
    pass


async def merge_into(journal: Journal, rows: bytes, meanwhile: Callable[[], Awaitable[object]] = nothing) -> None:
    """Merge the rows of another journal of the same owner; ``meanwhile`` happens between two of the steps."""
    merge = journal.begin_merge(owns=True, older=False)
    found = [one.row for one in ExportFile(io.BytesIO(b"\n" + rows)).rows()]
    of_type = {kind: list(some) for kind, some in groupby(found, key=lambda row: row.type)}
    events = [Arrival(row, row.event("default"), row.text, row.batch, row.state) for row in of_type.get("event", [])]
    merge.note(arrival.event for arrival in events if not arrival.line.forgotten)
    hashes = of_type.get("tombstone", []), of_type.get("hidden", [])
    affected = await journal.snapshot(merge.find_affected, hashes[0])
    await journal.merge(merge, merge.apply_tombstones, *hashes, "default", affected)
    await meanwhile()
    await journal.merge(merge, merge.merge_events, events)
    await journal.merge(merge, merge.merge_decisions, of_type.get("decision", []), "default")
    await journal.merge(merge, merge.merge_audit, of_type.get("audit", []), "default")
    await journal.merge(merge, merge.finish)
    merge.close()


@dataclass(frozen=True)
class Said:
    """A memory that arrives."""

    text: str
    scope: Scope = NADIA
    place: Place | None = None
    source: str | None = None
    revision: str = ""


@dataclass(frozen=True)
class Forget:
    """The forgetting of one of the current memories."""

    which: int


@dataclass(frozen=True)
class Decide:
    """A decision on the state of one of the current memories."""

    which: int
    change: StateChange


Step = Said | Forget | Decide


async def happen(journal: Journal, step: Step, ids: UuidSource) -> None:
    if isinstance(step, Said):
        kind = "note" if step.place is None else "turn"
        event = Event(ids(), step.text, datetime.now(UTC), step.scope, kind, place=step.place)
        await journal.append([replace(event, source=step.source, revision=step.revision)])
        return
    if records := (await journal.page(EVERYBODY, 100)).records:
        chosen = records[step.which % len(records)]
        if isinstance(step, Decide):
            await journal.decide({chosen.event.event_id: step.change}, "nadia", "because")
        else:
            await journal.forget([chosen.ref], EVERYBODY)


async def current(journal: Journal) -> list[tuple[object, ...]]:
    found = [(one.event, one.state) for one in (await journal.page(EVERYBODY, 1000)).records]
    return sorted((e.text, e.scope.user_id, str(e.place), str(e.source), str(state)) for e, state in found)


@asynccontextmanager
async def journals(count: int) -> AsyncIterator[list[Journal]]:
    with TemporaryDirectory() as folder:
        opened = [await Journal.open(Path(folder, f"{n}.sqlite")) for n in range(count)]
        try:
            yield opened
        finally:
            for journal in opened:
                await journal.close()


def lines(rows: bytes) -> list[dict[str, object]]:
    """The rows without refs and numbers of decisions, which belong to one journal."""
    own = {"ref", "id", "undoes", "undone_by"}
    return [{k: v for k, v in json.loads(line).items() if k not in own} for line in rows.splitlines()]


@pytest.mark.feature(
    "… also a statement of a file that is forgotten while the import runs", of="a home is exported and imported"
)
async def test_a_statement_that_is_forgotten_during_a_merge_stays_out() -> None:
    said, file = "- the heron ledger is under the oak", Place("notes/a.md", 5, 6, "line")
    async with journals(2) as (one, other):
        await other.append([Event("longer", f"{said}\n- more", datetime.now(UTC), NADIA, place=file, source="file:/a")])
        here = Event(
            "piece", said, datetime.now(UTC), NADIA, place=replace(file, end=5), source="file:/a", revision="2"
        )
        await one.append([here])
        await merge_into(one, await rows_of(other), lambda: one.forget(["piece"], EVERYBODY))
        stored = "select text from event where forgotten = 0 or text <> ''"
        assert await one.read(lambda db: [text for (text,) in db.execute(stored)]) == ["- more"]


async def assert_merges_alike(shared: Sequence[Step], apart: Sequence[tuple[str, Step]]) -> None:
    """Let steps happen in one home, then in two copies of it: merged in either direction, these are the same."""
    ids = UuidSource()
    async with journals(4) as (a, b, ab, ba):
        for step in shared:
            await happen(a, step, ids)
        await merge_into(b, await rows_of(a))
        for home, step in apart:
            await happen(a if home == "a" else b, step, ids)
        of_a, of_b = await rows_of(a), await rows_of(b)
        await merge_into(ab, of_a)
        assert lines(await rows_of(ab)) == lines(of_a)
        await merge_into(ab, of_b)
        await merge_into(ba, of_b)
        await merge_into(ba, of_a)
        assert await current(ab) == await current(ba)
        once = await rows_of(ab)
        await merge_into(ab, of_a)
        await merge_into(ab, of_b)
        assert await rows_of(ab) == once
        assert await ab.deleted_externally() <= 0
        assert (await ab.counts("default"))["current"] == len(await current(ab))


TEA, HARBOUR = "Nadia drinks green tea without any sugar", "The harbour opens at eight on weekdays"
TEXTS = st.sampled_from([HARBOUR, TEA, "Yes"])
PLACES = st.builds(lambda n, name: Place(name, n, n), st.integers(1, 2), st.sampled_from(["talk", "call"]))
CHANGES = st.sampled_from([StateChange(importance=0.5), StateChange(importance=0.9, tags=("a",)), StateChange(tags=())])
STEPS = st.one_of(
    st.builds(Said, TEXTS, st.sampled_from([NADIA, OMAR])),
    st.builds(Said, TEXTS, place=PLACES, source=st.sampled_from(["web:chat", None])),
    st.builds(Said, TEXTS, source=st.sampled_from(["wiki:a", "wiki:b"]), revision=st.sampled_from(["", "1"])),
    st.builds(Forget, st.integers(0, 3)),
    st.builds(Decide, st.integers(0, 3), CHANGES),
)


@example(  # a keyed memory was forgotten, and its words were remembered again in one home
    [Said("Yes", source="wiki:a"), Forget(0)],
    [("b", Said("Yes"))],
)
@example(  # one home forgets words, the other has edited a turn to them
    [Said(TEA, place=Place("call", 1, 1)), Said("Yes", place=Place("talk", 2, 2))],
    [("a", Forget(1)), ("b", Said(TEA, place=Place("talk", 2, 2)))],
)
@example(  # the words of a forgotten earlier version stay elsewhere
    [
        Said(HARBOUR, place=Place("talk", 1, 1)),
        Said(TEA, place=Place("talk", 1, 1)),
        Said(HARBOUR, place=Place("b", 2, 2)),
    ],
    [("a", Forget(1))],
)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(STEPS, max_size=6), st.lists(st.tuples(st.sampled_from("ab"), STEPS), max_size=8))
@pytest.mark.row("A163", "two homes merged in either direction remember the same")
async def test_merge_is_the_same_in_both_directions(shared, apart):
    await assert_merges_alike(shared, apart)


def test_every_table_has_a_place_in_the_order():
    from fusion.journal.export import TABLES

    assert tuple(table.type for table in TABLES) == ORDER
