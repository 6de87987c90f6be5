"""The event log: once, durable, and forgetful when it has to be."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusion.contract import Event, Hit, Place, Scope
from fusion.errors import KeyReused, NotFound, StoreBusy, StoreDamaged, StoreFull
from fusion.journal import Journal
from fusion.journal.rows import words_key
from fusion.journal.tombstones import PER_MEMORY, Withheld
from fusion.lib.bm25 import terms
from fusion.lib.ids import parse_short_ref
from fusion.lib.words import content_hash, spoken
from fusion.store.sqlite import Database
from tests.ingest.helpers import ME, START, event


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    opened = await Journal.open(tmp_path / "journal.sqlite")
    yield opened
    await opened.close()


async def append(journal: Journal, *events):
    stored = await journal.append(events)
    assert not isinstance(stored, str)
    return stored


# Once


async def test_the_same_natural_key_is_the_same_event(journal):
    """A retry is a no-op that returns the first event, in a later call as in the same one."""
    (first,) = await append(journal, event("We chose SQLite.", 7))
    again, twice = await append(journal, event("We chose SQLite.", 7), event("We chose SQLite.", 7))
    assert first.state == "stored"
    assert [(s.state, s.ref, s.event.event_id) for s in (again, twice)] == [
        ("duplicate", first.ref, first.event.event_id)
    ] * 2
    assert (await journal.frequencies(ME, ["sqlite"])).documents == 1


async def test_without_a_key_two_equal_texts_are_two_events(journal):
    """Two people who say "yes" said two things; so did one who said it twice in a conversation."""
    stored = await append(journal, event("yes", kind="turn"), event("yes", kind="turn"))
    others = await append(journal, event("yes"), event("yes", speaker="Mara"), event("yes", scope=Scope(user_id="ben")))
    assert [s.state for s in (*stored, *others)] == ["stored"] * 5
    assert len({s.ref for s in (*stored, *others)}) == 5


@pytest.mark.feature("the same words remembered again are one memory that was said again")
async def test_an_explicit_memory_repeated_in_the_same_words_is_counted_not_stored(journal):
    """But for case and blanks; a third time counts on, and what was forgotten or replaced meanwhile is new."""
    (tea,) = await append(journal, event("Tea is at four."))
    again, third = await append(journal, event("tea  is at FOUR."), event("Tea is at four."))
    assert [(s.state, s.ref, s.said) for s in (tea, again, third)] == [
        ("stored", tea.ref, 1),
        ("duplicate", tea.ref, 2),
        ("duplicate", tea.ref, 3),
    ]
    assert await journal.times_remembered(tea.ref, ME) == 3
    apart = {
        "tagged": event("Tea is at four.", stated=(("room", "hall"),)),
        "dated": event("Tea is at four.", at=START),
        "an agent's": event("Tea is at four.", origin="agent"),
        "in a file": event("Tea is at four.", place=Place("a.md", 1, 1, "line")),
    }
    for name, other in apart.items():
        assert [s.state for s in await append(journal, other)] == ["stored"], name
    (moved,) = await append(journal, event("Tea is at five.", supersedes=tea.ref))
    assert (moved.state, moved.supersedes) == ("superseded", tea.ref)
    (back,) = await append(journal, event("Tea is at four."))
    assert (back.state, back.ref != tea.ref) == ("stored", True)
    await journal.forget([back.ref], ME)
    assert [s.state for s in await append(journal, event("Tea is at four."))] == ["stored"]


async def test_with_a_source_equal_texts_differ_by_their_time(journal):
    """The same words from the same source a minute later are another event; at the same time, the same one."""
    stored = await append(
        journal,
        event("yes", source="chat-app", at=START),
        event("yes", source="chat-app", at=START + timedelta(minutes=1)),
        event("yes", source="chat-app", at=START),
    )
    assert [s.state for s in stored] == ["stored", "stored", "duplicate"]


@pytest.mark.row("A035", "another text at a place that is taken supersedes it")
async def test_another_text_at_a_taken_place_supersedes(journal):
    """An edit is a new event; the old one stays known, and knows what replaced it."""
    old, new = await append(journal, event("We use MySQL.", 3), event("We use Postgres.", 3))
    assert new.state == "superseded"
    assert new.event.supersedes == old.event.event_id
    records = await journal.records([old.event.event_id, new.event.event_id])
    assert records[old.event.event_id].superseded_by == new.event.event_id
    assert records[new.event.event_id].superseded_by is None


@pytest.mark.feature("a text that returns to its place is current again")
async def test_a_text_that_returns_to_its_place_is_current_again(journal):
    """A, then B, then A once more: what was said last stands. A retry of all that was sent changes nothing of that."""
    a, b = await append(journal, event("We use MySQL.", 3), event("We use Postgres.", 3))
    (again,) = await append(journal, event("We use MySQL.", 3))
    assert (again.state, again.event.supersedes) == ("superseded", b.event.event_id)
    records = await journal.records([one.event.event_id for one in (a, b, again)])
    assert [records[one.event.event_id].superseded_by for one in (a, b, again)] == [
        b.event.event_id,
        again.event.event_id,
        None,
    ]
    assert [s.state for s in await append(journal, event("We use MySQL.", 3))] == ["duplicate"]
    # Both in one call are what was sent before: the last of them is meant.
    assert [s.state for s in await append(journal, event("We use Postgres.", 3), event("We use MySQL.", 3))] == [
        "duplicate",
        "duplicate",
    ]


async def test_an_explicitly_replaced_memory_does_not_return_with_its_file(journal):
    """Superseded by a memory without a place, it stays so when the file is read again."""
    (old,) = await append(journal, event("The office is in Lund.", 1))
    await append(journal, event("The office is in Malmö.", supersedes=old.ref))
    assert [s.state for s in await append(journal, event("The office is in Lund.", 1))] == ["duplicate"]


async def test_a_callers_revision_decides_whether_an_event_is_new(journal):
    """The same revision is the same event though its text differs; another revision supersedes."""
    stored = await append(
        journal,
        event("draft", 1, revision="a"),
        event("draft, edited", 1, revision="a"),
        event("draft, edited", 1, revision="b"),
    )
    assert [s.state for s in stored] == ["stored", "duplicate", "superseded"]


async def test_a_place_belongs_to_its_user_and_source(journal):
    """The same document name of another user, or from another source, is another document."""
    stored = await append(
        journal,
        event("one", 1),
        event("one", 1, scope=Scope(user_id="ben")),
        event("one", 1, source="import"),
        event("one", 1, scope=Scope(tenant="acme", user_id="ana")),
    )
    assert [s.state for s in stored] == ["stored"] * 4


async def test_superseding_by_ref_stays_within_the_scope(journal):
    """A memory can be replaced by its short ref; another user's is not there to be replaced, and nothing is kept."""
    (old,) = await append(journal, event("The office is in Lund."))
    (new,) = await append(journal, event("The office is in Malmö.", supersedes=old.ref))
    assert new.event.supersedes == old.event.event_id
    with pytest.raises(NotFound):
        await append(journal, event("fine"), event("mine now", scope=Scope(user_id="eve"), supersedes=old.ref))
    assert (await journal.frequencies(Scope(), ["fine"])).counts == {}


