"""The local signals, each with its arithmetic."""

from __future__ import annotations

from dataclasses import replace
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.contract import Place, State
from fusion.lib.bm25 import K1, B, Bm25, Counted, Frequencies
from fusion.lib.passages import Span
from fusion.recall.dedup import Candidate, SourceHit
from fusion.recall.expand import Pooled
from fusion.recall.signals import (
    FULL_LENGTH_CHARS,
    SIGNALS,
    Likeness,
    SignalTable,
    adjacent_positions,
    boosted,
    complete,
    local_signals,
    scores,
)
from fusion.recall.standing import Standing
from tests.recall.helpers import at, pooled, query, standalone, turn

NOTHING = Likeness()
TEN = Frequencies(documents=10, average_length=2.0, counts={"databas": 1, "gate": 5})


def test_bm25_is_a_share_of_the_most_it_could_be() -> None:
    """One term of two, once in a text of average length: tf·(k1+1)/(tf+k1) over (k1+1), weighted by idf."""
    rare, common = log(1 + 9.5 / 1.5), log(1 + 5.5 / 5.5)
    assert (TEN.idf("databas"), TEN.idf("gate")) == (pytest.approx(rare), pytest.approx(common))
    found = Bm25(["databas", "gate"], TEN).score(Counted(2, {"databas": 1}))
    assert found == pytest.approx(rare * (K1 + 1) / (1 + K1) / ((rare + common) * (K1 + 1)))


def test_bm25_of_a_longer_text_is_less() -> None:
    """At twice the average length the denominator is tf + k1·(1 - b + 2b)."""
    long = Counted(4, {"x": 1, "a": 1, "b": 1, "c": 1})
    found = Bm25(["x"], TEN).score(long)
    assert found == pytest.approx((K1 + 1) / (1 + K1 * (1 - B + 2 * B)) / (K1 + 1))
    # Two texts may be twice as long together: x once in 4 + 0 terms of an expected 4.
    assert Bm25(["x"], TEN).score(long, Counted(0, {})) == pytest.approx((K1 + 1) / (1 + K1) / (K1 + 1))


@given(
    st.lists(st.dictionaries(st.sampled_from("abcd"), st.integers(1, 3), max_size=3), min_size=1, max_size=6),
    st.data(),
)
def test_bm25_of_many_texts_is_that_of_each(texts: list[dict[str, int]], data: st.DataObject) -> None:
    """All at once, each with its neighbours, to the last digit: the way of computing must not change a score."""
    counted = [Counted(sum(counts.values()), counts) for counts in texts]
    place = st.none() | st.integers(0, len(texts) - 1)
    before, after = (data.draw(st.lists(place, min_size=len(texts), max_size=len(texts))) for _ in range(2))
    asked = Bm25(["a", "b", "e"], Frequencies(5, 2.5, {"a": 1, "b": 4}))
    windows = [[j for j in near if j is not None] for near in zip(range(len(texts)), before, after, strict=True)]
    alone = [asked.score(*(counted[j] for j in near)) for near in windows]
    assert asked.scores(counted, (before, after)).tolist() == alone


@pytest.mark.feature(
    "a section of a document is scored by its own words, a turn of a conversation also by the turns around it"
)
def test_windows_match_a_token_in_a_neighbour() -> None:
    """A reply that has one of two words, after a question that has the other: .5 alone, 1 with its neighbour."""
    pool = [
        pooled("q", turn(1, "Where is the cup?")),
        pooled("a", turn(2, "On the shelf.")),
        pooled("z", turn(4, "Far.")),
    ]
    likeness = Likeness(
        words=("cup", "shelf"),
        matches={
            "Where is the cup?": np.array([1.0, 0.0], np.float32),
            "On the shelf.": np.array([0.0, 1.0], np.float32),
            "Far.": np.array([0.0, 0.0], np.float32),
        },
    )
    question, reply, far = local_signals(query("cup shelf"), pool, 1.0, Frequencies(), likeness).rows()
    assert (question["maxsim"], question["window3"]) == (pytest.approx(0.5), pytest.approx(1.0))
    assert (reply["maxsim"], reply["window3"]) == (pytest.approx(0.5), pytest.approx(1.0))
    # Turn 4 has turn 2 two places before it, and turn 1 out of reach.
    assert (far["window3"], far["window5"]) == (pytest.approx(0.0), pytest.approx(0.5))


