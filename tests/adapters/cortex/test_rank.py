"""Seed 000's nine factors and two penalties, with their arithmetic."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.cortex.options import Options
from adapters.cortex.port import Lifetime, Link, Matches, Memory, State
from adapters.cortex.rank import (
    Candidate,
    Weights,
    confidence,
    frequency,
    fused,
    graph_proximity,
    merged,
    penalties,
    rank,
    recency,
    reinforcement,
    scope_boost,
    similarity,
    tag_affinity,
    type_boost,
)
from adapters.cortex.recall import Pool, ranked
from fusion.contract import KINDS, Extraction, Kind, Scope
from fusion.errors import SettingsError
from tests.backend_contract import NOW, event_id, make_event, make_query

HOUR = timedelta(hours=1)


def candidate(n: int, cosine: float | None = 0.5, *, state: State | None = None, **fields: object) -> Candidate:
    return Candidate(Memory(make_event(n, f"note {n}", **fields), state=state or State()), cosine, 0.0)  # type: ignore[arg-type]


# A007, A008: the sum


@pytest.mark.row("A007", "Cortex: the score is the weighted sum of nine factors")
def test_the_score_is_the_weighted_sum() -> None:
    """A rule of the project asked about, used an hour ago for the 1,023rd time, reinforced 31 times, one of two tags
    asked for, one hop away, cosine .8, confidence .9:
    .45·.8 + .08·2^(-1/168) + .05·1 + .10·1 + .08·1 + .07·.9 + .07·1 + .05·.5 + .05·1 = .8777."""
    state = State("project", 0.9, ("rust", "go"), 1023, NOW - HOUR, 31)
    found = replace(candidate(1, 0.8, state=state, kind="rule", scope=Scope(project="gate")), hops=1)
    (ranked,) = rank([found], "what about Rust?", "gate", NOW, Weights())
    parts = [0.45 * 0.8, 0.08 * 2 ** (-1 / 168), 0.05, 0.10, 0.08, 0.07 * 0.9, 0.07, 0.05 * 0.5, 0.05]
    assert ranked.score == pytest.approx(sum(parts)) == pytest.approx(0.8777, abs=1e-4)
    assert ranked.factors == Weights(0.8, 2 ** (-1 / 168), 1.0, 1.0, 1.0, 0.9, 1.0, 0.5, 1.0)


def test_the_seeds_nine_weights() -> None:
    """.45 + .08 + .05 + .10 + .08 + .07 + .07 + .05 + .05 = 1; others may be given as far as they still add up to 1."""
    weights = Weights.of({})
    assert [getattr(weights, f.name) for f in fields(weights)] == [0.45, 0.08, 0.05, 0.1, 0.08, 0.07, 0.07, 0.05, 0.05]
    assert Weights.of({"similarity": 0.46}).similarity == 0.46  # 1.01 is within 1 ± .01
    assert Weights.of({"similarity": 0.40, "graph": 0.10}).graph == 0.10


@pytest.mark.row(
    "A008",
    "… weights are options: each at least 0, the sum 1 ± .01; others are refused at the start, not silently replaced",
    of="Cortex: the score is the weighted sum",
)
@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"similarity": 0.5}, "add up to 1.05"),
        ({"graph": -0.05, "similarity": 0.55}, "graph = -0.05 must be a number of at least 0"),
        ({"graph": nan}, "must be a number"),
        ({"graph": inf}, "must be a number"),
        ({"graph": True}, "must be a number"),
        ({"graph": "0.05"}, "must be a number"),
        ({"semantic": 0.5}, "no option 'semantic', only: similarity, recency"),
        ([0.5, 0.5], "must be a table"),
    ],
)
def test_weights_are_checked(table: object, says: str) -> None:
    """Each at least 0, finite, known by name; the sum 1 ± .01."""
    with pytest.raises(SettingsError, match=says):
        Weights.of(table)


# A009 to A016: the factors


@pytest.mark.row("A009", "… recency halves in 168 hours", of="Cortex: the score is the weighted sum")
@pytest.mark.feature("… a use in the future counts as a use just now", of="a clock that jumps back: the")
@pytest.mark.parametrize(
    ("hours", "expected"),
    [(0, 1.0), (168, 0.5), (336, 0.25), (24, 2 ** (-24 / 168)), (-5, 1.0)],
)
def test_recency_halves_each_week(hours: float, expected: float) -> None:
    """exp(-ln 2 · h/168): .5 at 168 h, .25 at 336 h; a clock that jumped back makes it 1, not more."""
    assert recency(NOW - hours * HOUR, NOW) == pytest.approx(expected)


def test_what_was_never_used_has_a_recency_of_a_tenth() -> None:
    """.1 without any access: what was used 558 hours ago, 2^(-558/168) = .1, ranks the same."""
    assert recency(None, NOW) == 0.1
    assert recency(NOW - 558 * HOUR, NOW) == pytest.approx(0.1, abs=0.001)


@pytest.mark.row("A010", "… frequency reaches 1 at 1,023 uses", of="Cortex: the score is the weighted sum")
@pytest.mark.parametrize(("count", "expected"), [(0, 0.0), (1, 0.1), (31, 0.5), (1023, 1.0), (10**9, 1.0), (-3, 0.0)])
def test_frequency(count: int, expected: float) -> None:
    """min(1, log2(1 + n)/10): log2(2)/10 = .1, log2(32)/10 = .5, log2(1024)/10 = 1."""
    assert frequency(count) == pytest.approx(expected)


@pytest.mark.row(
    "A011", "… the type's multiplier counts relative to the highest", of="Cortex: the score is the weighted sum"
)
@pytest.mark.parametrize(
    ("kind", "expected"),
    [("rule", 1.0), ("procedure", 0.867), ("fact", 0.667), ("episode", 0.533), ("preference", 0.467), ("turn", 0.667)],
)
def test_type_boost(kind: Kind, expected: float) -> None:
    """1.5, 1.3, 1.0, .8 and .7 over 1.5; a kind that the seed has not is 1.0/1.5."""
    assert type_boost(kind) == pytest.approx(expected, abs=0.001)


@pytest.mark.row(
    "A012",
    "… the scope counts: the project asked about, permanent, any other",
    of="Cortex: the score is the weighted sum",
)
@pytest.mark.parametrize(
    ("lifetime", "project", "asked", "expected"),
    [
        ("project", "gate", "gate", 1.0),
        ("permanent", None, "gate", 0.667),
        ("permanent", "gate", "gate", 0.667),
        ("project", "other", "gate", 0.533),
        ("session", "gate", "gate", 0.533),
        ("ttl", None, "gate", 0.533),
        ("project", "gate", None, 0.667),
        ("session", None, None, 0.667),
    ],
)
def test_scope_boost(lifetime: Lifetime, project: str | None, asked: str | None, expected: float) -> None:
    """1.5/1.5 for the project asked about, 1.0/1.5 permanent, .8/1.5 otherwise; 1.0/1.5 where none is asked about."""
    assert scope_boost(lifetime, project, asked) == pytest.approx(expected, abs=0.001)


@pytest.mark.row("A013", "… a confidence below .01 is unknown", of="Cortex: the score is the weighted sum")
@pytest.mark.parametrize(("stated", "expected"), [(0.0, 0.7), (0.0099, 0.7), (0.01, 0.01), (0.9, 0.9), (1.3, 1.0)])
def test_confidence(stated: float, expected: float) -> None:
    """Below .01 it is unknown: .7."""
    assert confidence(stated) == expected


@pytest.mark.row("A014", "… reinforcement reaches 1 at 31", of="Cortex: the score is the weighted sum")
@pytest.mark.parametrize(("count", "expected"), [(0, 0.0), (1, 0.2), (7, 0.6), (31, 1.0), (10**6, 1.0)])
def test_reinforcement(count: int, expected: float) -> None:
    """min(1, log2(n + 1)/5): log2(2)/5 = .2, log2(8)/5 = .6, log2(32)/5 = 1."""
    assert reinforcement(count) == pytest.approx(expected)


@pytest.mark.row("A015", "… tags count by the share that the query names", of="Cortex: the score is the weighted sum")
@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ((), 0.0),
        (("Rust",), 1.0),
        (("rust", "go"), 0.5),
        (("error handling",), 1.0),
        (("error codes",), 0.0),
        (("!",), 0),
    ],
)
def test_tag_affinity(tags: tuple[str, ...], expected: float) -> None:
    """The share of its tags that "error handling in rust" has; a tag of two words needs both; case does not matter."""
    assert tag_affinity(tags, frozenset("error handling in rust".split())) == expected


@pytest.mark.parametrize(("hops", "expected"), [(None, 0.0), (1, 1.0), (2, 0.5), (3, 0.25), (9, 0.25)])
def test_graph_proximity(hops: int | None, expected: float) -> None:
    """1 for one hop, .5 for two, .25 from three on, 0 where no way leads; a link half as strong as the best: half."""
    assert graph_proximity(hops) == expected
    assert graph_proximity(hops, 0.5) == 0.5 * expected


@pytest.mark.parametrize(
    ("cosine", "by_words", "expected"),
    [(0.6, 0.0, 0.6), (0.6, 0.5, 0.7), (-0.2, 0.0, 0.0), (-0.2, 0.5, 0.4), (1.00002, 0.0, 1.0), (None, 0.5, 0.8)],
)
def test_similarity(cosine: float | None, by_words: float, expected: float) -> None:
    """With a BM25 of .8 of the best: the seed's cosine alone, or (.6 + .8)/2 = .7; below 0 is 0; no vector: words."""
    assert similarity(cosine, 0.8, 0.3, by_words) == pytest.approx(expected)