# Idempotency-Key


async def keyed(journal, key, body, *events):
    return await journal.append(events, guard=("default", key, body), reply=lambda s: [one.ref for one in s])


@pytest.mark.row("A152", "an Idempotency-Key replays its reply and refuses another body")
@pytest.mark.row(
    "A152", "an Idempotency-Key again: with the same body, with another, at the same time", part="faults/clients"
)
async def test_an_idempotency_key_replays_its_reply_and_refuses_another_body(journal):
    """The same request gets the first reply as JSON; another request under the key is an error, and keeps nothing."""
    (first,) = await keyed(journal, "k1", "body", event("once"))
    assert await keyed(journal, "k1", "body", event("once")) == f'["{first.ref}"]'
    with pytest.raises(KeyReused):
        await keyed(journal, "k1", "other", event("twice"))
    assert (await journal.frequencies(ME, [])).documents == 1


@pytest.mark.row(
    "A152", "an Idempotency-Key again: with the same body, with another, at the same time", part="faults/clients"
)
async def test_an_idempotency_key_used_concurrently_is_one_request(journal):
    """Of eight concurrent requests one is executed; seven get its reply."""
    outcomes = await asyncio.gather(*(keyed(journal, "k", "body", event("once")) for _ in range(8)))
    assert sum(isinstance(outcome, str) for outcome in outcomes) == 7
    assert (await journal.frequencies(ME, [])).documents == 1


async def test_an_idempotency_key_belongs_to_its_tenant(journal):
    """The same key of another tenant is another key."""
    await keyed(journal, "k", "body", event("once"))
    outcome = await journal.append([event("else")], guard=("acme", "k", "other"), reply=lambda s: [])
    assert not isinstance(outcome, str)


async def test_an_idempotent_retry_does_not_restore_a_forgotten_memory(journal):
    """The key outlives the memory: the retry of a request that the network lost finds it done."""
    (stored,) = await keyed(journal, "k", "body", event("gone"))
    await journal.forget([stored.ref], ME)
    assert isinstance(await keyed(journal, "k", "body", event("gone")), str)
    assert (await journal.frequencies(ME, [])).documents == 0


# Reading


async def test_records_are_found_by_event_id_only_for_the_journals_own_events(journal):
    """A foreign id is not in the answer, in the first read as in the second, which comes from memory."""
    (stored,) = await append(journal, event("hello", 1))
    for _ in range(2):
        found = await journal.records([stored.event.event_id, "foreign"])
        assert list(found) == [stored.event.event_id]
        assert found[stored.event.event_id].ref == stored.ref
        assert found[stored.event.event_id].event == stored.event