@pytest.mark.feature("a prompt between an assistant's long replies is scored by itself")
def test_turn_between_long_turns_has_no_window() -> None:
    """Turn 3 has a long reply before and after it, of which the pool has a passage each; turn 1 is two places away, and
    its word is about something else. How long a prompt is says nothing. Its similarity is the mean of .5 and .3."""
    matches = {
        "cup": np.array([1.0, 0.0], np.float32),
        "shelf": np.array([0.0, 1.0], np.float32),
        "yes": np.array([0.0, 0.0], np.float32),
    }
    prompts = [pooled("a", turn(1, "cup")), pooled("c", turn(3, "shelf"))]
    replies = [pooled(ref, turn(n, "yes"))._replace(passage=Span(0, 3)) for ref, n in (("b", 2), ("d", 4))]
    likeness = Likeness(("cup", "shelf"), matches, dict.fromkeys(matches, 0.3))
    table = local_signals(query("cup shelf"), [*prompts, *replies], 1.0, Frequencies(), likeness)
    for row in table.rows()[:2]:
        assert row["similarity"] == pytest.approx(0.4)
        assert row.keys().isdisjoint({"window3", "window5", "length"})
    assert complete(table, frozenset({"window3", "window5", "similarity", "length", "bm25"})).all()

    # Turn 4 is short: then turn 3 has a neighbour, and with it a window.
    short = [*prompts, replies[0], pooled("d", turn(4, "yes"))]
    row = local_signals(query("cup shelf"), short, 1.0, Frequencies(), likeness).row(1)
    assert (row["window3"], row["window5"]) == (pytest.approx(0.5), pytest.approx(1.0))
    assert "similarity" not in row
    assert row["length"] == pytest.approx(5 / 300)


def test_neighbours_are_of_the_same_document_only() -> None:
    """The turn after, in another talk, is no neighbour; the next one in its own is."""
    talks = ((1, "cup", "one"), (2, "shelf", "two"), (3, "door", "two"))
    pool = [pooled(text, turn(number, text, document=document)) for number, text, document in talks]
    matches = {"cup": np.array([1.0], np.float32)} | {t: np.array([0.0], np.float32) for t in ("shelf", "door")}
    _, other, _ = local_signals(query("cup"), pool, 1.0, Frequencies(), Likeness(("cup",), matches)).rows()
    assert other["window5"] == 0


def test_adjacent_positions_take_the_first_of_two_turns_in_one_place() -> None:
    """Stores may number apart: "a" and "b" are both turn 2. Each is before turn 3, and before that stands "a"."""
    pool = [pooled("b", turn(2, "Shelf.")), pooled("a", turn(2, "Cup.")), pooled("c", turn(3, "Door."))]
    assert adjacent_positions(pool) == {-2: [None] * 3, -1: [None, None, 1], 1: [2, 2, None], 2: [None] * 3}


def test_bm25_reaches_into_the_neighbours() -> None:
    """A reply is found by the words of the question before it."""
    pool = [pooled("q", turn(1, "Which database?")), pooled("a", turn(2, "Postgres, since May."))]
    _, reply = local_signals(query("which database"), pool, 1.0, TEN, NOTHING).rows()
    assert reply["bm25"] > 0


def test_speaker_signal_counts_named_speakers() -> None:
    """1 for the one named, 0 for another, a half where nobody is named or nobody spoke."""
    pool = [pooled("a", turn(1, "x", "Ada Byron")), pooled("b", turn(2, "y", "Bo")), pooled("c", turn(3, "z"))]
    named = local_signals(query("what did ada say?"), pool, 1.0, TEN, NOTHING).rows()
    assert [row["speaker"] for row in named] == [1.0, 0.0, 0.5]
    unnamed = local_signals(query("what was said?"), pool, 1.0, TEN, NOTHING).rows()
    assert [row["speaker"] for row in unnamed] == [0.5, 0.5, 0.5]


