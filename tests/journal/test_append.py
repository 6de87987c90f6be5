"""Appending events: once each, superseding what is at their place, within their owner."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import timedelta

import pytest

from fusion.contract import Hit, Place, Scope
from fusion.errors import BadInput, NotFound
from fusion.journal import Journal, rows
from tests.ingest.helpers import ME, START, event
from tests.journal.helpers import append, hides


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


OF_THE_VERSION_BEFORE = "update event set words_hash = 0"
"""as a program stores memories that does not know the column, during an update of several gateways"""


async def test_memories_that_an_older_program_stored_are_found_by_their_words(journals):
    """As repeats, and to be forgotten together; a start adds what it left out, and nothing of it stays."""
    hashes = "select words_hash from event order by seq"
    before = await journals.open()
    (tea,) = await append(before, event("Tea is at four in the hall."))
    await append(before, event("Tea is at FOUR in the  hall.", stated=(("room", "hall"),)))
    hashed = [row["words_hash"] for row in await before.read(lambda db: db.execute(hashes).fetchall())]
    await before.write(lambda db: db.execute(OF_THE_VERSION_BEFORE))
    (again,) = await append(before, event("tea is at four in the hall."))
    assert (again.state, again.ref, len(set(hashed))) == ("duplicate", tea.ref, 1)
    await before.close()
    journal = await journals.open()
    assert [row["words_hash"] for row in await journal.read(lambda db: db.execute(hashes).fetchall())] == hashed
    assert len((await journal.forget([tea.ref], ME))[tea.ref]) == 2
    assert [row["words_hash"] for row in await journal.read(lambda db: db.execute(hashes).fetchall())] == [0, 0]
    await journal.write(lambda db: db.execute("update event set words_hash = 7"))  # it forgets, and leaves the hash
    await journal.close()
    journal = await journals.open()
    assert [row["words_hash"] for row in await journal.read(lambda db: db.execute(hashes).fetchall())] == [0, 0]


@pytest.mark.feature("the same words remembered again are one memory with a count")
async def test_an_explicit_memory_repeated_in_the_same_words_is_counted_not_stored(journal):
    """But for case and blanks; a third time counts on, and what was forgotten or replaced meanwhile is new."""
    (tea,) = await append(journal, event("Tea is at four."))
    again, third = await append(journal, event("tea  is at FOUR."), event("Tea is at four."))
    assert [(s.state, s.ref, s.said) for s in (tea, again, third)] == [
        ("stored", tea.ref, 1),
        ("duplicate", tea.ref, 2),
        ("duplicate", tea.ref, 3),
    ]
    assert await journal.read(rows.times_remembered, tea.ref, ME) == 3
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


@pytest.mark.row("A035", "a new text at an occupied place supersedes the old one")
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
    """A, then B, then A again: the last statement is current. A retry of everything sent changes nothing."""
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


async def test_agents_of_one_user_do_not_supersede_each_other(journal):
    """The same place of a conversation, recorded by two agents, is two events: neither may see the other's."""
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


LONG = "".join(hashlib.sha256(bytes([n])).hexdigest() for n in range(150))
"""9,600 characters without a repetition, which no entry of an index of PostgreSQL holds, nor its compression"""


@pytest.mark.feature("a word, a name or a line of any length is stored and forgotten alike in both databases")
async def test_long_words_and_names_are_stored_found_and_forgotten(journal: Journal) -> None:
    """PostgreSQL's indexes take 2,700 bytes; the keys of what is longer end in a digest."""
    wide = "".join(chr(0x100 + int(LONG[n : n + 3], 16) % 0x600) for n in range(0, 3 * 768, 3))
    scope = Scope(user_id="u" * 256, agent_id=wide[:256], run_id=wide[256:512], session_id=wide[512:768])
    place = Place(LONG[:200], 5, 5, "line")
    one = replace(event(f"- {LONG} is the key of the heron"), scope=scope, place=place, source=LONG[:512])
    (stored,) = await append(journal, one)
    (again,) = await append(journal, replace(one, event_id="again"))
    (other,) = await append(journal, replace(one, event_id="other", source=f"{LONG[:511]}!", text="The crane"))
    assert (stored.state, again.state, other.state) == ("stored", "duplicate", "stored")
    assert (await journal.frequencies(scope, [LONG, "heron"])).counts == {"heron": 1}
    await journal.forget([stored.ref], scope)
    assert (await journal.frequencies(scope, [LONG, "heron"])).counts == {}
    assert hides(journal, "md", Hit("x", one.text, scope, place=place))


async def test_names_that_are_too_long_together_are_refused_with_the_limit(journal: Journal) -> None:
    """The same limit in both databases; what is in ASCII, and within the doors' own limits, is never refused."""
    wide = "\U0001f9a9" * 256
    one = replace(event("the heron"), scope=Scope(user_id=wide, agent_id=wide))
    with pytest.raises(BadInput, match="have 2048 bytes together, and 2000 are the most: use shorter names"):
        await append(journal, one)
    assert (await journal.watermark()).events == 0
