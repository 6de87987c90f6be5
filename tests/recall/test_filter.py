"""The one filter: what a query may see of what a backend returned."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.contract import Hit, Place, Scope
from fusion.lib.ids import external_ref
from fusion.recall.filter import TEXT_CHARS, admit
from tests.recall.helpers import NOW, at, by_id, query, record, standalone

DAY = timedelta(days=1)


def test_a_hit_is_cited_by_the_journals_ref_and_keeps_its_rank() -> None:
    """An event's ref is the journal's; a foreign item's is its backend and native id."""
    kept, dropped = admit(
        "mem0", [standalone("x", "one", event_id="e1"), standalone("y", "two")], query(), by_id(record("e1"))
    )
    assert [(k.ref, k.rank) for k in kept] == [("me1", 1), (external_ref("mem0", "y"), 2)]
    assert not dropped


def test_ranks_are_the_backends_own_even_when_a_hit_above_is_dropped() -> None:
    """Who was second stays second: the filter must not promote."""
    hits = [standalone("x", "other", scope=Scope(user_id="b")), standalone("y", "mine", scope=Scope(user_id="a"))]
    kept, dropped = admit("mem0", hits, query(scope=Scope(user_id="a")), {})
    assert [(k.ref, k.rank) for k in kept] == [(external_ref("mem0", "y"), 2)]
    assert dropped == {"scope": 1}


def test_the_journals_scope_counts_too() -> None:
    """A backend that echoes the asker's scope on somebody else's event does not get it through."""
    lying = standalone("x", "secret", event_id="e1", scope=Scope(user_id="a"))
    journal = by_id(record("e1", scope=Scope(user_id="b")))
    kept, dropped = admit("mem0", [lying], query(scope=Scope(user_id="a")), journal)
    assert not kept
    assert dropped == {"scope": 1}


@pytest.mark.parametrize(
    ("hit", "asked", "journal", "reason"),
    [
        (standalone("x", "t", event_id="e1"), query(), by_id(record("e1", forgotten=True)), "forgotten"),
        (standalone("x", "t", derived_from=("e1",)), query(), by_id(record("e1", forgotten=True)), "forgotten"),
        (standalone("x", "t", event_id="e1"), query(), by_id(record("e1", superseded_by="e2")), "superseded"),
        (standalone("x", "t", derived_from=("e1",)), query(), by_id(record("e1", superseded_by="e2")), "superseded"),
        (standalone("x", "t", trust="quarantined"), query(), {}, "quarantined"),
        (standalone("x", "t", event_id="e1"), query(), by_id(record("e1", trust="quarantined")), "quarantined"),
        (standalone("x", "t", derived_from=("e1",)), query(), by_id(record("e1", trust="quarantined")), "quarantined"),
        (standalone("x", "t", valid_to=NOW - DAY), query(), {}, "no longer valid"),
        (standalone("x", "t", valid_to=NOW - 3 * DAY), query(as_of=NOW - 2 * DAY), {}, "no longer valid then"),
        (standalone("x", "t", at=at("2026-02-28")), query(as_of=NOW - 5 * DAY), {}, "not yet true then"),
        (standalone("x", "t", recorded_at=NOW), query(known_at=NOW - DAY), {}, "not yet recorded then"),
    ],
)
def test_what_may_not_be_shown_is_dropped_with_its_reason(hit: Hit, asked: Any, journal: Any, reason: str) -> None:
    """Each reason to drop has its name in the receipt."""
    kept, dropped = admit("b", [hit], asked, journal)
    assert not kept
    assert dropped == {reason: 1}


def test_a_fact_lives_while_one_of_its_sources_does() -> None:
    """A fact that two events support survives the forgetting of one."""
    fact = standalone("f", "A uses B", derived_from=("e1", "e2"))
    kept, _ = admit("triples", [fact], query(), by_id(record("e1", forgotten=True), record("e2")))
    assert len(kept) == 1


def test_history_is_shown_to_who_asks_for_a_past() -> None:
    """``as_of`` brings back what was superseded or ended since."""
    times = {"valid_from": NOW - 9 * DAY, "valid_to": NOW - DAY}
    past = standalone("x", "t", event_id="e1", **times)
    kept, _ = admit("b", [past], query(as_of=NOW - 2 * DAY), by_id(record("e1", superseded_by="e2", **times)))
    assert len(kept) == 1


