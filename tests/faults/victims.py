"""The processes that `test_kill` kills. They print one line per acknowledgement."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import signal
from collections.abc import Callable, Sequence
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

from adapters.cortex.cli import Capture, Store
from adapters.cortex.lifecycle import tend
from adapters.cortex.port import Memory
from adapters.cortex.sqlite import SqliteGraph
from adapters.cortex.transfer import migrate_all
from adapters.graph.options import WalkOptions
from fusion.contract import Event, Opening, Scope
from fusion.gateway.decisions import StateRequest
from fusion.gateway.gateway import Gateway
from fusion.gateway.transfer import ImportOptions
from fusion.ingest.deliver import Deliverer
from fusion.ingest.distil import Distiller
from fusion.ingest.forget import ForgetRequest
from fusion.ingest.intake import NewMemory
from fusion.journal import Journal
from fusion.journal.listing import Criteria
from fusion.journal.proposals import Decider
from fusion.settings import Settings
from fusion.store.sqlite import Database
from fusion.upkeep.job import Job, JobContext
from fusion.upkeep.runner import Runner
from tests.backend_contract import NOW
from tests.fakes import Asked, FakeModel
from tests.faults.home import settings_of
from tests.gateway.helpers import embedded
from tests.ingest.helpers import event
from tests.patience import load

NADIA = Scope(user_id="nadia", audience="private")


def say(word: str, *rest: object) -> None:
    """One write, so that a line is said whole or not at all."""
    os.write(1, json.dumps([word, *rest]).encode() + b"\n")


def killer(statement: int) -> Callable[[str], None]:
    """Ends the process before the ``statement``-th statement; 0 never does."""
    count = itertools.count(1)

    def told(sql: str) -> None:
        if next(count) == statement:
            os.kill(os.getpid(), signal.SIGKILL)

    return told


class Tally:
    """As `killer`, and it knows how many statements there were."""

    def __init__(self, statement: int) -> None:
        self._kill = killer(statement)
        self.count = 0

    def __call__(self, sql: str) -> None:
        self.count += 1
        self._kill(sql)


def watch(database: Database, told: Callable[[str], None]) -> None:
    assert database._writing is not None
    database._writing.set_trace_callback(told)


async def append(file: str, n: str, statement: str) -> None:
    """Two events under one Idempotency-Key."""
    journal = await Journal.open(Path(file))
    watch(journal._database, killer(int(statement)))
    batch = [event(f"turn {n}", int(n)), event(f"note {n}", int(n), source="notes")]
    await journal.append(batch, guard=("default", n, "body"), reply=lambda stored: "kept")
    say("kept", int(n))


async def distil(file: str, n: str, statement: str, edited: str = "") -> None:
    """One turn, and what a model makes of it and of the turns that those before it left behind.

    With ``edited`` it takes the place of one of which a model has made something already, for a store to be told.
    """

    def memories(asked: Asked) -> str:
        turns = re.findall(r'number="(\d+)".*?\nThis is turn (\d+)', asked.user)
        made = [
            {"text": f"memory {turn} of our talk", "confidence": 1, "from": [int(number)]} for number, turn in turns
        ]
        return json.dumps(made)

    def turn(number: int) -> Event:
        return event(f"This is turn {number} of our talk", 0 if edited else number, kind="turn")

    journal = await Journal.open(Path(file))
    journal.enable_distillation()
    if edited:
        await journal.outbox.register(["shelf"])
        await journal.append([turn(int(n) - 1)])
        before = Distiller(journal, Deliverer(journal, {}), FakeModel(memories), quiet_s=0)
        before.start()
        await before.settle()
        await before.close()
    watch(journal._database, killer(int(statement)))
    distiller = Distiller(journal, Deliverer(journal, {}), FakeModel(memories), quiet_s=0)
    await journal.append([turn(int(n))])
    say("kept", int(n))
    distiller.start()
    await distiller.settle()
    say("distilled", int(n))
    await distiller.close()
    await journal.close()


async def two_steps(file: str, notes: str, n: str, statement: str) -> None:
    """A run of a job of two steps, an hour after the run before; each step adds a line to the notes."""

    async def steps() -> Sequence[str]:
        return ["first", "second"]

    async def step(context: JobContext, name: str) -> None:
        os.write(opened, f"{name}\n".encode())

    opened = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    journal = await Journal.open(Path(file))
    watch(journal._database, killer(int(statement)))
    now = NOW + timedelta(hours=int(n))
    runner = Runner([Job("notes", "Adds lines.", steps, step)], journal, f"box:{n}", clock=lambda: now)
    await runner.run("notes")
    say("ran", int(n))
    await journal.close()


async def write(file: str) -> None:
    """Without end: four at once, each two events."""
    journal = await Journal.open(Path(file))

    async def one(n: int) -> None:
        await journal.append([event(f"turn {n}", n), event(f"note {n}", n, source="notes")])
        say("kept", n)

    for n in itertools.count(0, 4):
        await asyncio.gather(*(one(n + i) for i in range(4)))


async def live(home: str, n: str, before: str, statement: str) -> None:
    """Remembers one memory and forgets the one before, in all stores."""
    settings = settings_of(
        Path(home),
        cortex="adapters.cortex:Cortex",
        triples="adapters.triples:Triples",
        markdown="adapters.markdown:Markdown",
    )
    async with Gateway.open(settings) as gateway:
        told = killer(int(statement))
        watch(gateway.journal._database, told)
        for store in (gateway.guarded["cortex"].backend.graph, gateway.guarded["triples"].backend):  # type: ignore[attr-defined]
            watch(store._database, told)  # type: ignore[attr-defined]
        text = f"Memory {n} is about the harbour and lighthouse {n}"
        [kept] = await gateway.remember([NewMemory(text, scope=NADIA)], idempotency_key=f"memory {n}")
        say("kept", int(n), kept.ref)
        if before:
            await gateway.forget(before, NADIA)
            say("gone", int(n) - 1)
        await gateway.settle()
        os.kill(os.getpid(), signal.SIGKILL)


async def forget(home: str) -> None:
    """Forgets all letters, three at a time."""
    settings = settings_of(
        Path(home),
        cortex="adapters.cortex:Cortex",
        triples="adapters.triples:Triples",
        markdown="adapters.markdown:Markdown",
    )
    async with Gateway.open(settings) as gateway:
        more = True
        while more:
            reply = await gateway.forget_many(ForgetRequest(NADIA, criteria=Criteria(source="mail"), limit=3))
            more = reply.more
            for receipt in reply.receipts:
                say("gone", receipt.ref)


# Of the cortex. Each ends by saying how many statements it made, unless it was killed before one of them.

CITIES = ("Bergen", "Oslo", "Turku")


def cortex_home(home: Path) -> Settings:
    """A home with a cortex that has vectors, so that what is said again or otherwise is seen."""
    return load(
        home=home,
        backends_only=True,
        embedder={"adapter": "tests.adapters.test_reindex:Providers", "provider": "fake"},
        backends={"cortex": {"adapter": "adapters.cortex:Cortex"}},
    )


class Narrow(SqliteGraph):
    """A store that is read eight memories at a time, so that there are many points to die at."""

    async def page(self, after: str = "", limit: int = 500, scope: Scope | None = None) -> Sequence[Memory]:
        return await super().page(after, min(limit, 8), scope)


async def narrow(folder: Path) -> Narrow:
    return await Narrow.open(Opening("cortex", folder, {}, None), WalkOptions())


async def capture(home: str, n: str, statement: str) -> None:
    """Two turns of a conversation, and a statement that repeats or contradicts the one before."""
    async with Gateway.open(cortex_home(Path(home))) as gateway:
        await gateway.settle()  # what the victim before left undone
        tally = Tally(int(statement))
        watch(gateway.journal._database, tally)
        watch(gateway.guarded["cortex"].backend.graph._database, tally)  # type: ignore[attr-defined]

        async def line(text: str) -> None:
            raise AssertionError(text)

        async def do(verb: Any) -> Any:
            return await gateway.do("cortex", verb, NADIA, line, lambda done, total: None)

        asked, answered = f"What did Ola build in harbour {n}?", f"Ola built lighthouse {n} in harbour {n}."
        for id_ in (await do(Capture(asked, answered)))["ids"]:
            say("kept", id_)
        lives = f"Mara lives in {CITIES[int(n) // 2 % 3]}."
        say("kept", (await do(Store(lives, type="fact", lifetime=None)))["id"])
        await gateway.settle()
        say("statements", tally.count)


async def upkeep(folder: str, statement: str) -> None:
    """The lifecycle of one store, eight memories at a time."""
    store = await narrow(Path(folder))
    tally = Tally(int(statement))
    watch(store._database, tally)
    await tend(store, None, NOW, progress=lambda done, total: say("done", done))
    say("statements", tally.count)


async def move(source: str, target: str, statement: str) -> None:
    """One store into another, eight memories at a time."""
    here, there = await narrow(Path(source)), await narrow(Path(target))
    tally = Tally(int(statement))
    watch(there._database, tally)
    await migrate_all(here, there, lambda done, total: say("done", done))
    say("statements", tally.count)


# Of decisions and imports.


async def decide(home: str, ref: str, where: str, statement: str) -> None:
    """Archives one memory, and waits until the stores have its state.

    It is killed before a statement of the journal, or before one by which the cortex stores a state.
    """

    def stores_state(sql: str) -> None:
        if "ended_at" in sql:
            told(sql)

    async with Gateway.open(embedded(Path(home))) as gateway:
        await gateway.settle()  # what the victim before left undone
        told = killer(int(statement))
        if where == "journal":
            watch(gateway.journal._database, told)
        else:
            watch(gateway.guarded["cortex"].backend.graph._database, stores_state)  # type: ignore[attr-defined]
        await gateway.set_state(StateRequest(ref, NADIA, archived=True))
        say("decided", ref)
        await gateway.settle()
        say("delivered", ref)


async def approve(home: str, name: str, statement: str) -> None:
    """Approves one proposal, and is killed before a statement of the journal."""
    async with Gateway.open(embedded(Path(home))) as gateway:
        await gateway.settle()
        watch(gateway.journal._database, killer(int(statement)))
        await gateway.approve(name, NADIA, Decider("owner"))
        say("approved", name)
        await gateway.settle()


async def take_in(home: str, file: str, statement: str) -> None:
    """Imports an export."""

    async def moved(tenant: str, old: str, new: str) -> None:
        raise AssertionError(f"{old} has another ref: {new}")

    async with Gateway.open(embedded(Path(home))) as gateway:
        tally = Tally(int(statement))
        watch(gateway.journal._database, tally)
        export = BytesIO(Path(file).read_bytes())
        await gateway.import_export("default", export, ImportOptions(), moved, lambda done, total: None)
        say("statements", tally.count)