@pytest.mark.feature("Cortex: words count for half of similarity by default; `by_words = 0` takes the cosine alone")
def test_by_words_is_half_of_similarity_by_default() -> None:
    """A cosine of .6 is (.6 + 1)/2 = .8 with the best BM25, (.6 + .5)/2 = .55 with half of it; the seed's is .6."""
    one, two = (candidate(n).memory for n in (1, 2))
    ids = (one.event.event_id, two.event.event_id)
    found = Matches([(ids[0], 4.0), (ids[1], 2.0)], [(id_, 0.6) for id_ in ids])
    pool = Pool(found, (), dict.fromkeys(ids, 1.0), dict.fromkeys(ids, 0.6), whole=True)

    def similarities(options: Options) -> list[float]:
        memories = ranked(pool, dict(zip(ids, (one, two), strict=True)), make_query("note"), options)
        return [memory.factors.similarity for memory in memories]

    assert similarities(Options()) == pytest.approx([0.8, 0.55])
    assert similarities(Options(by_words=0.0)) == pytest.approx([0.6, 0.6])


def test_what_only_the_graph_found_has_the_blended_score() -> None:
    """Without a vector and without a word in common: .3, its fused score."""
    assert similarity(None, 0.0, 0.3) == 0.3


# A017, A018: penalties