async def test_find_takes_a_ref_or_an_event_id_within_the_scope(journal):
    """Another user's, another tenant's and an unknown memory are all the same: not found."""
    (stored,) = await append(journal, event("hello"))
    for ref in (stored.ref, stored.ref.upper(), stored.event.event_id):
        assert (await journal.find(ref, ME)).event == stored.event
    for ref, scope in [(stored.ref, Scope(user_id="ben")), (stored.ref, Scope(tenant="acme")), ("m999", ME), ("?", ME)]:
        with pytest.raises(NotFound):
            await journal.find(ref, scope)


async def texts_beside(journal, stored, span):
    found = await journal.neighbours([stored.event.event_id], span)
    return [record.event.text for record in found.get(stored.event.event_id, ())]


async def test_neighbours_are_the_turns_before_and_after_in_document_order(journal):
    """By position, not by the order in which they came; up to ``span`` on each side; never another user's."""
    stored = await append(journal, *(event(f"turn {n}", n) for n in (4, 1, 3, 0, 2)))
    await append(journal, event("not mine", 2, scope=Scope(user_id="ben")))
    assert await texts_beside(journal, stored[4], 1) == ["turn 1", "turn 3"]
    assert await texts_beside(journal, stored[3], 2) == ["turn 1", "turn 2"]
    assert await texts_beside(journal, stored[0], 1) == ["turn 3"]
    await append(journal, event("turn 5", 5))
    assert await texts_beside(journal, stored[0], 1) == ["turn 3", "turn 5"]


@pytest.mark.feature("agents' accounts of one conversation are orders of their own")
async def test_neighbours_of_two_agents_in_one_conversation_are_kept_apart(journal):
    """What alpha heard before and after stands beside it, not what beta heard at the same place."""
    alpha, beta = Scope(user_id="ana", agent_id="alpha"), Scope(user_id="ana", agent_id="beta")
    heard = await append(journal, *(event(f"alpha {n}", n, scope=alpha) for n in range(3)))
    await append(journal, *(event(f"beta {n}", n, scope=beta) for n in range(3)))
    assert await texts_beside(journal, heard[1], 1) == ["alpha 0", "alpha 2"]


@pytest.mark.feature("… is no neighbour of them, and not on the document's page", of="who claims the lines")
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
    assert await texts_beside(journal, notes[0], 2) == ["line 2", "line 3"]
    assert await texts_beside(journal, planted[0], 2) == []
    page = await journal.document("notes/a.md", ME, 1, 10)
    assert [r.event.text for r in page if r.event.source == read["source"]] == ["line 1", "line 2", "line 3"]
    assert not {r.event.text for r in page} & {"claimed 2", "claimed 2 too", "claimed as a turn"}


@pytest.mark.feature("a tool's turn is no neighbour of a talk's, and replaces none")
async def test_neighbours_leave_out_turns_of_a_tool(journal):
    """What a tool or another source states is not taken for the talk; its own places keep their order."""
    talk = await append(journal, *(event(f"turn {n}", n) for n in range(3)))
    tool = await append(journal, *(event(f"tool {n}", n, origin="tool") for n in range(3)))
    web = await append(journal, *(event(f"web {n}", n, source="web:page") for n in range(2)))
    assert await texts_beside(journal, talk[1], 2) == ["turn 0", "turn 2"]
    assert await texts_beside(journal, tool[1], 1) == ["tool 0", "tool 2"]
    assert await texts_beside(journal, web[0], 1) == ["web 1"]


@pytest.mark.feature("a turn of another source does not join a talk that one source began")
async def test_a_turn_of_another_source_does_not_join_a_conversation_of_one_source(journal):
    """Neither at a place that is taken, nor before, between or after the turns; and it replaces none of them."""
    talk = await append(journal, *(event(f"turn {n}", n, source="chat:12") for n in (1, 2, 5)))
    for source in ("chat:evil", "chat:", "chat:1"):
        for n in (0, 2, 3, 9):
            (planted,) = await append(journal, event(f"planted {n} {source}", n, source=source))
            assert planted.state == "stored"
            assert planted.event.source == f"claimed:{source}"
            assert await texts_beside(journal, planted, 1) != ["turn 1", "turn 2"]
    assert await texts_beside(journal, talk[1], 5) == ["turn 1", "turn 5"]
    (more,) = await append(journal, event("turn 3", 3, source="chat:12"))
    assert await texts_beside(journal, more, 1) == ["turn 2", "turn 5"]
    (edited,) = await append(journal, event("turn 3, edited", 3, source="chat:12"))
    assert edited.state == "superseded"


@pytest.mark.feature("a source without a kind does not join a talk without a source")
async def test_a_source_without_a_kind_does_not_join_a_conversation_without_a_source(journal):
    """Both have no kind, and they are two sources all the same."""
    talk = await append(journal, *(event(f"turn {n}", n) for n in range(3)))
    (planted,) = await append(journal, event("planted", 9, source="chat"))
    assert planted.event.source == "claimed:chat"
    assert await texts_beside(journal, talk[2], 5) == ["turn 0", "turn 1"]


