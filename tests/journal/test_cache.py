"""The cache of records, neighbours and document frequencies."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusion.contract import Place, Scope
from fusion.journal import Journal
from fusion.journal.cache import JournalCache
from fusion.journal.rows import RECORD_COLUMNS, record_in, record_of
from fusion.lib.bm25 import terms
from fusion.lib.words import spoken
from fusion.store.sqlite import Database
from tests.ingest.helpers import ME, event
from tests.journal.helpers import append, neighbour_texts


async def test_records_are_found_by_event_id_only_for_the_journals_own_events(journal):
    """A foreign id is not in the answer, in the first read as in the second, which comes from memory."""
    (stored,) = await append(journal, event("hello", 1))
    for _ in range(2):
        found = await journal.records([stored.event.event_id, "foreign"])
        assert list(found) == [stored.event.event_id]
        assert found[stored.event.event_id].ref == stored.ref
        assert found[stored.event.event_id].event == stored.event


async def test_neighbours_are_the_turns_before_and_after_in_document_order(journal):
    """By position, not by the order in which they came; up to ``span`` on each side; never another user's."""
    stored = await append(journal, *(event(f"turn {n}", n) for n in (4, 1, 3, 0, 2)))
    await append(journal, event("not mine", 2, scope=Scope(user_id="ben")))
    assert await neighbour_texts(journal, stored[4], 1) == ["turn 1", "turn 3"]
    assert await neighbour_texts(journal, stored[3], 2) == ["turn 1", "turn 2"]
    assert await neighbour_texts(journal, stored[0], 1) == ["turn 3"]
    await append(journal, event("turn 5", 5))
    assert await neighbour_texts(journal, stored[0], 1) == ["turn 3", "turn 5"]


@pytest.mark.feature("each agent's account of one conversation has its own order")
async def test_neighbours_of_two_agents_in_one_conversation_are_kept_apart(journal):
    """The neighbours are alpha's turns before and after, not beta's at the same place."""
    alpha, beta = Scope(user_id="ana", agent_id="alpha"), Scope(user_id="ana", agent_id="beta")
    heard = await append(journal, *(event(f"alpha {n}", n, scope=alpha) for n in range(3)))
    await append(journal, *(event(f"beta {n}", n, scope=beta) for n in range(3)))
    assert await neighbour_texts(journal, heard[1], 1) == ["alpha 0", "alpha 2"]


@pytest.mark.feature(
    "… it is no neighbour of them, and not on the document's page", of="a claim to the lines of a file"
)
async def test_neighbours_leave_out_claimed_lines_of_a_note(journal):
    """The reader of a file states its lines; what was remembered under that name has neighbours of its own kind."""
    lines = [Place("notes/a.md", n, n, "line") for n in (1, 2, 3)]
    read = {"source": "file:/home/ana/notes/a.md"}
    notes = await append(journal, *(event(f"line {p.start}", place=p, **read) for p in lines))
    claims = [
        event("claimed 2", place=lines[1], source="web:evil.example"),
        event("claimed 2 too", place=lines[1]),
        event("claimed by a clone", place=lines[1], source="file:/tmp/clone/notes/a.md"),
        event("claimed as a turn", place=Place("notes/a.md", 2, 2)),
    ]
    planted = await append(journal, *claims)
    assert await neighbour_texts(journal, notes[0], 2) == ["line 2", "line 3"]
    assert await neighbour_texts(journal, planted[0], 2) == []
    page = await journal.document("notes/a.md", ME, 1, 10)
    assert [r.event.text for r in page if r.event.source == read["source"]] == ["line 1", "line 2", "line 3"]
    assert not {r.event.text for r in page} & {"claimed 2", "claimed 2 too", "claimed as a turn"}


@pytest.mark.feature("a tool's turn is not a neighbour of a conversation's turns, and replaces none")
async def test_neighbours_leave_out_turns_of_a_tool(journal):
    """What a tool or another source states is not taken for the talk; its own places keep their order."""
    talk = await append(journal, *(event(f"turn {n}", n) for n in range(3)))
    tool = await append(journal, *(event(f"tool {n}", n, origin="tool") for n in range(3)))
    web = await append(journal, *(event(f"web {n}", n, source="web:page") for n in range(2)))
    assert await neighbour_texts(journal, talk[1], 2) == ["turn 0", "turn 2"]
    assert await neighbour_texts(journal, tool[1], 1) == ["tool 0", "tool 2"]
    assert await neighbour_texts(journal, web[0], 1) == ["web 1"]


async def test_neighbours_leave_out_forgotten_and_superseded_events(journal):
    """Its place is closed up, or taken by what replaced it."""
    stored = await append(journal, *(event(f"turn {n}", n) for n in range(4)))
    assert await neighbour_texts(journal, stored[0], 2) == ["turn 1", "turn 2"]
    await journal.forget([stored[1].ref], ME)
    assert await neighbour_texts(journal, stored[0], 2) == ["turn 2", "turn 3"]
    await append(journal, event("turn 2, edited", 2))
    assert await neighbour_texts(journal, stored[0], 2) == ["turn 2, edited", "turn 3"]


async def test_neighbours_without_a_document_are_those_of_the_session(journal):
    """Turns that name only a session are in the order of arrival; a memory without session or document is alone."""
    scope = Scope(user_id="ana", session_id="s1")
    stored = await append(journal, *(event(text, scope=scope) for text in "abc"), event("alone"))
    assert await neighbour_texts(journal, stored[1], 3) == ["a", "c"]
    assert await neighbour_texts(journal, stored[3], 3) == []