@pytest.mark.row("A017", "… × .3 next to its successor", of="Cortex: the score is the weighted sum")
def test_superseded_memory_scores_a_third_next_to_its_successor() -> None:
    """× .3 where the successor is among the results too; alone it is not punished."""
    old, new = candidate(1), candidate(2, supersedes=event_id(1))
    (alone,) = rank([old], "", None, NOW, Weights())
    first, second = rank([old, new], "", None, NOW, Weights())
    assert (first.memory.id, second.memory.id) == (event_id(2), event_id(1))
    assert second.score == pytest.approx(0.3 * alone.score)
    assert (alone.penalty, first.penalty, second.penalty) == (1.0, 1.0, 0.3)


@pytest.mark.row("A018", "… × .8 in an active conflict", of="Cortex: the score is the weighted sum")
def test_each_side_of_an_active_conflict_counts_four_fifths() -> None:
    """× .8 while it is active, nothing once it is resolved; with supersession .8 · .3 = .24."""
    active, resolved = State(conflict_status="active"), State(conflict_status="resolved")
    assert penalties(candidate(1, state=active).memory, ()) == 0.8
    assert penalties(candidate(1, state=resolved).memory, ()) == 1.0
    assert penalties(candidate(1, state=active).memory, {event_id(1)}) == pytest.approx(0.24)