@pytest.mark.feature("a speaker that no captured conversation confirms is no signal")
def test_speaker_signal_ignores_claimed_speakers() -> None:
    """Alone, outside a talk, from a tool, untrusted or vouched for by a backend only, a name is a claim."""
    claims = [
        turn(9, "v", "Ada", document="elsewhere"),
        standalone("w", "w", speaker="Ada"),
        turn(3, "x", "Ada", origin="tool"),
        turn(4, "y", "Ada", trust="untrusted"),
        turn(2, "z", "Ada", document="theirs", stated_by="backend:mem0"),
        turn(3, "z2", "Ada", document="theirs", stated_by="backend:mem0"),
    ]
    talk = [turn(1, "p", "Ada"), turn(2, "q", "Bo")]
    pool = [pooled(f"r{i}", hit) for i, hit in enumerate([*talk, *claims])]
    rows = local_signals(query("what did Ada say?"), pool, 1.0, TEN, NOTHING).rows()
    assert [row["speaker"] for row in rows] == [1.0, 0.0, *[0.5] * len(claims)]


def test_date_signal_favours_the_asked_time() -> None:
    """Asked on 2026-03-01 for last month: February is it, 28 days long, and 4 January as far before it."""
    moments = (at("2026-02-08"), at("2026-01-04"), None)
    pool = [pooled(str(i), standalone(str(i), "x", at=moment)) for i, moment in enumerate(moments)]
    rows = local_signals(query("what did we do last month?"), pool, 1.0, TEN, NOTHING).rows()
    assert [row["date"] for row in rows] == [1.0, 0.25, 0.0]
    undated = local_signals(query("what did we do?"), pool, 1.0, TEN, NOTHING).rows()
    assert [row["date"] for row in undated] == [0.0, 0.0, 0.0]


def test_fusion_signal_is_a_share_of_first_place_everywhere() -> None:
    """2/61 of four times 1/61 is a half."""
    (row,) = local_signals(
        query(), [pooled("a", standalone("a", "x" * FULL_LENGTH_CHARS), rrf=2 / 61)], 4 / 61, TEN, NOTHING
    ).rows()
    assert row["fusion"] == pytest.approx(0.5)
    assert row["length"] == 1.0


@pytest.mark.feature("each local signal is a share; the weight of an absent one goes to the others")
def test_absent_signal_leaves_its_weight_to_the_others() -> None:
    """(3 × .5 + 1 × 1) / 4 with both; .5 where the second is not there."""
    weights = {"maxsim": 3.0, "speaker": 1.0, "bm25": 0.0}
    rows = [{"maxsim": 0.5, "speaker": 1.0, "bm25": 0.9}, {"maxsim": 0.5}, {}]
    assert scores(SignalTable.of(rows), weights).tolist() == [pytest.approx(2.5 / 4), pytest.approx(0.5), 0.0]
    assert scores(SignalTable.of([]), weights).tolist() == []


def test_the_list_of_signals_is_what_is_computed() -> None:
    """A recipe's weights are checked against this list."""
    said = "user: x"
    likeness = Likeness(("x",), {said: np.array([1.0], np.float32)}, {said: 0.7})
    standings = {"a": Standing(state=State(importance=0.5))}
    pool = [pooled("a", turn(1, "x", "user"))]
    (row,) = local_signals(query("x"), pool, 1.0, TEN, likeness, standings, frozenset(SIGNALS)).rows()
    assert set(row) == set(SIGNALS) - {"window3", "window5"}
    pool.append(pooled("b", turn(2, "x", "user")))
    one, _ = local_signals(query("x"), pool, 1.0, TEN, likeness, standings, frozenset(SIGNALS)).rows()
    assert set(one) == set(SIGNALS) - {"similarity"}


@pytest.mark.feature("what the person said counts for more than what the assistant said")
def test_role_signal_is_of_captured_turns_of_a_person_and_an_assistant() -> None:
    """1 and 0; absent for a named speaker, a note, and one that only a backend vouches for. Floors hold then, too."""
    pool = [
        pooled("a", turn(1, "Buy the Eheim.", "user")),
        pooled("b", turn(2, "The Eheim is a pump.", "assistant")),
        pooled("c", turn(3, "It hums.", "Ada")),
        pooled("d", standalone("d", "A note.", speaker="user")),
        pooled("e", turn(5, "Claimed.", "user", stated_by="backend:mem0")),
    ]
    table = local_signals(query("which pump"), pool, 1.0, TEN, NOTHING)
    assert [row.get("role") for row in table.rows()] == [1.0, 0.0, None, None, None]
    assert complete(table, frozenset({"role", "bm25"})).all()
    assert "role" not in local_signals(query("which pump"), pool[2:], 1.0, TEN, NOTHING).columns


