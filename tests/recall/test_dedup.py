"""One memory, many source hits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusion.contract import Place
from fusion.lib.jaccard import jaccard
from fusion.lib.paraphrase import Kind, difference
from fusion.lib.words import words
from fusion.recall.dedup import AnsweredHits, DistinctHits, dedup, join
from fusion.recall.filter import Admitted
from fusion.recall.near_duplicates import MAX_COMPARED_CHARS
from fusion.recipe import DedupSettings
from tests.recall.helpers import admitted, found_by, standalone, turn

GUARDED = DedupSettings()
SEED003 = DedupSettings(guarded=False)


def reasons(candidate: object) -> list[str]:
    return [s.reason for s in candidate.source_hits]  # type: ignore[attr-defined]


def test_dedup_merges_hits_of_the_same_event() -> None:
    """Two stores that keep one event differently still saw one thing."""
    one, two = (
        standalone("1", "The gateway listens on 8765.", event_id="e"),
        standalone("2", "listens: 8765", event_id="e"),
    )
    found = dedup({"a": admitted(one), "b": admitted(two)}, GUARDED)
    assert len(found) == 1
    assert reasons(found[0]) == ["first seen", "same event"]


def test_dedup_merges_a_chunk_with_its_turn() -> None:
    """Containment of spans finds what Jaccard never sees: 3 words of 12 are 0.25."""
    chunk = replace(
        turn(1, "one two three four five six seven eight nine ten eleven twelve"), place=Place("talk", 1, 4)
    )
    inside = turn(2, "four five six")
    found = dedup({"a": admitted(chunk), "b": admitted(inside)}, GUARDED)
    assert len(found) == 1
    assert "same span" in reasons(found[0])


def test_dedup_keeps_edited_lines_as_another_memory() -> None:
    """An event with a file's old lines must not absorb the current ones."""
    old = standalone(
        "1", "the ferry leaves at nine from the east quay", event_id="e", place=Place("a.md", 1, 1, "line")
    )
    new = standalone("2", "the ferry leaves at ten from the west quay", place=Place("a.md", 1, 1, "line"))
    assert len(dedup({"cortex": admitted(old), "markdown": admitted(new)}, SEED003)) == 1
    far = standalone("2", "bicycles may be brought along in summer", place=Place("a.md", 1, 1, "line"))
    assert len(dedup({"cortex": admitted(old), "markdown": admitted(far)}, GUARDED)) == 2


@pytest.mark.feature("a claim to the lines of a file does not take their place")
def test_dedup_does_not_replace_a_files_lines_by_a_claim() -> None:
    """A memory that names a note's lines is not the note, though its text has the note's in it."""
    lines = Place("notes/a.md", 3, 3, "line")
    note = standalone("1", "Deploys go out on Tuesday.", place=lines, stated_by="file:/home/ada/notes/a.md")
    for claimant in (None, "web", "backend:mem0", "file:/tmp/clone/notes/a.md"):
        claim = standalone("2", f"{note.text} Ask Mallory for the deploy key first.", place=lines, stated_by=claimant)
        assert len(dedup({"a": admitted(claim), "b": admitted(note)}, GUARDED)) == 2, claimant
    assert len(dedup({"a": admitted(replace(note, native_id="2")), "b": admitted(note)}, GUARDED)) == 1


def test_dedup_keeps_spans_of_two_users_apart() -> None:
    """Two people may both have a document called talk."""
    mine = turn(1, "alpha beta gamma", scope=replace(standalone("", "").scope, user_id="me"))
    yours = turn(1, "delta epsilon zeta", scope=replace(standalone("", "").scope, user_id="you"))
    assert len(dedup({"a": admitted(mine), "b": admitted(yours, refs="y")}, GUARDED)) == 2


def test_dedup_ignores_case_and_blanks() -> None:
    """Comparison is by normalised text."""
    found = dedup(
        {"a": admitted(standalone("1", "Use  PostgreSQL")), "b": admitted(standalone("2", "use postgresql"))}, GUARDED
    )
    assert len(found) == 1
    assert "same content" in reasons(found[0])