@pytest.mark.feature("a taken place of a talk is not taken by another message")
async def test_a_taken_place_in_a_conversation_refuses_another_message(journal):
    """A talk whose messages each have an id of their own takes the next one; a second text at a place is a claim."""
    talk = await append(journal, *(event(f"turn {n}", n, source=f"chat:message-{n}") for n in range(3)))
    (planted,) = await append(journal, event("planted", 1, source="chat:message-7"))
    assert planted.event.source == "claimed:chat:message-7"
    (again,) = await append(journal, event("planted", 1, source="chat:message-7"))
    assert (again.ref, again.state) == (planted.ref, "duplicate")
    (following,) = await append(journal, event("turn 3", 3, source="chat:message-3"))
    assert await texts_beside(journal, following, 5) == ["turn 0", "turn 1", "turn 2"]
    (sent_again,) = await append(journal, event("turn 1", 1, source="chat:message-1"))
    assert (sent_again.ref, sent_again.state) == (talk[1].ref, "duplicate")


async def test_neighbours_leave_out_forgotten_and_superseded_events(journal):
    """Its place is closed up, or taken by what replaced it."""
    stored = await append(journal, *(event(f"turn {n}", n) for n in range(4)))
    assert await texts_beside(journal, stored[0], 2) == ["turn 1", "turn 2"]
    await journal.forget([stored[1].ref], ME)
    assert await texts_beside(journal, stored[0], 2) == ["turn 2", "turn 3"]
    await append(journal, event("turn 2, edited", 2))
    assert await texts_beside(journal, stored[0], 2) == ["turn 2, edited", "turn 3"]


async def test_neighbours_without_a_document_are_those_of_the_session(journal):
    """Turns that only name a session stand in the order in which they came; what has neither stands alone."""
    scope = Scope(user_id="ana", session_id="s1")
    stored = await append(journal, *(event(text, scope=scope) for text in "abc"), event("alone"))
    assert await texts_beside(journal, stored[1], 3) == ["a", "c"]
    assert await texts_beside(journal, stored[3], 3) == []


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
    assert await texts_beside(journal, beside, 1) == []
    await journal.close()


# Pages


async def walked(journal, scope, limit, *, between=None, **options) -> list[str]:
    """The texts of all pages, one after the other; ``between`` is awaited after each."""
    texts, before = [], None
    while True:
        page = await journal.page(scope, limit, before=before, **options)
        assert len(page.records) <= limit
        texts += [record.event.text for record in page.records]
        if page.next is None:
            return texts
        before = page.next
        if between is not None:
            await between()


@pytest.mark.feature("pages are newest first and stable under inserts")
async def test_pages_are_newest_first_and_stable_under_inserts(journal):
    """What comes in between two pages stands before the first one: nothing is told twice, nothing is missed."""
    await append(journal, *(event(f"note {n}") for n in range(7)))

    async def one_more() -> None:
        await append(journal, event("late"))

    for limit in (1, 2, 3, 7, 100):
        texts = await walked(journal, ME, limit, between=one_more)
        assert [t for t in texts if t != "late"] == [f"note {n}" for n in reversed(range(7))]


async def test_a_page_has_the_current_memories_of_its_scope(journal):
    """Neither forgotten nor superseded, nor another's; by document and by source where they are named."""
    old, gone, *_ = await append(
        journal,
        event("old", 1),
        event("gone"),
        event("theirs", scope=Scope(user_id="bo")),
        event("acme's", scope=Scope(tenant="acme", user_id="ana")),
        event("mine alone", scope=ME),
        event("mailed", source="mail"),
    )
    await append(journal, event("new", 1))
    await journal.forget([gone.ref], ME)
    assert (await journal.page(ME, 1, before=parse_short_ref(old.ref))).records == ()
    assert await walked(journal, ME, 2) == ["new", "mailed", "mine alone"]
    assert await walked(journal, Scope(user_id="ana"), 2) == ["new", "mailed"]
    assert await walked(journal, Scope(), 100) == ["new", "mailed", "theirs"]
    assert await walked(journal, ME, 100, document="chat") == ["new"]
    assert await walked(journal, ME, 100, source="mail") == ["mailed"]
    assert await walked(journal, Scope(tenant="acme"), 100) == ["acme's"]


async def test_a_page_does_not_read_rows_of_other_users(journal):
    """A user with a few memories among many is answered from an index, in order, without sorting."""
    for where in ("tenant = 'a'", "tenant = 'a' and user_id = 'u'", "tenant = 'a' and source = 's'"):
        plan = await journal._database.read(
            lambda db, where=where: db.execute(
                f"explain query plan select * from event where {where} and seq < 9 order by seq desc limit 3"
            ).fetchall()
        )
        index = where.rpartition(" and ")[2].split("_id")[0].split(" ")[0]
        assert [row["detail"].partition(" (")[0] for row in plan] == [f"SEARCH event USING INDEX event_{index}"]


# Document frequencies

