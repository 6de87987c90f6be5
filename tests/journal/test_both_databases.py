"""Every reading function returns the same from a file and from PostgreSQL, of journals with the same content."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fusion.contract import Event, Moment, Place, Scope, TimeRange, Where
from fusion.journal import (
    Journal,
    activity,
    browsing,
    cards,
    distil_queue,
    feedback,
    grades,
    histories,
    inclusions,
    items,
    jobs,
    layers,
    lifecycle,
    listing,
    observation_vectors,
    observations,
    outbox,
    owners,
    plans,
    prefix,
    proposals,
    retire,
    state,
    statements,
    temporal_facts,
    tombstones,
    triage,
    use,
)
from fusion.journal.browsing import Browse
from fusion.journal.observations import Wanted
from fusion.lib.ids import short_ref
from tests.journal.conftest import Journals
from tests.journal.helpers import append
from tests.journal.test_merge import current, merge_into, rows_of

if TYPE_CHECKING:
    from fusion.store.postgres import Server

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ANA = Scope(user_id="ana", audience="private")


def memory(n: int, text: str, **fields: Any) -> Event:
    return Event(f"e{n}", text, NOW + timedelta(minutes=n), fields.pop("scope", ANA), **fields)


def turn(n: int, text: str) -> Event:
    said = Moment(NOW - timedelta(days=2) + timedelta(minutes=n))
    return memory(n, text, kind="turn", speaker="Ana", at=said, place=Place("talk", n, n, "turn"), source="web:1")


EVENTS = [
    memory(1, "Ana likes tea", kind="preference", source="mail:1"),
    memory(2, "Ånde says: the HERON is on the roof", speaker="Ånde", kind="note"),
    memory(3, "We move the bookings to Postgres", kind="decision", stated=(("tag", "db"), ("importance", "0.8"))),
    memory(4, "Call the plumber", kind="plan", stated=(("due", "2026-03-02T09:00:00Z"),)),
    memory(5, "The winter market", kind="episode", at=Moment(NOW - timedelta(days=30), "day")),
    memory(6, "Ben likes coffee", scope=Scope(user_id="ben")),
    memory(7, "nobody's word, in a group", scope=Scope()),
    memory(8, "- the heron ledger is under the oak", place=Place("notes/a.md", 5, 5, "line"), source="file:/a.md"),
    memory(9, "the gate's code is in the blue book", trust="untrusted", source="web:2"),
    memory(10, "a long text. " * 80, kind="note"),
    *(turn(n, f"turn {n} of the talk about herons") for n in range(20, 26)),
    memory(30, "forget this sentence of five words or more"),
    memory(31, "merged into another memory"),
    memory(32, "an expired memory", valid_to=NOW + timedelta(hours=1)),
]


async def fill(journal: Journal) -> None:
    journal.outbox.stores = ("shelf", "graph")
    journal.enable_distillation()
    for event in EVENTS:
        await journal.append([event])
    await journal.append([replace(EVENTS[10], event_id="e40", text="turn 20, edited", revision="2")])
    await journal.forget(["e30"], ANA)
    changes: list[tuple[str, dict[str, Any]]] = [
        ("e1", {"importance": 0.9}),
        ("e3", {"confidence": 0.4, "project": "alpha"}),
        ("e9", {"trust": "quarantined"}),
        ("e31", {"merged_into": "e1"}),
        ("e32", {"ended_at": NOW, "ended": "expired"}),
    ]
    for event_id, change in changes:
        await journal.decide({event_id: change}, "ana", "because", now=NOW)
    await journal.write(jobs.note_schedule, "reflect", "0 3 * * *", NOW)
    lease = await journal.write(
        jobs.take, jobs.RunRequest("reflect", "me", slot=NOW, started_by="schedule"), NOW, timedelta(minutes=5)
    )
    assert lease is not None
    await journal.write(jobs.finish, lease, "failed", {"host": "h1", "faults": {"a": "b"}}, NOW)
    key = histories.HistoryKey.of(ANA)
    await journal.write(histories.put, key, "chat", b"body", NOW, timedelta(minutes=1), 1000)
    await journal.write(use.keep, {"e1": use.Use(2, NOW)}, {"e2": use.Retrieval(1, NOW)})
    await journal.write(use.keep, {"e1": use.Use(3, NOW + timedelta(hours=1))}, {})
    await journal.write(
        inclusions.add, [inclusions.Inclusion("e1", "r1", NOW, "block", None, 1, 0.5, None, ("shelf",))] * 2
    )
    await journal.write(layers.refuse, "e10", "no", NOW)
    await journal.write(prefix.open_window, ANA, NOW)


LATER = NOW + timedelta(days=365)
BROWSED: Mapping[str, Mapping[str, Any]] = {
    "all": {"state": "all"},
    "newest": {"order": "newest"},
    "oldest": {"order": "oldest", "limit": 4},
    "importance": {"order": "importance"},
    "important": {"min_importance": 0.5},
    "words": {"q": "HERON roof"},
    "tag": {"tag": "db"},
    "project": {"in_project": "alpha"},
    "trust": {"trust": "quarantined", "reads_quarantined": True},
    **{one: {"state": one} for one in ("expired", "merged", "superseded", "quarantined", "retired", "archived")},
}
READS: Mapping[str, Callable[[Any], Any]] = {
    "activity": lambda db: activity.activity(db, ANA, NOW - timedelta(days=9)),
    **{
        f"browse {name}": lambda db, chosen=chosen: browsing.browse(db, Browse(ANA, **chosen), NOW)
        for name, chosen in BROWSED.items()
    },
    "cards": lambda db: cards.listed(db, ANA, 9),
    "distil": lambda db: distil_queue.oldest(db, 9),
    "extractions": lambda db: distil_queue.extractions(db, ["e1"]),
    "votes": lambda db: feedback.page(db, "default", 9),
    "tally": lambda db: grades.tally(db, ANA, ["turn"]),
    "ungraded": lambda db: grades.ungraded(db, ANA, ["turn"], 0, 99),
    "reverted": lambda db: grades.reverted(db, ["e1"]),
    "histories": lambda db: (histories.due_in(db, LATER, timedelta(hours=1)), histories.backlog(db)),
    "turns": lambda db: len(histories.turns_at(db, ANA, "web:1", "talk", [20, 21])),
    "included": lambda db: inclusions.of(db, "e1", NOW - timedelta(days=1), 9),
    "items": lambda db: (items.within(db, ANA, ()), items.namespaces(db, ANA)),
    "jobs": lambda db: (
        jobs.schedules(db),
        jobs.states(db),
        jobs.by_host(db),
        jobs.failed(db),
        jobs.log_page(db, None, 9),
    ),
    "layers": lambda db: (layers.of(db, ["e10"], by_model=True), layers.methods_of(db, "e10")),
    "layers wanted": lambda db: (
        layers.newest_without(db, None, LATER),
        layers.waiting(db, LATER),
        layers.waiting(db, NOW),
    ),
    "lifecycle": lambda db: (lifecycle.count(db, ANA), lifecycle.page(db, ANA, 0, 99), lifecycle.get(db, ["e1"])),
    "orphans": lambda db: lifecycle.orphans(db, ANA, ["e1"]),
    "expired": lambda db: lifecycle.expired(db, ANA, -1),
    "page": lambda db: listing.page(db, ANA, 9),
    "matching": lambda db: listing.matching(db, ANA, listing.Criteria(after=NOW), 99, among=["m1", "m2"]),
    "happened": lambda db: listing.happened(
        db, ANA, [TimeRange(NOW - timedelta(days=40), LATER)], 9, zone=None, history=False, every=True
    ),
    "fitting": lambda db: listing.fitting(
        db, ANA, Where(speaker=("ånde", "ana"), kind=("note", "turn")), 9, history=True
    ),
    "fitting folder and tag": lambda db: (
        listing.fitting(db, ANA, Where(folder=("notes",)), 9, history=False),
        listing.fitting(db, ANA, Where(tag=("db",)), 9, history=False),
    ),
    "document": lambda db: listing.document(db, "talk", ANA, 21, 3),
    "counts": lambda db: (listing.counts(db, "default"), listing.counts_of_scope(db, ANA)),
    "observations": lambda db: (
        observations.page(db, Wanted(ANA), 9),
        observations.by_words(db, "heron", Wanted(ANA), 9),
    ),
    "vectors": lambda db: observation_vectors.count_without(db, Wanted(ANA), "m"),
    "outbox": lambda db: (outbox.deliveries(db), outbox.outcomes(db, [1, 14])),
    "owners": lambda db: (owners.read(db, "default"), owners.by_agent(db, "default")),
    "plans": lambda db: (plans.plans(db, ANA, 9, by=None), plans.plans(db, ANA, 9, by=NOW)),
    "prefix": lambda db: (prefix.counts(db), prefix.windows(db), prefix.first_turn(db, ANA)),
    "proposals": lambda db: (proposals.page(db, ANA, 9), proposals.counts(db, ANA)),
    "sources": lambda db: retire.sources(db, ANA, "", "", 9),
    "states": lambda db: (state.log(db, ANA, 9), state.counts(db), state.externals(db), state.changed_since(db, 0)),
    "decided": lambda db: (
        state.decided_on(db, ["e1", "e2"]),
        state.kept_apart(db, ["e31"]),
        state.endings_reverted(db, ["e32"]),
    ),
    "statements": lambda db: (statements.oldest(db, 99), statements.waiting(db), statements.texts(db, ANA, 9)),
    "facts": lambda db: (
        temporal_facts.rows(db),
        temporal_facts.subjects(db, ANA, 9),
        temporal_facts.asserted(db, ANA),
    ),
    "tombstones": lambda db: (tombstones.withheld_documents(db, "default"), [*tombstones.quarantined(db)]),
    "triage": lambda db: (
        triage.open_conflicts(db, ANA, 9),
        triage.quarantined(db, ANA, 9),
        triage.untrusted_but_used(db, ANA, 9),
    ),
    "use": lambda db: (use.of(db, ["e1", "e2"]), use.written(db, "e2")),
}


@pytest.fixture
async def both(tmp_path: Path, journal_server: Server) -> AsyncIterator[list[Journal]]:
    """A journal in a file and one in PostgreSQL, with the same content."""
    opened = [Journals(tmp_path, None), Journals(tmp_path, journal_server)]
    journals = [await one.open() for one in opened]
    for journal in journals:
        await fill(journal)
    yield journals
    for one in opened:
        await one.close()


async def test_every_reading_function_returns_the_same(both: list[Journal]) -> None:
    """What one database takes for a column or a truth value, and the other refuses, would show only in use."""
    different, raised = {}, {}
    for name, read in READS.items():
        try:
            of_file, of_server = [repr(await journal.read(read)) for journal in both]
        except Exception as error:  # noqa: BLE001 – all of them at once
            raised[name] = f"{type(error).__name__}: {error}"
            continue
        if of_file != of_server:
            different[name] = (of_file, of_server)
    assert raised == {}
    assert different == {}


TAGGED = {"tags": ["a\0\0b", "\\u0000", "\\\0"], "importance": 0.8, "due": {"utc": "2026-03-02T09:00:00Z"}}


@pytest.mark.feature("journals in PostgreSQL: a NUL in what is stored of one memory breaks no read, list or job")
async def test_a_stored_nul_breaks_no_read(both: list[Journal]) -> None:
    """Versions before took one in a tag. PostgreSQL reads nothing of JSON that has its escape."""
    written = json.dumps(TAGGED)

    def store(db: Any) -> None:
        db.execute("update event set state = ? where event_id in ('e2', 'e4')", (written,))
        db.execute("update state_change set after = ? where item = 'e31'", (written,))
        db.execute("update job_run set receipt = ?", (json.dumps({"host": "h1", "faults": {"a": "b\0"}}),))

    for journal in both:
        await journal.write(store)
    await test_every_reading_function_returns_the_same(both)
    for journal in both:
        chosen = Browse(ANA, tag="\\u0000", state="all")
        assert [one.event.event_id for one in (await journal.read(browsing.browse, chosen, NOW)).records] == [
            "e4",
            "e2",
        ]


async def test_an_export_of_either_database_is_merged_into_the_other(
    both: list[Journal], tmp_path: Path, journal_server: Server
) -> None:
    """So a home moves to PostgreSQL and back; what is remembered next gets the number after the last one."""
    for source, server in zip(both, (journal_server, None), strict=True):
        places = Journals(tmp_path, server)
        target = await places.open("moved")
        await merge_into(target, await rows_of(source))
        assert await current(target) == await current(source)
        for name in ("page", "counts", "document", "plans", "tally", "states", "facts"):
            assert repr(await target.read(READS[name])) == repr(await source.read(READS[name])), name
        numbers = [(await one.watermark()).seq for one in (source, target)]
        assert numbers[0] == numbers[1]
        (stored,) = await append(target, memory(99, "what is said after the move"))
        assert stored.ref == short_ref(numbers[0] + 1)
        await places.close()