class HeldDatabase(Database):
    """A database whose reads have seen the file, but do not come back before ``gate`` is set."""

    gate: asyncio.Event | None = None

    async def read(self, work):
        seen = await super().read(work)
        if self.gate is not None:
            self.reached.release()
            await self.gate.wait()
        return seen


async def test_the_cache_drops_a_read_that_began_before_a_deletion(tmp_path):
    """What such reads saw, a record and the order of its document, is not kept: the next ones know better."""
    database = await HeldDatabase.open(tmp_path / "journal.sqlite", [*Journal.schema])
    journal = Journal(database)
    (stored, beside) = await append(journal, event("secret", 1), event("beside", 2))
    await journal.records([beside.event.event_id])
    gate = database.gate = asyncio.Event()
    database.reached = asyncio.Semaphore(0)
    early = [
        asyncio.create_task(journal.records([stored.event.event_id])),
        asyncio.create_task(journal.neighbours([beside.event.event_id], 1)),
    ]
    for _ in early:
        await database.reached.acquire()
    database.gate = None
    await journal.forget([stored.ref], ME)
    gate.set()
    await asyncio.gather(*early)
    record = (await journal.records([stored.event.event_id]))[stored.event.event_id]
    assert record.forgotten
    assert record.event.text == ""
    assert await neighbour_texts(journal, beside, 1) == []
    await journal.close()


WORDS = st.lists(st.sampled_from(["sqlite", "postgres", "river", "lamp", "yes"]), min_size=1, max_size=6).map(" ".join)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), WORDS, st.sampled_from(["ana", "ben", None]), st.integers(0, 4) | st.none()),
        st.tuples(st.just("forget"), st.integers(0, 30)),
    ),
    max_size=25,
)


@pytest.mark.feature("word frequencies count current memories only, and follow each change")
@settings(max_examples=25, deadline=None)
@given(STEPS)
def test_frequencies_equal_a_recount(steps):
    """After any appends, edits and forgettings: the numbers of a user, and of the tenant, are those of what is live."""

    async def run(folder: Path) -> None:
        journal = await Journal.open(folder / "journal.sqlite")
        seen = []
        for step in steps:
            for user in ("ana", "ben", None):  # what was counted before is not told after
                await journal.frequencies(Scope(user_id=user), ["sqlite", "lamp"])
            if step[0] == "append":
                seen += await append(journal, event(step[1], step[3], scope=Scope(user_id=step[2])))
            elif seen:
                await journal.forget([seen[step[1] % len(seen)].event.event_id], Scope())
        records = await journal.records([s.event.event_id for s in seen])
        live = {i: r.event for i, r in records.items() if not r.forgotten and r.superseded_by is None}
        for user in ("ana", "ben", None):
            scope = Scope(user_id=user)
            documents = [terms(spoken(e.text, e.speaker)) for e in live.values() if user in (None, e.scope.user_id)]
            counts = Counter(term for document in documents for term in set(document))
            some = await journal.frequencies(scope, ["sqlite", "lamp"])
            found = await journal.frequencies(scope, sorted(set(terms("sqlite postgres river lamp yes"))))
            assert some == replace(found, counts={t: n for t, n in found.counts.items() if t in ("sqlite", "lamp")})
            assert found.documents == len(documents)
            assert dict(found.counts) == dict(counts)
            if documents:
                assert found.average_length == sum(map(len, documents)) / len(documents)
        await journal.close()

    with TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))


class CountedReads:
    """A database that counts its reads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.reads = 0

    async def read(self, work):
        self.reads += 1
        return await self._database.read(work)

    async def rows(self, sql, values=()):
        self.reads += 1
        return await self._database.rows(sql, values)


@pytest.mark.feature("the neighbours of a question's candidates are read together, however many documents these are in")
async def test_neighbours_in_many_documents_take_as_many_reads_as_in_few(file_journal):
    reads = {}
    for documents in (2, 16):
        places = [Place(f"chat {documents}/{n}", at, at) for n in range(documents) for at in range(3)]
        stored = await append(file_journal, *(event(f"turn {place}", place=place) for place in places))
        counted = CountedReads(file_journal._database)
        middles = [one.event.event_id for one in stored[1::3]]
        found = await JournalCache(counted).neighbours(middles, 1)
        assert [len(found[event_id]) for event_id in middles] == [2] * documents
        reads[documents] = counted.reads
    assert reads[16] == reads[2]


@pytest.mark.feature("records that are read by the position of their columns are those that are read by name")
async def test_records_by_position_are_those_by_name(journal):
    at = datetime(2026, 3, 1, 9, tzinfo=UTC)
    stored = await append(
        journal,
        event("plain"),
        event("of a project", scope=Scope(user_id="ana", project="mill"), stated=(("colour", "red"),)),
        event("a turn", 1, speaker="Ana", at=at, valid_to=at, trust="untrusted", origin="tool", source="web:a"),
        event("a turn that was edited", 1, speaker="Ana", at=at, trust="untrusted", origin="tool", source="web:a"),
    )
    await append(journal, event("plain"))
    await journal.forget([stored[1].ref], Scope(user_id="ana", project="mill"))

    def by_name(db):
        return [record_of(row) for row in db.execute("select * from event order by seq")]

    def by_position(db):
        return [record_in(tuple(row)) for row in db.execute(f"select {RECORD_COLUMNS} from event order by seq")]

    named = await journal.read(by_name)
    assert await journal.read(by_position) == named
    assert [record.forgotten for record in named][:2] == [False, True]
    assert named[0].said_at is not None
    assert named[2].superseded_by is not None