WORDS = st.lists(st.sampled_from(["sqlite", "postgres", "river", "lamp", "yes"]), min_size=1, max_size=6).map(" ".join)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), WORDS, st.sampled_from(["ana", "ben", None]), st.integers(0, 4) | st.none()),
        st.tuples(st.just("forget"), st.integers(0, 30)),
    ),
    max_size=25,
)


@pytest.mark.feature("how common a word is counts current memories alone, and follows each change")
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


# Forgetting


@pytest.mark.feature("a forgotten text is nowhere in the journal's files")
async def test_forget_leaves_the_text_in_no_file(journal, tmp_path):
    """The row stays without text and speaker; no file of the journal has the words any more."""
    (stored, _) = await append(
        journal, event("The treasure is forgotten under xylophone.", 1, speaker="Quentin"), event("other", 2)
    )
    (deletion,) = (await journal.forget([stored.ref], ME))[stored.ref]
    assert deletion.record.event.text == "The treasure is forgotten under xylophone."
    record = (await journal.records([stored.event.event_id]))[stored.event.event_id]
    assert (record.forgotten, record.event.text, record.event.speaker) == (True, "", None)
    for file in tmp_path.iterdir():
        found = file.read_bytes().lower()
        assert b"xylophon" not in found, file.name
        assert b"quentin" not in found, file.name
    for ref in (stored.ref, stored.event.event_id):
        with pytest.raises(NotFound):
            await journal.find(ref, ME)
        assert await journal.forget([ref], ME) == {ref: []}


async def test_a_tombstone_blocks_source_and_words_but_not_an_explicit_memory(journal):
    """Re-ingestion at the same place, or of the same sentence elsewhere, is blocked until somebody asks for it."""
    text = "My locker code is on the blue note."
    (stored,) = await append(journal, event(text, 1))
    await journal.forget([stored.ref], ME)
    assert [s.state for s in await append(journal, event(text, 1), event(text, 9))] == ["blocked", "blocked"]
    assert [s.state for s in await append(journal, event(text, 9, scope=Scope(user_id="ben")))] == ["stored"]
    assert [s.state for s in await append(journal, event(text))] == ["stored"]
    assert [s.state for s in await append(journal, event(text, 9))] == ["stored"]


async def test_a_tombstone_of_a_short_text_blocks_no_other_text(journal):
    """A text of fewer than five words is blocked at its place only."""
    (stored,) = await append(journal, event("yes", 1))
    await journal.forget([stored.ref], ME)
    assert [s.state for s in await append(journal, event("yes", 1), event("yes", 2))] == ["blocked", "stored"]


async def test_forget_deletes_earlier_versions(journal):
    """Whoever forgets the third version does not want the first two to be found by a question about last week."""
    stored = await append(journal, *(event(f"The budget is {n} kronor this year.", 1) for n in (10, 20, 30)))
    deletions = (await journal.forget([stored[2].ref], ME))[stored[2].ref]
    assert [b.record.ref for b in deletions] == [stored[2].ref, stored[1].ref, stored[0].ref]
    assert all(r.forgotten for r in (await journal.records([s.event.event_id for s in stored])).values())
    assert (await journal.frequencies(ME, [])).documents == 0


async def test_forget_deletes_derived_memories_with_their_last_source(journal):
    """A summary of two turns outlives the first of them, not both; what another tenant claims to derive stays."""
    one, two = await append(journal, event("turn one", 1), event("turn two", 2))
    sources = (one.event.event_id, two.event.event_id)
    summary, foreign = await append(
        journal,
        event("both turns", derived_from=sources),
        event("theirs", scope=Scope(tenant="acme"), derived_from=sources),
    )
    assert len((await journal.forget([one.ref], ME))[one.ref]) == 1
    assert [b.record.ref for b in (await journal.forget([two.ref], ME))[two.ref]] == [two.ref, summary.ref]
    assert (await journal.find(foreign.ref, Scope(tenant="acme"))).event.text == "theirs"


def left_of(journal: Journal, hit: Hit) -> str:
    """What of a backend's hit may be shown; empty where that is nothing."""
    return "".join(left.text for left in journal.without_forgotten("md", [hit]))


async def test_tombstones_hide_only_forgotten_statements_of_a_file(journal, tmp_path):
    """By the words of its lines, wherever they stand by now, in that document of that tenant; and after a restart."""
    said = "## Ledger\n- the heron ledger is under the oak"
    (stored,) = await append(journal, event(said, place=Place("notes/a.md", 5, 6, "line")))
    await journal.forget([stored.ref], ME)
    moved = Hit("x", "* The heron ledger is under the oak\n- more", place=Place("notes/a.md", 45, 46, "line"))
    innocent = replace(moved, text="## Ledger\n- what stands here by now", place=Place("notes/a.md", 5, 6, "line"))
    elsewhere = replace(moved, place=Place("notes/b.md", 45, 46, "line"))
    again = await Journal.open(tmp_path / "journal.sqlite")
    for one in (journal, again):
        (left,) = one.without_forgotten("md", [moved])
        assert (left.text, left.place) == ("- more", Place("notes/a.md", 46, 46, "line"))
        for kept in (innocent, elsewhere, replace(moved, scope=Scope(tenant="acme"))):
            assert left_of(one, kept) == kept.text
        assert one.hides("md", replace(moved, text="* The heron ledger is under the oak"))
    await again.close()
    assert b"heron" not in (tmp_path / "journal.sqlite").read_bytes()


