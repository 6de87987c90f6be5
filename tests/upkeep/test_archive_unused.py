"""The lifecycle's soft archive: by priority and time without use, reversible, and with a receipt that names nobody."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from fusion.contract import Moment, Priority, State
from fusion.journal import Journal, use
from fusion.journal.lifecycle import Memory
from fusion.journal.rows import Record
from fusion.journal.use import Retrieval, Use
from fusion.lib.importance import priority_of
from fusion.upkeep.lifecycle import LifecycleRequest, Report, Rules, ending
from tests.backend_contract import NOW, event_id
from tests.upkeep.lifecycle_helpers import EVERYBODY, Made, add, over, said, states

DAY = timedelta(days=1)
ARCHIVE = Rules(archive_unused=True)


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    opened = await Journal.open(tmp_path / "journal.sqlite")
    yield opened
    await opened.close()


async def archived(journal: Journal, *, dry_run: bool = False) -> Report:
    request = LifecycleRequest(EVERYBODY, dry_run, archive_unused=True)
    return await over(journal).run(request, NOW)


@pytest.mark.row("A129", "priority is what somebody set, else by importance; what nobody graded is never archived")
@pytest.mark.parametrize(
    ("state", "priority"),
    [
        (State(), "P0"),
        (State(importance=0.9), "P0"),
        (State(importance=0.6), "P1"),
        (State(importance=0.1), "P2"),
        (State(importance=0.1, priority="P0"), "P0"),
        (State(importance=0.9, priority="P2"), "P2"),
    ],
)
def test_priority_is_set_or_follows_from_importance(state: State, priority: Priority) -> None:
    assert priority_of(state) == priority


@pytest.mark.row("A129", "P0 is never archived, P1 after 90 days without use, P2 after 30")
@pytest.mark.parametrize(("priority", "days"), [("P0", None), ("P1", 90), ("P2", 30)])
def test_unused_memory_ends_by_its_priority(priority: Priority, days: int | None) -> None:
    for age in (29, 30, 89, 90, 9999):
        made = said(1, age * DAY, lifetime="permanent", priority=priority)
        one = Memory(Record("m1", made.event, state=State(**made.state)))
        due = days is not None and age >= days
        assert (ending(one, NOW, ARCHIVE) is not None) == due
        assert ending(one, NOW, Rules()) is None, "off by default"
        used = Memory(one.record, NOW - DAY)
        assert ending(used, NOW, ARCHIVE) is None, "use counts from the last block"


def test_plan_is_not_archived_before_its_due_time_is_over() -> None:
    made = said(1, 99 * DAY, lifetime="permanent", priority="P2")
    for at, ended in ((NOW + 9 * DAY, False), (NOW - 9 * DAY, True)):
        state = State(**{**made.state, "due": Moment(at, "day")})
        assert (ending(Memory(Record("m1", made.event, state=state)), NOW, ARCHIVE) is not None) == ended


def of_trust(number: int, trust: str, importance: float) -> Made:
    made = said(number, 200 * DAY, f"Ferry {number} has {number} decks.", lifetime="permanent", importance=importance)
    return Made(replace(made.event, trust=trust), made.state)  # type: ignore[arg-type]


@pytest.mark.row("A129", "the receipt of the soft archive counts by priority, trust and importance, and names nothing")
async def test_receipt_counts_and_names_nothing(journal: Journal) -> None:
    await add(journal, of_trust(1, "untrusted", 0.1), of_trust(2, "unknown", 0.6), of_trust(3, "unknown", 0.9))
    counts = {
        "priority": {"P2": 1, "P1": 1},
        "trust": {"untrusted": 1, "unknown": 1},
        "importance": {"ignore": 1, "nice_to_have": 1},
    }
    dry = await archived(journal, dry_run=True)
    assert (dry.archived, dry.archived_by) == (2, counts)
    assert {one.ended for one in (await states(journal)).values()} == {None}
    report = await archived(journal)
    assert (report.archived, report.archived_by) == (2, counts)
    assert [one.ended for _, one in sorted((await states(journal)).items())] == ["archived", "archived", None]


@pytest.mark.row("A129", "an archived memory comes back by undo, and is not archived again")
async def test_archive_is_reversible(journal: Journal) -> None:
    await add(journal, of_trust(1, "unknown", 0.1))
    report = await archived(journal)
    await journal.undo_run(report.run, EVERYBODY, "owner")
    assert (await states(journal))[1].ended is None
    assert (await archived(journal)).archived == 0


@pytest.mark.row("A129", "A130", "being retrieved is no use: only inclusion in a block keeps a memory from the archive")
async def test_retrieval_is_no_use(journal: Journal) -> None:
    await add(journal, of_trust(1, "unknown", 0.1), of_trust(2, "unknown", 0.1))
    await journal.write(
        use.keep,
        {event_id(1): Use(1, NOW - DAY)},
        {event_id(1): Retrieval(1, NOW - DAY), event_id(2): Retrieval(50, NOW - DAY)},
    )
    assert (await archived(journal)).archived == 1
    assert (await states(journal))[1].ended is None
