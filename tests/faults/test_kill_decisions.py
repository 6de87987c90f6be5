"""kill -9 between a decision and its delivery, and in the middle of an import: one state in the end, in every store."""

from __future__ import annotations

import json
import random
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from adapters.cortex import Cortex
from fusion.gateway.decisions import StateRequest
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from tests.faults.test_kill import NADIA, is_sound, memory, nursery
from tests.gateway.helpers import embedded
from tests.gateway.test_transfer import export_of, rows_of

DEATHS = (("cortex", 1), *(("journal", n) for n in (2, 5, 8, 11, 14)))
"""where each victim dies: before which statement of which store. The cortex stores what the journal has committed."""
JOURNALLED = "select state like '%archived%' from event where event_id = ?"
STORED = "select ended_at is not null from memory where event_id = ?"

pytestmark = pytest.mark.timeout(600)  # each victim is a process that opens a home


def is_archived(file: Path, query: str, *values: object) -> bool:
    with closing(sqlite3.connect(file)) as db:
        return bool(db.execute(query, values).fetchone()[0])


@pytest.mark.feature("kill -9 between a decision and its delivery: after the restart every store has what was decided")
async def test_kill_between_a_decision_and_its_delivery(home: Path) -> None:
    """Each victim archives one memory and is killed before the n-th statement of the journal or of the cortex.

    What was acknowledged holds after the restart, in the journal and in every store; what was not, in all or in none.
    """
    async with Gateway.open(embedded(home)) as gateway:
        kept = await gateway.remember([NewMemory(memory(n), NADIA) for n in range(12)])
        await gateway.settle()
    refs, ids = [one.ref for one in kept], [one.event_id for one in kept]
    decided: set[int] = set()
    with nursery("adapters.mem0") as nurse:
        for n, (where, statement) in enumerate(DEATHS):
            if any(word == "decided" for word, _ in nurse.kill("decide", home, refs[n], where, statement)):
                decided.add(n)
            if where == "cortex":
                assert is_archived(home / "journal.sqlite", JOURNALLED, ids[n])
                assert not is_archived(home / "backends" / "cortex" / "graph.sqlite", STORED, ids[n])
    async with Gateway.open(embedded(home)) as gateway:
        await gateway.settle()
        records = await gateway.journal.records(ids)
        gone = {n for n, id_ in enumerate(ids) if records[id_].state.ended == "archived"}
        assert decided <= gone
        cortex = gateway.guarded["cortex"].backend
        assert isinstance(cortex, Cortex)
        stored = {one.id: one.state.ended_at for one in await cortex.graph.page(limit=1000)}
        assert stored == {id_: records[id_].state.ended_at for id_ in ids}
        for name in gateway.guarded:
            found = Counter(hit.text for hit in (await gateway.search(name, "harbour", NADIA, 1000)).hits)
            assert found == Counter(memory(n) for n in range(12) if n not in gone), name


@pytest.mark.feature("kill -9 in the middle of an import: the next one finishes it, and nothing is there twice")
async def test_kill_in_the_middle_of_an_import(tmp_path: Path) -> None:
    """Killed at random points, and imported again: the home is as one whose import was never interrupted."""
    file, whole, killed = tmp_path / "export.jsonl", tmp_path / "whole", tmp_path / "killed"
    async with Gateway.open(embedded(tmp_path / "here")) as here:
        kept = await here.remember([NewMemory(memory(n), NADIA) for n in range(60)])
        for one in kept[:20:4]:
            await here.set_state(StateRequest(one.ref, NADIA, archived=True))
        for one in kept[20:40:4]:
            await here.forget(one.ref, NADIA)
        file.write_bytes(await export_of(here))
    draw = random.Random(11)
    with nursery("adapters.mem0") as nurse:
        ((word, statements),) = nurse.kill("take_in", whole, file, 0)
        assert word == "statements"
        assert isinstance(statements, int)
        for n in range(4):
            statement = draw.randint(1 + statements * n // 4, statements * (n + 1) // 4)
            assert [said for said, _ in nurse.kill("take_in", killed, file, statement)] in ([], ["statements"])
            assert is_sound(killed / "journal.sqlite")
        assert nurse.kill("take_in", killed, file, 0)
    exports = {}
    for folder in (whole, killed):
        async with Gateway.open(embedded(folder)) as gateway:
            await gateway.settle()
            exports[folder] = sorted(json.dumps(row, sort_keys=True) for row in rows_of(await export_of(gateway)))
            expected = Counter(memory(n) for n in range(60) if not (n % 4 == 0 and n < 40))
            for name in gateway.guarded:
                found = (await gateway.search(name, "harbour", NADIA, 1000)).hits
                assert Counter(hit.text for hit in found) == expected, name
    assert exports[killed] == exports[whole]