async def test_tombstones_match_a_file_under_the_names_of_all_readers(journal):
    """Its folder was named to one reader, the folder above to another, and a hash tells it from a namesake."""
    said = "## Ledger\n- the heron ledger is under the oak"
    (stored,) = await append(journal, event(said, place=Place("docs/a.md", 5, 6, "line")))
    await journal.forget([stored.ref], ME)
    for name in ("docs/a.md", "docs-0a1b2c3d/a.md", "project/docs/a.md"):
        assert journal.hides("md", Hit("x", said, place=Place(name, 1, 2, "line"))), name
    for name in ("docs/b.md", "project/a.md", "docs/2026/a.md"):
        assert left_of(journal, Hit("x", said + "\n- more", place=Place(name, 1, 3, "line"))) == said + "\n- more", name


@pytest.mark.feature("what one user forgot in a file, another user's file of that name still says")
async def test_tombstones_of_one_user_do_not_hide_another_users_file(journal, tmp_path):
    """Two users of a tenant have a file of one name; what names no user is everybody's. After a restart, too."""
    said, place = "- the heron ledger is under the oak", Place("docs/a.md", 5, 5, "line")
    ada, berit, carl = Scope(user_id="ada"), Scope(user_id="berit"), Scope(user_id="carl")
    for who in (ada, carl):
        (stored,) = await append(journal, event(said, place=place, scope=who))
        await journal.forget([stored.ref], who)
    again = await Journal.open(tmp_path / "journal.sqlite")
    for one in (journal, again):
        hidden = [one.hides("md", Hit("x", said, place=place, scope=who)) for who in (ada, berit, carl, Scope())]
        assert hidden == [True, False, True, True]
    await again.close()


async def test_a_new_statement_in_a_forgotten_part_of_a_file_is_stored(journal):
    """The line that was forgotten stays away; what else stands in its piece by now is known, and says where."""
    place = Place("notes/a.md", 5, 6, "line")
    (stored,) = await append(journal, event("## Ledger\n- the heron ledger is under the oak", place=place))
    await journal.forget([stored.ref], ME)
    edited, bare = await append(
        journal,
        event("## Ledgers\n- The heron ledger is under the oak.\n- more", place=Place("notes/a.md", 5, 7, "line")),
        event("## Ledger\n- the heron ledger is under the oak", place=Place("notes/a.md", 9, 10, "line")),
    )
    assert (edited.state, edited.withheld, bare.state) == ("stored", 1, "blocked")
    kept = (await journal.find(edited.ref, ME)).event
    assert (kept.text, kept.place) == ("## Ledgers\n\n- more", Place("notes/a.md", 5, 7, "line"))


@pytest.mark.feature("a forgotten sentence is known again when its paragraph is edited or wrapped anew")
async def test_a_forgotten_sentence_stays_hidden_when_its_neighbour_is_edited(journal):
    """And when the paragraph is wrapped at other places: it is known by its words, not by its line."""
    said = "The code of the door\nis 4711. Call Mara on Monday."
    (stored,) = await append(journal, event(said, place=Place("notes/a.md", 5, 6, "line")))
    await journal.forget([stored.ref], ME)
    for edited in (
        "The code of the door is 4711. Call Mara on Tuesday.",
        "The\ncode of the door is\n4711. Call Mara on\nTuesday.",
    ):
        left = left_of(journal, Hit("x", edited, place=Place("notes/a.md", 5, 5 + edited.count("\n"), "line")))
        assert left.split() == ["Call", "Mara", "on", "Tuesday."]


async def test_a_private_key_does_not_outlive_its_first_line(journal):
    """With the line gone that makes a key one, the rest is masked all the same."""
    (stored,) = await append(journal, event("-----BEGIN PRIVATE KEY-----", place=Place("notes/a.md", 5, 5, "line")))
    await journal.forget([stored.ref], ME)
    key = "our key:\n-----BEGIN PRIVATE KEY-----\nMIIEabcd\n-----END PRIVATE KEY-----\nthe end"
    assert left_of(journal, Hit("x", key, place=Place("notes/a.md", 4, 8, "line"))).split() == [
        "our",
        "key:",
        "the",
        "end",
    ]


