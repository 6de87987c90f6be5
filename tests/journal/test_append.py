"""Appending events: once each, superseding what is at their place, within their owner."""

from __future__ import annotations

from datetime import timedelta

import pytest

from fusion.contract import Place, Scope
from fusion.errors import NotFound
from fusion.journal import rows
from tests.ingest.helpers import ME, START, event
from tests.journal.helpers import append


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