@pytest.mark.feature("a memory without neighbours is scored as a whole")
def test_similarity_of_a_standalone_memory_is_the_mean_of_maxsim_and_cosine() -> None:
    """(1 + .7) / 2 in place of the windows, which it does not have; both kinds are whole without the other's. By
    a model that gives no tokens, its cosine."""
    likeness = Likeness(("x",), {"x": np.array([1.0], np.float32)}, {"x": 0.7})
    (row,) = local_signals(query("x"), [pooled("a", turn(1, "x"))], 1.0, TEN, likeness).rows()
    assert (row["similarity"], row["maxsim"], row["dense"]) == (pytest.approx(0.85), 1.0, 0.7)
    assert scores(SignalTable.of([row]), {"window3": 3, "window5": 3, "similarity": 6}).tolist() == [
        pytest.approx(0.85)
    ]
    wanted = frozenset({"bm25", "window3", "window5", "similarity"})
    turn_row = {"bm25": 1.0, "window3": 1.0, "window5": 1.0}
    assert complete(SignalTable.of([row, turn_row, {"window3": 1.0, "window5": 1.0}]), wanted).tolist() == [
        True,
        True,
        False,
    ]
    assert complete(SignalTable.of([{"bm25": 1.0}]), frozenset({"similarity"})).tolist() == [False]
    assert complete(SignalTable.of([{"bm25": 1.0}, {"similarity": 1.0}]), frozenset({"bm25"})).tolist() == [True, False]
    (row,) = local_signals(query("x"), [pooled("a", turn(1, "x"))], 1.0, TEN, Likeness(dense={"x": 0.7})).rows()
    assert row["similarity"] == 0.7


@pytest.mark.feature(
    "a section of a document is scored by its own words, a turn of a conversation also by the turns around it"
)
def test_similarity_of_a_section_is_its_maxsim() -> None:
    """The first section says "cup", the second "shelf": neither has the other's word, as a turn would; no cosine, for
    a section is longer than what a model reads. What a graph leads to is lifted here."""
    sections = [
        replace(standalone(r, r), place=Place("a.md", n, n, "line")) for n, r in enumerate(("cup", "shelf"), start=1)
    ]
    pool = [Pooled(Candidate(h.text, h, (SourceHit("a", "r", "r", 1, None, "", 0.9),)), 0.0, {}) for h in sections]
    matches = {"cup": np.array([1.0, 0.0], np.float32), "shelf": np.array([0.0, 1.0], np.float32)}
    likeness = Likeness(("cup", "shelf"), matches, {"cup": 0.2, "shelf": 0.2})
    rows = local_signals(query("cup shelf"), pool, 1.0, Frequencies(), likeness).rows()
    assert [(row["similarity"], row["graph"]) for row in rows] == [(pytest.approx(0.5), 0.9)] * 2
    assert all(row.keys().isdisjoint({"window3", "window5"}) for row in rows)


@pytest.mark.feature("a memory that a graph leads to is raised (`graph_boost`), and never lowered")
def test_graph_boost_raises_a_score_by_noisy_or() -> None:
    """1 - (1 - .4)(1 - .3 · .5) = .49; no graph, no lift; nothing is lowered; the backend that says most counts."""
    means = np.array([0.4, 0.4])
    assert boosted(means, SignalTable.of([{"graph": 0.5}, {}]), "graph", 0.3).tolist() == [
        pytest.approx(0.49),
        pytest.approx(0.4),
    ]
    assert boosted(means[:1], SignalTable.of([{"graph": 1.0}]), "graph", 0.0).tolist() == [pytest.approx(0.4)]
    source_hits = (SourceHit("a", "r", "r", 1, None, "", 0.2), SourceHit("b", "r", "r", 1, None, "", 0.6))
    pool = [Pooled(Candidate("r", standalone("r", "tea"), source_hits), 0.0, {}), pooled("s", standalone("s", "milk"))]
    rows = local_signals(query("tea"), pool, 1.0, TEN, NOTHING).rows()
    assert (rows[0]["graph"], rows[1].get("graph")) == (0.6, None)


def test_graph_boost_ignores_turns_of_one_conversation() -> None:
    """A memory with neighbours is found by them: its names link it to its whole conversation."""
    pool = [
        Pooled(Candidate(r, turn(n, "tea"), (SourceHit("a", r, r, 1, None, "", 0.9),)), 0.0, {})
        for n, r in enumerate("rs", start=1)
    ]
    assert ["graph" in row for row in local_signals(query("tea"), pool, 1.0, TEN, NOTHING).rows()] == [False, False]