@pytest.mark.row(
    "A165",
    "… not next to another memory either, by a line that two pieces of a file share",
    of="a tombstone: what was forgotten never comes back",
)
async def test_a_line_is_shown_without_its_forgotten_part(journal):
    """Two pieces of a section say the same line: with the first one forgotten, the second is shown without that."""
    shared = "- the heron ledger is under the oak"
    one, two, three, four = await append(
        journal,
        event(f"- first of all\n{shared}", place=Place("notes/a.md", 1, 2, "line")),
        event(f"{shared}\n- after that", place=Place("notes/a.md", 2, 3, "line")),
        event("- and the last one", place=Place("notes/a.md", 4, 4, "line")),
        event(shared, place=Place("notes/a.md", 5, 5, "line"), revision="5"),
    )
    await journal.forget([one.ref], ME)
    beside = await journal.neighbours([three.event.event_id], 2)
    assert [record.event.text for record in beside[three.event.event_id]] == ["- after that"]
    shown = [(r.ref, r.event.text) for r in await journal.document("notes/a.md", ME, 1, 10)]
    assert shown == [(two.ref, "- after that"), (three.ref, "- and the last one")]
    assert (await journal.find(two.ref, ME)).event.text == "- after that"
    assert [r.event.text for r in (await journal.page(ME, 10)).records] == ["- and the last one", "- after that"]
    records = await journal.records([two.event.event_id, four.event.event_id])
    assert [(r.event.text, r.forgotten) for r in records.values()] == [("- after that", False), ("", True)]
    with pytest.raises(NotFound, match="forgotten in its file"):
        await journal.find(four.ref, ME)


async def test_short_lines_of_a_forgotten_part_of_a_file_are_hidden(journal):
    """Each by its words, but for the name of a section: what a heading of one word is about may come again."""
    said, place = "## PIN\n- 4711\n- 4712", Place("notes/a.md", 5, 7, "line")
    (stored,) = await append(journal, event(said, place=place))
    await journal.forget([stored.ref], ME)
    assert journal.hides("md", Hit("x", said + "\n", place=Place("notes/a.md", 9, 12, "line")))
    assert left_of(journal, Hit("x", "## PIN\n- none\n- 4711", place=place)) == "## PIN\n- none"
    assert journal.visible_lines(Scope(), "notes/a.md", said.split("\n")) == {1: "", 2: "", 3: ""}


async def test_tombstones_of_an_earlier_version_still_hide(tmp_path):
    """It knew lines of three words or more; a shorter one that stands by such a line goes with it."""
    file = tmp_path / "journal.sqlite"
    database = await Database.open(file, Journal.schema[: Journal.schema.index(PER_MEMORY)], fix="")
    hashed = content_hash("- the heron ledger is under the oak")
    words = words_key("PIN 4711\n- the heron ledger is under the oak", None, Scope())

    def forget(db):
        db.execute("insert into hidden values('default', 'notes/a.md', ?, ?)", (hashed, words))

    await database.write(forget)
    await database.close()
    journal = await Journal.open(file)
    text = "PIN 4711\n- the heron ledger is under the oak\n- the oak was felled"
    hit = Hit("x", text, place=Place("notes/a.md", 5, 7, "line"))
    assert left_of(journal, hit) == "- the oak was felled"
    lines = ["# First", "a b", "", "# Second", *text.split("\n")]
    assert journal.visible_lines(Scope(), "notes/a.md", lines) == {4: "", 5: "", 6: ""}
    await journal.close()


async def test_withheld_statements_are_listed_by_document(journal):
    """With the refs that the audit has; a wish that lifts one takes it off the list, and others' it never has."""

    def in_garden(what: str) -> Event:
        return event(f"The {what} is behind the shed.", place=Place("notes/garden.md", 1, 1, "line"), revision=what)

    rake, spade = await append(journal, in_garden("rake"), in_garden("spade"))
    (theirs,) = await append(journal, event("mine", scope=Scope(tenant="acme"), place=Place("a.md", 1, 1, "line")))
    for one in (rake, spade):
        await journal.forget([one.ref], ME)
    await journal.forget([theirs.ref], Scope(tenant="acme"))
    assert await journal.withheld("default") == [Withheld("notes/garden.md", (rake.ref, spade.ref))]
    await append(journal, event("The rake is behind the shed."))
    assert await journal.withheld("default") == [Withheld("notes/garden.md", (spade.ref,))]
    (again,) = await append(journal, in_garden("rake"))
    assert again.state == "stored"


async def test_a_partly_withheld_piece_is_complete_again_after_a_lift(journal):
    """A later ingest of the same file finds what was held back wanted: the whole piece takes the part's place."""
    place = Place("notes/a.md", 1, 2, "line")
    (rake,) = await append(journal, event("The rake is behind the shed.", place=place))
    await journal.forget([rake.ref], ME)
    both = "The rake is behind the shed.\nThe spade is lost."
    (part,) = await append(journal, event(both, place=place))
    assert part.event.text == "The spade is lost."
    assert [one.state for one in await append(journal, event(both, place=place))] == ["duplicate"]
    await append(journal, event("The rake is behind the shed."))
    (again,) = await append(journal, event(both, place=place))
    assert (again.state, again.event.text) == ("stored", both)
    assert part.ref not in [record.ref for record in (await journal.page(ME, 10)).records]


async def test_a_short_forgotten_part_of_a_file_is_shown_again_after_an_explicit_memory(journal):
    """Though no text of five words or more was ever forgotten."""
    said, place = "- the heron ledger", Place("notes/a.md", 5, 5, "line")
    (stored,) = await append(journal, event(said, place=place))
    await journal.forget([stored.ref], ME)
    assert journal.hides("md", Hit("x", said, place=place))
    await append(journal, event(said))
    assert not journal.hides("md", Hit("x", said, place=place))


