"""The count of current memories by user and agent, which says whether a question must name somebody."""

from __future__ import annotations

import sqlite3

from fusion.contract import Place, Scope
from fusion.journal import Journal, owners
from fusion.journal.owners import Owners
from fusion.journal.retire import CompleteFile
from fusion.journal.rows import insert_event
from fusion.journal.schema import STEPS
from fusion.store.sqlite import Connection
from tests.ingest.helpers import event
from tests.journal.helpers import append

ADA, BEN, WORK = Scope(user_id="ada"), Scope(user_id="ben"), Scope(agent_id="work")


def counted(db: Connection) -> dict[tuple[str, str], int]:
    return {(row["user_id"], row["agent_id"]): row["n"] for row in db.execute("select * from owned")}


async def test_owners_are_those_with_current_memories(journal: Journal) -> None:
    """A new user is known with the first memory, and gone with the last, by whichever way it goes."""
    assert await journal.owners("default") == Owners()
    (adas,) = await append(journal, event("The rake is lost.", scope=ADA))
    assert await journal.owners("default") == Owners(("ada",))
    await append(journal, event("The hose leaks.", scope=Scope()), event("The spade is lost.", scope=WORK))
    assert await journal.owners("default") == Owners(("ada",), ("work",))
    line = Place("a.md", 1, 1, "line")
    await append(journal, event("The saw is blunt.", scope=BEN, place=line, source="file:/a.md"))
    assert (await journal.owners("default")).users == ("ada", "ben")
    assert (await journal.owners("acme")).users == ()
    await journal.retire(BEN, [CompleteFile("file:/a.md")])
    assert (await journal.owners("default")).users == ("ada",)
    await journal.append([event("The axe is new.", scope=BEN)], batch="run-1")
    assert (await journal.owners("default")).users == ("ada", "ben")
    await journal.undo(BEN, "run-1", 10)
    assert (await journal.owners("default")).users == ("ada",)
    await append(journal, event("The rake is found.", scope=ADA, supersedes=adas.ref))
    assert await journal.read(counted) == {("", ""): 1, ("", "work"): 1, ("ada", ""): 1}
    await journal.forget([adas.ref], ADA)
    assert (await journal.owners("default")).users == ("ada",)


async def test_owners_are_read_again_only_if_a_write_may_change_them(journal: Journal) -> None:
    """A question pays for them once; a further memory of somebody known changes nothing."""
    await append(journal, event("The rake is lost.", scope=ADA))
    known = await journal.owners("default")
    await append(journal, event("The hose leaks.", scope=ADA), event("The saw is blunt.", scope=Scope()))
    assert await journal.owners("default") is known
    await append(journal, event("The axe is new.", scope=BEN))
    assert await journal.owners("default") is not known


def test_migration_counts_the_owners_of_earlier_memories() -> None:
    """A journal of the version before has no counts: forgotten and replaced memories count for nobody."""
    db = sqlite3.connect(":memory:")
    db.row_factory = sqlite3.Row
    for step in STEPS[: STEPS.index(owners.SCHEMA)]:
        db.executescript(step)
    db.execute("alter table event add column words_hash integer")  # which today's insert fills
    insert_event(db, event("The rake is lost.", scope=ADA), superseded_by="e2")
    insert_event(db, event("The rake is found.", scope=ADA))
    insert_event(db, event("The hose leaks.", scope=WORK))
    insert_event(db, event("", scope=BEN), forgotten=1)
    db.executescript(owners.SCHEMA)
    assert counted(db) == {("ada", ""): 1, ("", "work"): 1}
    db.close()