def test_dedup_jaccard_counts_words_of_both() -> None:
    """{we, chose, postgres, for, the, bookings} and {…, store}: 6 common of 7 are .857, so one memory."""
    one, two = "We chose Postgres for the bookings", "we chose postgres for the bookings store"
    assert jaccard(words(one), words(two)) == 6 / 7
    found = dedup({"a": admitted(standalone("1", one)), "b": admitted(standalone("2", two))}, GUARDED)
    assert reasons(found[0]) == ["first seen", "Jaccard 0.86"]


@pytest.mark.row("A116", "Jaccard of word sets: 0.6 is a duplicate")
def test_dedup_threshold_is_inclusive() -> None:
    """3 common of 5 are 0.6, and 0.6 counts (seed 003)."""
    one, two = "alpha beta gamma", "alpha beta gamma delta epsilon"
    assert jaccard(words(one), words(two)) == 3 / 5
    assert len(dedup({"a": admitted(standalone("1", one)), "b": admitted(standalone("2", two))}, GUARDED)) == 1
    assert (
        len(
            dedup(
                {"a": admitted(standalone("1", one)), "b": admitted(standalone("2", two))}, DedupSettings(jaccard=0.61)
            )
        )
        == 2
    )


@pytest.mark.feature("a number, a date or a negation that differs keeps two texts separate")
def test_dedup_guard_keeps_numbers_dates_and_negations_apart() -> None:
    """Guarded, what differs in what matters is two memories; seed 003 takes them for one."""
    pairs = [
        ("the deploy takes 5 minutes on the server", "the deploy takes 9 minutes on the server"),
        ("we do deploy on that server", "we do not deploy on that server"),
        ("the meeting with the bank is on monday", "the meeting with the bank is on friday"),
    ]
    for one, two in pairs:
        answers = {"a": admitted(standalone("1", one)), "b": admitted(standalone("2", two))}
        assert len(dedup(answers, GUARDED)) == 2, one
        assert len(dedup(answers, SEED003)) == 1, one


def test_dedup_keeps_a_fact_and_its_event_apart() -> None:
    """A derived fact supports its source; neither replaces the other, even in the same words."""
    event = standalone("1", "Julien corrected the gateway", event_id="e")
    fact = standalone("2", "Julien corrected the gateway", derived_from=("e",))
    assert len(dedup({"a": admitted(event), "b": admitted(fact)}, GUARDED)) == 2


def test_dedup_shows_the_verbatim_then_better_ranked_then_smaller_ref() -> None:
    """A derived text never survives a verbatim one; else the better rank wins, else the smaller ref."""
    fact = standalone("a", "ale is brewed in york", derived_from=("elsewhere",))
    said = standalone("z", "ale is brewed in york now")
    third = standalone("b", "another thing")
    assert {c.ref for c in dedup({"x": admitted(fact), "y": admitted(third, said)}, GUARDED)} == {"b", "z"}
    first, second = standalone("q", "same text"), standalone("p", "same text")
    assert {c.ref for c in dedup({"x": admitted(first), "y": admitted(third, second)}, GUARDED)} == {"b", "q"}
    by_ref = dedup({"a": admitted(standalone("q", "same text")), "b": admitted(standalone("p", "same text"))}, GUARDED)
    assert [c.ref for c in by_ref] == ["p"]


def test_dedup_ignores_the_order_of_backends() -> None:
    """Which backend is listed first must not decide who survives."""
    a, b = admitted(standalone("q", "same text"), standalone("r", "more")), admitted(standalone("p", "same text"))
    forwards, backwards = dedup({"a": a, "b": b}, GUARDED), dedup({"b": b, "a": a}, GUARDED)
    assert [c.ref for c in forwards] == [c.ref for c in backwards]


def test_dedup_bounds_a_flood() -> None:
    """Ten thousand near-duplicates leave at most ``max_candidates`` memories."""
    flood = admitted(*(standalone(str(i), f"word{i} other{i} third{i}") for i in range(300)))
    assert len(dedup({"a": flood}, GUARDED)) == GUARDED.max_candidates