# A016: hops reach the score


@pytest.mark.row("A016", "… hops count in the score", of="Cortex: the score is the weighted sum")
def test_hops_reach_the_score() -> None:
    """Of two equal memories the one that is a hop away is .05 · 1 ahead, two hops .05 · .5."""
    far, near, nearer = candidate(1), replace(candidate(2), hops=2), replace(candidate(3), hops=1)
    first, second, third = rank([far, near, nearer], "", None, NOW, Weights())
    assert [r.memory.id for r in (first, second, third)] == [event_id(3), event_id(2), event_id(1)]
    assert (first.score - third.score, second.score - third.score) == pytest.approx((0.05, 0.025))


# A020: the merge before ranking


@pytest.mark.row("A020", "Cortex: similar and linked lists are merged by .6 and .4 over 60 + rank")
def test_the_merge_of_similar_and_linked() -> None:
    """Rank 1 in both: .6/61 + .4/61 = 1/61. Similar only, rank 2: .6/62. Linked only, rank 3: .4/63."""
    scores = merged(["a", "b"], [Link("a", 1, 1), Link("c", 2, 3)], 0.6, 0.4)
    assert scores == pytest.approx({"a": 1 / 61, "b": 0.6 / 62, "c": 0.4 / 63})


def test_words_and_vectors_as_one_list() -> None:
    """b: 1/62 + 1/61 beats a: 1/61 + nothing; c and d have 1/63 each and go by id."""
    found = Matches([("a", 9.0), ("b", 8.0), ("d", 7.0)], [("b", 0.9), ("x", 0.8), ("c", 0.7)])
    assert fused(found) == ["b", "a", "x", "c", "d"]


# Invariants

states = st.builds(
    State,
    st.sampled_from(["permanent", "project", "session", "ttl"]),
    st.floats(0, 1),
    st.lists(st.sampled_from(["rust", "go", "a b"]), max_size=3).map(tuple),
    st.integers(0, 10**7),
    st.one_of(st.none(), st.timedeltas(-timedelta(days=4000), timedelta(days=4000)).map(lambda age: NOW - age)),
    st.integers(0, 10**5),
    conflict_status=st.sampled_from([None, "active", "resolved"]),
)
candidates = st.builds(
    lambda n, kind, state, cosine, blended, hops: Candidate(
        Memory(make_event(n, "x", kind="note"), Extraction(kind), state), cosine, blended, hops=hops
    ),
    st.integers(1, 50),
    st.sampled_from(KINDS),
    states,
    st.one_of(st.none(), st.floats(-1, 1)),
    st.floats(0, 1),
    st.one_of(st.none(), st.integers(1, 3)),
)


@given(st.lists(candidates, max_size=8, unique_by=lambda c: c.memory.id))
def test_a_ranking_is_an_order_of_all(found: list[Candidate]) -> None:
    """Whatever the states: nobody is lost, scores lie in 0 to 1 and never rise, and the input's order says nothing."""
    ranked = rank(found, "rust a b", "gate", NOW, Weights())
    assert sorted(r.memory.id for r in ranked) == sorted(c.memory.id for c in found)
    scores = [r.score for r in ranked]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert rank(found[::-1], "rust a b", "gate", NOW, Weights()) == ranked
