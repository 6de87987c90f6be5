"""kill -9 while the cortex captures, tends and migrates: fifty real processes each, at points drawn at random.

Every other victim kills itself before a statement that was drawn, of all that its work has; the rest are killed from
outside after a line that they printed, wherever they are by then. A test's name says which seed drew
them; ``MEMORY_FUSION_SEED`` is another.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from adapters.cortex.lifecycle import Report, tend
from adapters.cortex.port import Graph, Memory, State, View
from adapters.cortex.transfer import Migrated, migrate_all
from fusion.gateway.gateway import Gateway
from tests.adapters.cortex.store_contract import look, memory
from tests.adapters.cortex.test_lifecycle import states, various
from tests.backend_contract import NOW
from tests.faults.test_kill import Nursery, is_sound, nursery, texts
from tests.faults.victims import NADIA, cortex_home, narrow

ROUNDS = 50
SEED = int(os.environ.get("MEMORY_FUSION_SEED", "5"))


@pytest.fixture(params=[SEED], ids=lambda seed: f"seed={seed}")
def draw(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(request.param)


class Reaper:
    """Has victims work, and says what they said: the first to the end, each of the rest until its drawn point.

    ``killed`` counts those that did not come to their end.
    """

    def __init__(self, nurse: Nursery, draw: random.Random) -> None:
        self._nurse, self._draw = nurse, draw
        self._statements = self._lines = 0
        self._turn = self.killed = 0

    def take(self, what: str, *arguments: object) -> list[list[object]]:
        if not self._statements:
            said = self._nurse.kill(what, *arguments, 0)
            assert said[-1][0] == "statements"
            self._statements, self._lines = int(str(said[-1][1])), len(said) - 1
            return said
        self._turn += 1
        if self._turn % 2:
            said = self._nurse.kill(what, *arguments, 0, after=self._draw.randint(1, self._lines))
        else:
            said = self._nurse.kill(what, *arguments, self._draw.randint(1, self._statements))
        self.killed += "statements" not in [word for word, *_ in said]
        return said


def require_whole(file: Path, *, has_all_states: bool = True) -> None:
    """SQLite's own check, and the graph's: every mention and relation has both ends, every entity its count, every
    memory that names another (merged into it, at odds with it) one that is there.

    The journal decides on states, and delivers them after the memories; ``has_all_states`` says that it has.
    """
    assert is_sound(file)
    with closing(sqlite3.connect(file)) as db:
        wrong = {
            "ends": "select * from pragma_foreign_key_check",
            "counts": "select e.key from entity e where mentions <> (select count(*) from mention where entity = e.id)",
            "names": "select event_id from memory where coalesce(merged_into, contradicts) not in "
            "(select event_id from memory)",
            "sides": "select event_id from memory m where conflict_status = 'active' and not exists (select 1 "
            "from memory o where o.conflict_group = m.conflict_group and o.event_id <> m.event_id)",
            "concepts": "select event_id from memory where concepts_kept = 0",
        }
        if not has_all_states:
            del wrong["names"], wrong["sides"]
        assert {what: rows for what, sql in wrong.items() if (rows := db.execute(sql).fetchall())} == {}


@pytest.mark.row(
    "A044",
    "Cortex: after `kill -9` of fifty real processes during capture, what was acknowledged is there "
    "once and whole, and another run finishes",
)
async def test_kill_while_a_cortex_captures(tmp_path: Path, draw: random.Random) -> None:
    """What was acknowledged is in journal and cortex once; what was cut short is there whole or not at all.

    And what the statements did to others, they did once: of those that say the same, all but one are merged.
    """
    home = tmp_path / "home"
    acknowledged: set[str] = set()
    with nursery("tests.adapters.test_reindex") as nurse:
        reaper = Reaper(nurse, draw)
        for n in itertools.count():
            if reaper.killed == ROUNDS:
                break
            acknowledged |= {str(rest[0]) for word, *rest in reaper.take("capture", home, n) if word == "kept"}
            assert is_sound(home / "journal.sqlite")
            require_whole(home / "backends" / "cortex" / "graph.sqlite", has_all_states=False)
    async with Gateway.open(cortex_home(home)) as gateway:  # the re-run: whatever was not delivered, is
        await gateway.settle()
        assert not any((await gateway.deliverer.backlog()).values())
        assert await gateway.check() == {}
        graph: Graph = gateway.guarded["cortex"].backend.graph  # type: ignore[attr-defined]
        kept = {m.id: m for m in await graph.page("", 10_000)}
        assert acknowledged <= set(kept)
        found = await graph.find("harbour", None, View(NADIA, datetime.now(UTC)), 10_000)
        assert {id_ for id_, _ in found.words} == {m.id for m in kept.values() if "harbour" in m.event.text}
    require_whole(home / "backends" / "cortex" / "graph.sqlite")
    assert texts(home / "backends" / "cortex" / "graph.sqlite", "memory") == texts(home / "journal.sqlite", "event")
    assert max(Counter(m.event.text for m in kept.values() if m.event.kind == "turn").values()) == 1
    assert_once(kept)


def assert_once(kept: Mapping[str, Memory]) -> None:
    """Of each group in conflict every member but the first contradicts another; nothing reinforced twice by one."""
    facts = [m for m in kept.values() if m.event.kind == "fact"]
    merged = Counter(m.state.merged_into for m in facts if m.state.merged_into)
    assert merged
    for m in facts:
        assert m.state.reinforced_count <= merged[m.id]
        if m.state.merged_into:
            assert kept[m.state.merged_into].event.text == m.event.text
        elif m.state.contradicts:
            assert (m.state.conflict_status, m.state.conflict_group) == (
                "active",
                kept[m.state.contradicts].state.conflict_group,
            )


@pytest.mark.feature(
    "… during upkeep (lifecycle): the next run ends like an undisturbed one",
    of="Cortex: after `kill -9` of fifty",
)
async def test_kill_during_a_cortex_upkeep(tmp_path: Path, draw: random.Random) -> None:
    """Nothing is lost, and the next run ends like one that was not killed."""
    before = tmp_path / "before"
    store = await narrow(before)
    memories = various(draw)
    await store.add(memories)
    await store.close()
    with nursery("datasketch") as nurse:
        reaper = Reaper(nurse, draw)
        reaper.take("upkeep", shutil.copytree(before, tmp_path / "once"))
        store = await narrow(tmp_path / "once")
        expected = await seen(store)
        await store.close()
        assert sum(s.ended_at is not None or s.merged_into is not None for s in expected[0].values()) > 10
        for n in itertools.count():
            if reaper.killed == ROUNDS:
                break
            folder = Path(shutil.copytree(before, tmp_path / str(n)))
            reaper.take("upkeep", folder)
            require_whole(folder / "graph.sqlite")
            assert texts(folder / "graph.sqlite", "memory") == Counter(m.event.text for m in memories)
            store = await narrow(folder)
            await tend(store, None, NOW)
            assert await tend(store, None, NOW) == Report(scanned=len(memories))
            assert await store.check() is None
            assert await seen(store) == expected
            await store.close()


async def seen(store: Graph) -> tuple[Mapping[int, State], set[str]]:
    """The state of every memory of a store, and which of them are found by their words."""
    found = await store.find("Marta tea office thing", None, look(), 100)
    return await states(store), {id_ for id_, _ in found.words}


@pytest.mark.feature(
    "… during a migration: the next run verifies it by the checksum",
    of="Cortex: after `kill -9` of fifty",
)
async def test_kill_while_a_cortex_moves_to_another_store(tmp_path: Path, draw: random.Random) -> None:
    """The source is as it was; each memory is in the target once, as it was, when the run after has verified it."""
    source = await narrow(tmp_path / "source")
    memories = [memory(n, f"Thing {n}", ("Marta", "owns", f"boat {n}")) for n in range(1, 25)]
    await source.add(memories)
    whole = await narrow(tmp_path / "whole")
    checksum = (await migrate_all(source, whole, lambda done, total: None)).checksum
    await source.close()
    await whole.close()
    with nursery() as nurse:
        reaper = Reaper(nurse, draw)
        reaper.take("move", tmp_path / "source", tmp_path / "first")
        for n in itertools.count():
            if reaper.killed == ROUNDS:
                break
            folder = tmp_path / str(n)
            reaper.take("move", tmp_path / "source", folder)
            require_whole(folder / "graph.sqlite")
            there = set(texts(folder / "graph.sqlite", "memory").values())
            assert there <= {1}
            source, target = await narrow(tmp_path / "source"), await narrow(folder)
            done = await migrate_all(source, target, lambda done, total: None)
            assert done == Migrated(24, done.copied, 0, checksum)
            assert await target.check() is None
            await source.close()
            await target.close()
            require_whole(folder / "graph.sqlite")
    assert is_sound(tmp_path / "source" / "graph.sqlite")
    assert texts(tmp_path / "source" / "graph.sqlite", "memory") == Counter(m.event.text for m in memories)