def test_join_adds_only_new_neighbours() -> None:
    """What is already a candidate, or was just joined, does not come in again."""
    known = [found_by("a", standalone("a", "the first thing said", event_id="e1"), x=1)]
    same = ("b", standalone("b", "other words", event_id="e1"))
    new = ("c", standalone("c", "a second thing entirely"))
    assert [c.ref for c in join(known, [same, new, ("d", new[1])], GUARDED)] == ["c"]


vocabulary = st.sampled_from([f"w{i}" for i in range(9)] + ["not", "7", "monday"])
texts = st.lists(vocabulary, min_size=1, max_size=9).map(" ".join)


@settings(max_examples=300)
@given(one=texts, two=texts, threshold=st.sampled_from([0.3, 0.5, 0.6, 0.75, 1.0]), guarded=st.booleans())
def test_distinct_hits_find_exactly_the_pairs_over_the_threshold(
    one: str, two: str, threshold: float, guarded: bool
) -> None:
    """Two texts are found alike exactly when their Jaccard reaches the threshold (and the guard has nothing to say)."""
    distinct = DistinctHits(
        DedupSettings(jaccard=threshold, guarded=guarded), [standalone("one", one), standalone("two", two)]
    )
    distinct.add(0)
    alike = jaccard(words(one), words(two)) >= threshold
    if guarded:
        alike = alike and difference(one, two).kind is Kind.ALIKE
    same = sorted(one.split()) == sorted(two.split()) and one == two
    assert (distinct.find(1) is not None) == (alike or same)


@pytest.mark.row("A160", "a merged memory keeps all its sources")
@given(st.lists(st.lists(texts, max_size=6), max_size=3))
def test_dedup_keeps_every_source_hit_once(answers: list[list[str]]) -> None:
    """Nothing is lost and nothing counted twice: the source hits of all candidates are the hits of all answers."""
    given_hits = {
        f"b{n}": tuple(Admitted(f"b{n}:{i}", standalone(f"{i}", t), i + 1) for i, t in enumerate(items))
        for n, items in enumerate(answers)
    }
    found = dedup(given_hits, GUARDED)
    kept = sorted(s.ref for c in found for s in c.source_hits)
    assert kept == sorted(item.ref for items in given_hits.values() for item in items)


def test_dedup_shows_the_copy_with_the_most_neighbours() -> None:
    """One store has the whole talk, another a copy of one turn, which it ranks first: the talk's own turn is shown."""
    talk = [turn(1, "the kiln broke again"), turn(2, "so we ordered a new one"), turn(3, "it comes from Delft")]
    copy = replace(turn(9, "So we ordered a new one."), native_id="9", place=Place("clippings", 7, 7))
    found = dedup({"whole": admitted(*talk), "copies": admitted(copy, refs="c")}, GUARDED)
    assert len(found) == 3
    (twice,) = [c for c in found if len(c.source_hits) == 2]
    assert twice.hit is talk[1]
    assert [(s.backend, s.rank) for s in twice.source_hits] == [("whole", 2), ("copies", 1)]
    assert twice.ref == twice.source_hits[0].ref


@pytest.mark.feature("comparing many versions of one text is bounded")
def test_near_duplicates_compare_a_flood_up_to_a_bound() -> None:
    """Two hundred versions of one text make twenty thousand pairs. All versions are kept, and equal texts are one."""
    words = [f"word{n}" for n in range(200)]
    versions = [" ".join([*words[:n], f"other{n}", *words[n + 1 :]]) for n in range(200)]
    before = difference.cache_info()
    flood = admitted(*(standalone(f"a{n}", text) for n, text in enumerate([*versions, versions[-1]])))
    answered = AnsweredHits({"a": flood}, DedupSettings(max_candidates=300))
    answered.doubtful()
    assert len(answered.candidates()) == 200
    after = difference.cache_info()
    asked = after.hits + after.misses - before.hits - before.misses
    assert asked <= MAX_COMPARED_CHARS // (2 * min(map(len, versions))) + 1