@pytest.mark.feature(
    "the text, place, speaker, time, trust and kind of a gateway's memory come from the journal, not from the backend"
)
def test_what_the_journal_knows_of_an_event_is_shown_whatever_a_backend_says() -> None:
    """Text, place, speaker, time, trust and kind are the journal's; the backend adds its id, rank, score and path."""
    place = Place("talk", 3, 3)
    kept = record("e1", "We chose Postgres.", speaker="Ada", place=place, at=at("2026-02-01"), source="jsonl:talk")
    lie = standalone(
        "n1",
        "We chose MongoDB.",
        event_id="e1",
        speaker="Bo",
        place=Place("notes/a.md", 1, 1, "line"),
        at=at("2026-02-28"),
        trust="trusted",
        kind="rule",
        score=0.9,
        path=("a", "b"),
    )
    ((ref, hit, rank, _),), _ = admit("mem0", [lie], query(), by_id(kept))
    assert (ref, rank, hit.native_id, hit.score, hit.path) == ("me1", 1, "n1", 0.9, ("a", "b"))
    assert (hit.text, hit.speaker, hit.place, hit.at) == ("We chose Postgres.", "Ada", place, at("2026-02-01"))
    assert (hit.trust, hit.kind, hit.stated_by) == ("unknown", "note", "jsonl")


@pytest.mark.row("A145", "a quarantined memory is never recalled, even when a backend calls it trusted")
@pytest.mark.feature("a quarantined memory is never recalled, even when a backend calls it trusted")
def test_a_quarantined_event_stays_out_whatever_trust_a_backend_says() -> None:
    """Quarantine is the journal's word."""
    lie = standalone("n1", "run this", event_id="e1", trust="trusted")
    assert admit("b", [lie], query(), by_id(record("e1", "run this", trust="quarantined")))[1] == {"quarantined": 1}


def test_a_long_event_is_shown_around_what_was_found() -> None:
    """A backend that keeps a long text in pieces says which piece; the words are the journal's."""
    text = "alpha " * 2000 + "We do not deploy on Fridays. " + "omega " * 2000
    for piece in ("deploy on Fridays", "We never said this"):
        ((_, hit, *_),), _ = admit("b", [standalone("n", piece, event_id="e1")], query(), by_id(record("e1", text)))
        assert len(hit.text) == TEXT_CHARS
        assert hit.text in text
        assert ("We do not deploy on Fridays" in hit.text) == (piece in text)


@pytest.mark.feature("an item that only a backend has cannot raise its trust, rate its own graph, or take a place")
def test_an_external_item_is_its_backends_word_alone() -> None:
    """It cannot raise its trust, rate its own graph, or take a place of a document that others state."""
    item = standalone(
        "n", "x", trust="trusted", graph_score=1.0, place=Place("notes/a.md", 1, 1, "line"), speaker="Ada"
    )
    ((_, hit, *_),), _ = admit("mem0", [item], query(), {})
    assert (hit.trust, hit.graph_score, hit.stated_by, hit.external) == ("unknown", None, "backend:mem0", True)
    assert admit("mem0", [standalone("n", "x", trust="untrusted")], query(), {})[0][0].hit.trust == "untrusted"


def test_a_reader_of_the_users_files_states_their_lines_and_no_turns() -> None:
    """An adapter that reads a file vouches for its lines."""
    read = standalone("n", "x", place=Place("notes/a.md", 1, 1, "line"), stated_by="file:/notes/a.md")
    turned = standalone("m", "x", place=Place("talk", 1, 1), stated_by="file:/notes/a.md")
    lines, turn = (item.hit for item in admit("markdown", [read, turned], query(), {})[0])
    assert (lines.stated_by, lines.external) == ("file:/notes/a.md", False)
    assert (turn.stated_by, turn.external) == ("backend:markdown", True)


people = st.sampled_from([None, "a", "b"])
scopes = st.builds(
    Scope,
    tenant=st.sampled_from(["t1", "t2"]),
    user_id=people,
    agent_id=people,
    run_id=people,
    session_id=people,
    audience=st.sampled_from(["private", "group"]),
)


@pytest.mark.row("A156", "no user sees what another said, whatever a backend returns")
@given(asker=scopes, items=st.lists(scopes, max_size=8))
def test_nothing_crosses_a_scope(asker: Scope, items: list[Scope]) -> None:
    """Whatever a backend returns, what is admitted agrees in tenant, audience and each dimension named."""
    hits = [standalone(str(i), "t", scope=s) for i, s in enumerate(items)]
    kept, dropped = admit("b", hits, query(scope=asker), {})
    for item in kept:
        mine = item.hit.scope
        assert mine.tenant == asker.tenant
        assert all(getattr(mine, dimension) == value for dimension, value in asker.named().items())
        assert asker.audience == "private" or mine.audience == "group"
    assert len(kept) + sum(dropped.values()) == len(items)


def test_a_foreign_ref_is_short_stable_and_tells_backends_apart() -> None:
    """Eleven characters, the same on any day, and another for the same id elsewhere."""
    assert external_ref("markdown", "notes/a.md#L3-L9") == external_ref("markdown", "notes/a.md#L3-L9")
    assert len(external_ref("markdown", "notes/a.md#L3-L9")) == 11
    assert external_ref("cortex", "1") != external_ref("mem0", "1")
