"""The state of memories in the journal: decisions, their log, their undo, and what questions see of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusion.contract import Event, Hit, Query, Scope, State, StateChange
from fusion.errors import BadInput, NotFound
from fusion.journal import Journal, state
from fusion.journal.external_refs import ExternalItem, store_items
from fusion.lib.ids import external_ref
from fusion.recall.filter import admit
from tests.journal.helpers import append

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ANA = Scope(user_id="ana")


def memory(event_id: str, text: str = "Ana likes tea", **more) -> Event:
    return Event(event_id, text, NOW - timedelta(days=2), ANA, "fact", **more)


async def kept(journal: Journal, *, as_of: datetime | None = None, now: datetime = NOW) -> set[str]:
    """The event ids that a question sees when a backend answers all of them."""
    events = [one.event for one in (await journal.page(Scope(), 100)).records]
    records = await journal.records([one.event_id for one in events])
    admitted, _ = admit("any", [Hit.of(one) for one in events], Query("tea", ANA, now, as_of=as_of), records)
    return {item.hit.event_id or "" for item in admitted}


async def state_now(journal: Journal, event_id: str) -> State:
    return (await journal.records([event_id]))[event_id].state


@pytest.mark.feature("a decision on a memory holds for the hits of every backend, and can be undone")
async def test_an_archived_memory_is_hidden_until_the_decision_is_undone(journal):
    await append(journal, memory("a"), memory("b", "Ana likes coffee"))
    made = await journal.decide({"a": {"ended_at": NOW, "ended": "archived"}}, "ana", "no longer of interest")
    assert made is not None
    assert await kept(journal) == {"b"}
    assert await kept(journal, as_of=NOW - timedelta(days=1)) == {"a", "b"}, "it was current then"
    undone = await journal.undo_decision(made.name, ANA, "ana")
    assert await kept(journal) == {"a", "b"}
    assert undone.undoes == made.id


async def test_a_merged_memory_is_hidden_now_and_answered_for_the_past(journal):
    await append(journal, memory("a"), memory("b", "Ana really likes tea"))
    await journal.decide({"b": {"merged_into": "a"}}, "consolidate", "both say the same")
    assert await kept(journal) == {"a"}
    assert await kept(journal, as_of=NOW - timedelta(days=1)) == {"a", "b"}


async def test_a_quarantine_by_decision_hides_and_its_undo_shows_again(journal):
    await append(journal, memory("a"))
    made = await journal.decide({"a": {"trust": "quarantined"}}, "ana", "it is a lie")
    assert await kept(journal) == set()
    await journal.undo_decision(made.name, ANA, "ana")
    assert await kept(journal) == {"a"}


async def test_the_log_says_who_when_why_before_and_after(journal):
    (stored,) = await append(journal, memory("a"))
    await journal.decide({"a": {"confidence": 0.9}}, "consolidate", "said again", now=NOW)
    (entry,) = await journal.read(state.log, ANA, 10, ref=stored.ref)
    assert (entry.at, entry.who, entry.why) == (NOW, "consolidate", "said again")
    (change,) = entry.changes
    assert (change.ref, change.before, change.after) == (stored.ref, {"confidence": 0.7}, {"confidence": 0.9})


async def test_what_changes_nothing_is_no_decision(journal):
    await append(journal, memory("a"))
    assert await journal.decide({"a": {"confidence": 0.7}, "unknown": {"confidence": 0.1}}, "x", "y") is None
    assert await journal.read(state.log, ANA, 10) == []


async def test_an_undo_of_an_undo_has_the_decision_again(journal):
    await append(journal, memory("a"))
    first = await journal.decide({"a": {"ended_at": NOW, "ended": "archived"}}, "ana", "why")
    second = await journal.undo_decision(first.name, ANA, "ana")
    with pytest.raises(BadInput, match=rf"{first.name} was undone by {second.name}"):
        await journal.undo_decision(first.name, ANA, "ana")
    await journal.undo_decision(second.name, ANA, "ana")
    assert await kept(journal) == set()
    await journal.undo_decision(first.name, ANA, "ana")
    assert await kept(journal) == {"a"}


async def test_a_decision_under_a_later_one_is_not_undone_and_names_that(journal):
    await append(journal, memory("a"))
    first = await journal.decide({"a": {"confidence": 0.8}}, "x", "once")
    second = await journal.decide({"a": {"confidence": 0.9}}, "x", "twice")
    with pytest.raises(BadInput, match=f"Undo {second.name} first"):
        await journal.undo_decision(first.name, ANA, "ana")
    assert (await state_now(journal, "a")).confidence == 0.9


def repetition(merged: str, of: str, confidence: float, count: int) -> dict[str, StateChange]:
    """The change by which a job merges a memory into another, which it reinforces."""
    at = NOW + timedelta(minutes=count)
    return {
        merged: {"merged_into": of},
        of: {"confidence": confidence, "reinforced_count": count, "reinforced_at": at},
    }


@pytest.mark.feature(
    "… a merge can be taken back also if its survivor was repeated since", of="a decision on a memory holds"
)
async def test_an_earlier_merge_is_undone_without_the_later_ones(journal):
    """The survivor keeps what the later repetition added, also after the undo of the undo."""
    await append(journal, memory("a"), memory("b", "Tea is what Ana likes"), memory("c", "Ana loves tea"))
    first = await journal.decide(repetition("b", "a", 0.75, 1), "consolidate", "why")
    await journal.decide(repetition("c", "a", 0.8, 2), "consolidate", "why")
    undone = await journal.undo_decision(first.name, ANA, "ana")
    assert await kept(journal) == {"a", "b"}
    now = await state_now(journal, "a")
    assert (now.confidence, now.reinforced_count, now.reinforced_at) == (0.75, 1, NOW + timedelta(minutes=2))
    await journal.undo_decision(undone.name, ANA, "ana")
    assert await kept(journal) == {"a"}
    now = await state_now(journal, "a")
    assert (now.confidence, now.reinforced_count) == (0.8, 2)


async def test_an_undone_merge_leaves_a_confidence_that_was_set_since(journal):
    await append(journal, memory("a"), memory("b", "Tea is what Ana likes"), memory("c", "Ana loves tea"))
    first = await journal.decide(repetition("b", "a", 0.75, 1), "consolidate", "why")
    await journal.decide({"a": {"confidence": 0.3}}, "owner", "set by hand")
    await journal.decide(repetition("c", "a", 0.35, 2), "consolidate", "why")
    await journal.undo_decision(first.name, ANA, "ana")
    now = await state_now(journal, "a")
    assert (now.confidence, now.reinforced_count) == (0.35, 1)
    assert await kept(journal) == {"a", "b"}


@pytest.mark.feature("… all decisions of a run of a job can be taken back at once", of="a decision on a memory holds")
async def test_a_run_is_undone_as_a_whole_or_not_at_all(journal):
    await append(journal, memory("a"), memory("b", "Ana likes coffee"))
    for id_ in "ab":
        await journal.decide({id_: {"confidence": 0.8}}, "lifecycle", "why", run="r1")
    later = await journal.decide({"a": {"confidence": 0.9}}, "ana", "by hand")
    with pytest.raises(BadInput, match=f"Undo {later.name} first"):
        await journal.undo_run("r1", ANA, "ana")
    assert [(await state_now(journal, id_)).confidence for id_ in "ab"] == [0.9, 0.8]
    await journal.undo_decision(later.name, ANA, "ana")
    assert len(await journal.undo_run("r1", ANA, "ana")) == 2
    assert [(await state_now(journal, id_)).confidence for id_ in "ab"] == [0.7, 0.7]
    with pytest.raises(BadInput, match="each of its decisions was undone already"):
        await journal.undo_run("r1", ANA, "ana")


async def test_an_unknown_run_and_another_users_are_not_found(journal):
    await append(journal, memory("a"))
    await journal.decide({"a": {"confidence": 0.8}}, "lifecycle", "why", run="r1")
    for run, user in (("r2", "ana"), ("r1", "bob"), ("", "ana")):
        with pytest.raises(NotFound, match="no run"):
            await journal.undo_run(run, Scope(user_id=user), user)


async def test_undo_of_a_run_leaves_out_what_was_forgotten_since(journal):
    await append(journal, memory("a"), memory("b", "Ana likes coffee"))
    for id_ in "ab":
        await journal.decide({id_: {"confidence": 0.8}}, "lifecycle", "why", run="r1")
    await journal.forget(["a"], ANA)
    assert len(await journal.undo_run("r1", ANA, "ana")) == 1
    assert (await state_now(journal, "b")).confidence == 0.7


async def test_another_users_decision_is_unknown(journal):
    await append(journal, memory("a"))
    made = await journal.decide({"a": {"confidence": 0.8}}, "x", "y")
    for name in (made.name, "d99", "nonsense", "d9" * 40):
        with pytest.raises(NotFound):
            await journal.undo_decision(name, Scope(user_id="bob"), "bob")
    assert await journal.read(state.log, Scope(user_id="bob"), 10) == []


async def test_a_decision_changes_memories_of_one_owner_only(journal):
    await append(journal, memory("a"), Event("b", "x", NOW, Scope(user_id="bob")))
    with pytest.raises(ValueError, match="one owner"):
        await journal.decide({"a": {"confidence": 0.8}, "b": {"confidence": 0.8}}, "x", "y")


async def test_what_was_merged_into_a_forgotten_memory_is_found_again(journal):
    (first, _) = await append(journal, memory("a"), memory("b", "Ana really likes tea"))
    await journal.decide({"b": {"merged_into": "a"}}, "consolidate", "both say the same")
    await journal.forget([first.ref], ANA)
    assert await kept(journal) == {"b"}


@pytest.mark.parametrize("winner", ["a", "b"])
async def test_when_one_side_of_a_conflict_is_forgotten_the_other_is_current(journal, winner):
    stored = await append(journal, memory("a"), memory("b", "Ana hates tea"))
    sides = {
        "a": {"conflict_group": "g", "conflict_status": "active", "contradicts": "b"},
        "b": {"conflict_group": "g", "conflict_status": "active", "contradicts": "a"},
    }
    await journal.decide(sides, "consolidate", "they contradict each other")
    loser = "b" if winner == "a" else "a"
    lost = {"conflict_status": "resolved", "ended_at": NOW, "ended": "lost"}
    await journal.decide({loser: lost, winner: {"conflict_status": None}}, "lifecycle", "resolved")
    assert await kept(journal) == {winner}
    await journal.forget([stored["ab".index(winner)].ref], ANA)
    assert await kept(journal) == {loser}


async def test_forgetting_a_memory_removes_its_state_and_what_the_log_quotes(journal):
    (stored,) = await append(journal, memory("a"))
    await journal.decide({"a": {"confidence": 0.9}}, "model", "Ana likes tea: said twice")
    await journal.forget([stored.ref], ANA)
    assert await journal.read(state.log, ANA, 10) == []
    written = await journal.read(lambda db: db.execute("select why from decision").fetchall())
    assert "said twice" not in str([row["why"] for row in written])


async def test_what_the_caller_stated_is_the_first_state(journal):
    stated = (("lifetime", "ttl"), ("confidence", "0.4"), ("tag", "drinks"))
    await append(journal, memory("a", stated=stated), Event("p", "x", NOW, Scope(user_id="ana", project="beta")))
    assert await state_now(journal, "a") == State("ttl", 0.4, tags=("drinks",))
    assert await state_now(journal, "p") == State("project")
    assert await state_now(journal, "p") != State()


@pytest.mark.parametrize(
    "hit",
    [
        Hit("n1", "Ana likes tea", ANA, stated_by="backend:shop"),
        Hit("n1", "Ana likes tea", ANA, event_id="an event that the journal lacks"),
    ],
    ids=["of another program", "of a journal that was lost"],
)
async def test_an_archived_external_item_is_hidden(journal, hit):
    ref = external_ref("shop", "n1")
    await journal.write(store_items, [ExternalItem(ref, "shop", hit, ANA)], datetime.now(UTC))
    made = await journal.decide_external(ref, ANA, {"ended_at": NOW, "ended": "archived"}, "ana", "old")
    assert journal.without_forgotten("shop", [hit]) == []
    assert journal.without_forgotten("other", [hit]) == [hit]
    await journal.undo_decision(made.name, ANA, "ana")
    assert journal.without_forgotten("shop", [hit]) == [hit]


CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "confidence": st.sampled_from([0.1, 0.5, 0.9]),
        "trust": st.sampled_from([None, "trusted", "quarantined"]),
        "ended_at": st.sampled_from([None, NOW]),
        "merged_into": st.sampled_from([None, "b"]),
        "tags": st.sampled_from([(), ("x",), ("x", "y")]),
    },
)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(["a", "b"]), CHANGES, min_size=1), max_size=6))
async def test_undoing_all_decisions_in_reverse_restores_every_state(tmp_path_factory, steps):
    journal = await Journal.open(tmp_path_factory.mktemp("home") / "journal.sqlite")
    await append(journal, memory("a"), memory("b", "Ana likes coffee"))
    before = [await state_now(journal, one) for one in "ab"]
    made = [decision for step in steps if (decision := await journal.decide(step, "x", "y")) is not None]
    for decision in reversed(made):
        await journal.undo_decision(decision.name, ANA, "ana")
    assert [await state_now(journal, one) for one in "ab"] == before
    await journal.close()