async def test_agents_of_one_user_do_not_supersede_each_other(journal):
    """The same place of the same conversation, told by two agents, is two events: neither may see the other's."""
    alpha, beta = Scope(user_id="cy", agent_id="alpha"), Scope(user_id="cy", agent_id="beta")
    one, two, three = await append(
        journal,
        event("from alpha", 1, scope=alpha),
        event("from beta", 1, scope=beta),
        event("from beta", 1, scope=beta),
    )
    assert [s.state for s in (one, two, three)] == ["stored", "stored", "duplicate"]


async def test_only_its_owner_supersedes_a_memory(journal):
    """Who names no user cannot make a user's memory vanish; one's own private one gives way to one for all."""
    (stored,) = await append(journal, event("green", scope=Scope(user_id="dora", audience="private")))
    with pytest.raises(NotFound):
        await append(journal, event("red", scope=Scope(), supersedes=stored.ref))
    (newer,) = await append(journal, event("red", scope=Scope(user_id="dora"), supersedes=stored.ref))
    assert newer.state == "superseded"


async def test_redeliver_makes_all_events_due_except_deletions(journal):
    """An emptied store is told of what is kept; what it still has to forget stays due."""
    await journal.outbox.register(["shelf"])
    one, two = await append(journal, event("one", 1), event("two", 2))
    due = await journal.outbox.due("shelf", START, 9)
    await journal.outbox.mark_delivered("shelf", [(d.seq, ["native"]) for d in due])
    await journal.forget([one.ref], ME)
    await journal.outbox.redeliver(["shelf"])
    assert [d.event.event_id for d in await journal.outbox.due("shelf", START, 9)] == [two.event.event_id]
    assert [d.event.event_id for d in await journal.outbox.due_deletions("shelf", START, 9)] == [one.event.event_id]


# Faults


@pytest.mark.feature("disk full keeps nothing by halves and recovers")
async def test_a_full_disk_stores_nothing_partially_and_recovers(journal, tmp_path):
    """507 for the batch that does not fit, all of it; reads go on; with space again, so do writes."""
    (first,) = await append(journal, event("before", 0))
    pages = await journal._database.read(lambda db: db.execute("pragma page_count").fetchone()[0])
    await journal._database.write(lambda db: db.execute(f"pragma max_page_count = {pages + 10}").fetchone())
    batch = [event(f"{n} " + "x" * 2000, n) for n in range(1, 60)]
    with pytest.raises(StoreFull):
        await append(journal, *batch)
    assert (await journal.find(first.ref, ME)).event.text == "before"
    assert await journal.records([e.event_id for e in batch]) == {}
    assert (await journal.frequencies(ME, ["x"])).documents == 1
    await journal._database.write(lambda db: db.execute("pragma max_page_count = 100000").fetchone())
    assert {s.state for s in await append(journal, *batch)} == {"stored"}
    check = sqlite3.connect(tmp_path / "journal.sqlite")
    assert check.execute("pragma integrity_check").fetchone() == ("ok",)
    check.close()


async def test_another_writer_raises_store_busy_and_does_not_block_readers(tmp_path):
    """While somebody else writes: StoreBusy after the busy timeout, reads at once; then all is well again."""
    file = tmp_path / "journal.sqlite"
    journal = Journal(await Database.open(file, [*Journal.schema], busy_s=0.02))
    (first,) = await append(journal, event("before", 0))
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("begin immediate")
    with pytest.raises(StoreBusy):
        await append(journal, event("during", 1))
    assert (await journal.find(first.ref, ME)).event.text == "before"
    other.execute("rollback")
    other.close()
    assert (await append(journal, event("during", 1)))[0].state == "stored"
    await journal.close()


@pytest.mark.feature("a damaged journal is never replaced by an empty one")
async def test_a_damaged_journal_is_never_replaced_by_an_empty_one(tmp_path):
    """The error names the file and what to do; the file is left as it is."""
    file = tmp_path / "journal.sqlite"
    journal = await Journal.open(file)
    await append(journal, *(event(f"{n} " + "word " * 200, n) for n in range(200)))
    await journal.close()
    content = bytearray(file.read_bytes())
    content[8192:20480] = b"\xff" * 12288
    file.write_bytes(content)
    with pytest.raises(StoreDamaged, match=r"journal\.sqlite is damaged.*fusion repair --home"):
        await Journal.open(file)
    assert file.read_bytes() == content


async def test_a_newer_journal_is_refused(tmp_path):
    """A file of a later schema is not touched by an earlier program."""
    file = tmp_path / "journal.sqlite"
    await (await Journal.open(file)).close()
    db = sqlite3.connect(file)
    db.execute("pragma user_version = 99")
    db.commit()
    db.close()
    with pytest.raises(StoreDamaged, match="newer"):
        await Journal.open(file)
