"""kill -9 in the middle of writing: at every statement, and at random. What was acknowledged is there once.

A nursery (one Python process that has imported everything) forks a victim for each kill, so that two hundred of them
take seconds. ``MEMORY_FUSION_KILLS`` is how many; 200 unless it says otherwise.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from fusion.contract import Scope
from fusion.errors import NotFound
from fusion.gateway.gateway import Gateway
from fusion.journal import Journal
from tests.faults.home import settings_of
from tests.ingest.helpers import event

KILLS = int(os.environ.get("MEMORY_FUSION_KILLS", "200"))
ROOT = Path(__file__).resolve().parents[2]
NADIA = Scope(user_id="nadia", audience="private")

NURSERY = """
import asyncio, importlib, json, os, signal, sys

import adapters.cortex, adapters.markdown, adapters.triples
import fusion.gateway
from tests.faults import victims

for name in sys.argv[1:]:
    importlib.import_module(name)
for line in sys.stdin:
    what, *arguments = json.loads(line)
    if (victim := os.fork()) == 0:
        asyncio.run(getattr(victims, what)(*arguments))
        os.kill(os.getpid(), signal.SIGKILL)
    victims.say("victim", victim)
    os.waitpid(victim, 0)
    victims.say("dead")
"""


class Nursery:
    """Has victims work at something, and says what they said before they were killed."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def kill(self, what: str, *arguments: object, after: int | None = None) -> list[list[object]]:
        """What a victim said. It kills itself where its ``arguments`` say, or is killed after so many lines."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps([what, *map(str, arguments)]).encode() + b"\n")
        process.stdin.flush()
        said: list[list[object]] = []
        victim, killed = 0, False
        while True:
            line = process.stdout.readline()
            assert line.endswith(b"\n"), "the nursery died"
            word, *rest = json.loads(line)
            if word == "victim":
                victim = rest[0]
            elif word == "dead":
                return said
            else:
                said.append([word, *rest])
            if victim and not killed and after is not None and len(said) >= after:
                with suppress(ProcessLookupError):  # it came to its end meanwhile
                    os.kill(victim, signal.SIGKILL)
                killed = True


@contextmanager
def nursery(*modules: str) -> Iterator[Nursery]:
    """``modules`` are imported besides, once, where a victim would import each for itself."""
    process = subprocess.Popen(
        [sys.executable, "-c", NURSERY, *modules],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        yield Nursery(process)
    finally:
        with process:
            assert process.stdin is not None
            process.stdin.close()


def is_sound(file: Path) -> bool:
    with closing(sqlite3.connect(file)) as db:
        return bool(db.execute("pragma integrity_check").fetchone() == ("ok",))


def texts(file: Path, table: str) -> Counter[str]:
    with closing(sqlite3.connect(file)) as db:
        return Counter(text for (text,) in db.execute(f"select text from {table}"))


@pytest.mark.row(
    "A044", "`kill -9` before each statement of an append: the retry completes it, another changes nothing"
)
async def test_kill_at_every_statement_of_an_append(tmp_path: Path) -> None:
    """Killed before its 1st, 2nd, … statement until it survives them all: the batch is there whole or not at all.

    The retry under the same Idempotency-Key then makes it whole, and another one changes nothing.
    """
    file = tmp_path / "journal.sqlite"
    acknowledged: list[int] = []
    with nursery() as home:
        for statement in range(1, 200):
            said = home.kill("append", file, statement, statement)
            assert is_sound(file)
            kept = texts(file, "event")
            if ["kept", statement] in said:
                acknowledged.append(statement)
            assert set(kept.values()) <= {1}
            for n in range(1, statement + 1):
                both = {f"turn {n}", f"note {n}"}
                assert both <= set(kept) or (both.isdisjoint(kept) and n not in acknowledged)
            if acknowledged:
                break
    assert statement > 10, "an append of two events has more statements than that"
    # The commit is the last one: who is killed before it has written nothing, and after it everything.
    assert set(texts(file, "event")) == {f"turn {statement}", f"note {statement}"}
    journal = await Journal.open(file)
    for again in range(2):
        for n in range(1, statement + 1):
            batch = [event(f"turn {n}", n), event(f"note {n}", n, source="notes")]
            outcome = await journal.append(batch, guard=("default", str(n), "body"), reply=lambda stored: "kept")
            assert isinstance(outcome, str) == (bool(again) or n == statement)
    await journal.close()
    assert texts(file, "event") == {f"{what} {n}": 1 for n in range(1, statement + 1) for what in ("turn", "note")}


@pytest.mark.row(
    "A044",
    "… the queue of turns is in the journal: after `kill -9` at any statement, each turn is distilled once",
    of="a model distils conversations",
)
def test_kill_at_every_statement_of_distilling(tmp_path: Path) -> None:
    """Killed before its 1st, 2nd, … statement until it survives them all: each turn is kept, and distilled once.

    What one victim leaves undone the next one does.
    """
    file = tmp_path / "journal.sqlite"
    acknowledged: set[int] = set()
    said: list[list[object]] = []
    with nursery() as home:
        for statement in range(1, 200):
            said = home.kill("distil", file, statement, statement)
            assert is_sound(file)
            kept = texts(file, "event")
            if ["kept", statement] in said:
                acknowledged.add(statement)
            turns = {n for n in range(1, statement + 1) if f"This is turn {n} of our talk" in kept}
            assert acknowledged <= turns
            assert set(kept.values()) == {1} or not kept
            made = {n for n in range(1, statement + 1) if f"memory {n} of our talk" in kept}
            assert made <= turns
            if ["distilled", statement] in said:
                assert made == turns
                break
    assert ["distilled", statement] in said
    assert len(acknowledged) > 3, "there are statements behind the acknowledgement"


OUTLIVED = """
select m.text from derived d join event m using(event_id) join event s on s.event_id = d.source
where m.superseded_by is null and s.superseded_by is not null
union all
select m.text from event m join delivery using(seq) where m.superseded_by = 'retired' and delivery.state <> 'forget'
"""
"""memories of a text that was edited which are current, or which a store is not to forget"""


@pytest.mark.feature(
    "… after `kill -9` anywhere in an edit, nothing made from the old text remains, in the journal or for a store",
    of="memories made from the old text",
)
def test_kill_at_any_statement_of_an_edit(tmp_path: Path) -> None:
    """Each victim edits one turn and distils it, killed before its 1st, 4th, … statement: what was made of the old text
    never stays, neither in the journal nor for a store, and the last text has its memory."""
    file = tmp_path / "journal.sqlite"
    said: list[list[object]] = []
    retired = 0
    with nursery() as home:
        for statement in range(1, 200, 3):
            said = home.kill("distil", file, statement, statement, "edited")
            assert is_sound(file)
            with closing(sqlite3.connect(file)) as db:
                assert db.execute(OUTLIVED).fetchall() == []
                current = [t for (t,) in db.execute("select text from event where superseded_by is null")]
                (retired,) = db.execute("select count(*) from event where superseded_by = 'retired'").fetchone()
            if ["distilled", statement] in said:
                break
    assert ["distilled", statement] in said
    assert current == [f"This is turn {statement} of our talk", f"memory {statement} of our talk"]
    assert retired > 0


@pytest.mark.row("A044", "`kill -9` at any moment loses nothing acknowledged")
@pytest.mark.row("A044", "`kill -9` at random, 200 times")
def test_kill_at_random(tmp_path: Path) -> None:
    """Four writers at once, killed after 1 to 40 acknowledgements: nothing acknowledged is lost or there twice."""
    file = tmp_path / "journal.sqlite"
    draw = random.Random(11)
    acknowledged: set[object] = set()
    with nursery() as home:
        for _ in range(KILLS):
            acknowledged.update(n for _, n in home.kill("write", file, after=draw.randint(1, 40)))
            assert is_sound(file)
            assert {f"turn {n}" for n in acknowledged} <= set(texts(file, "event"))
    kept = texts(file, "event")
    assert set(kept.values()) == {1}
    assert {f"{kind} {n}" for n in acknowledged for kind in ("turn", "note")} <= set(kept)
    assert {t.split()[1] for t in kept if t.startswith("turn")} == {t.split()[1] for t in kept if t.startswith("note")}


@pytest.mark.row("A044", "a kill between two stores, also while forgetting: all agree after the restart")
async def test_kill_between_two_stores(home: Path) -> None:
    """Killed anywhere between the journal, three stores and a forgetting: after the restart all of them agree.

    Each victim remembers one memory and forgets the one before, in the same home, and is killed before its n-th
    statement, whichever store that belongs to. In the end every store has what is kept, once, and nothing else.
    """
    settings = settings_of(
        home,
        cortex="adapters.cortex:Cortex",
        triples="adapters.triples:Triples",
        markdown="adapters.markdown:Markdown",
    )
    draw = random.Random(5)
    kept: dict[int, str] = {}
    forgotten: set[int] = set()
    rounds = max(8, KILLS // 4)
    with nursery() as nurse:
        for n in range(rounds):
            # About 250 statements are made in all, 20 of them before it is acknowledged; each eighth has its victims.
            statement = draw.randint(1 + 256 * (n % 8) // 8, 256 * (n % 8 + 1) // 8)
            before = kept.get(n - 1, "")
            for word, number, *ref in nurse.kill("live", home, n, before, statement):
                assert isinstance(number, int)
                if word == "kept":
                    kept[number] = str(ref[0])
                else:
                    forgotten.add(number)
    assert kept
    async with Gateway.open(settings) as gateway:
        for n, ref in kept.items():
            if n in forgotten or n + 1 in kept:
                try:  # the re-run of a forgetting that was cut short
                    await gateway.forget(ref, NADIA)
                except NotFound:
                    assert n + 1 < rounds
                forgotten.add(n)
        await gateway.settle()
        backlog = await gateway.deliverer.backlog()
        assert not any(backlog.values()), (backlog, gateway.deliverer.faults, await gateway.journal.deliveries())
        for name in settings.backends:
            found = Counter(hit.text for hit in (await gateway.search(name, "harbour", NADIA, 1000)).hits)
            assert set(found.values()) <= {1}
            assert {memory(n) for n in kept.keys() - forgotten} <= set(found)
            assert {memory(n) for n in forgotten}.isdisjoint(found)
            # What was not acknowledged is there or not, but in all or in none.
            assert found == Counter(hit.text for hit in (await gateway.search("cortex", "harbour", NADIA, 1000)).hits)
    journal = set(texts(home / "journal.sqlite", "event where forgotten = 0"))
    for name in ("cortex", "triples"):
        file = home / "backends" / name / "graph.sqlite"
        assert is_sound(file)
        assert set(texts(file, "memory")) == journal, f"{name} has an orphan, or lacks something"


def memory(n: int) -> str:
    return f"Memory {n} is about the harbour and lighthouse {n}"
