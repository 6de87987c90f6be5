"""The judge's place: it rearranges the head, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.contract import Passage, Verdict
from fusion.recall.rerank import (
    Scored,
    by_best_sub_question,
    by_local_score,
    by_verdict,
    passages,
    signals_of,
    wants_judge,
)
from fusion.recall.signals import SignalTable
from fusion.recipe import RerankSettings
from tests.recall.helpers import pooled, scored, standalone, turn


def order_of(*locals_: float) -> list[Scored]:
    return [scored(f"r{i}", standalone(f"r{i}", f"text {i}"), local) for i, local in enumerate(locals_)]


def verdict_of(order: list[Scored], shown: dict[str, Passage], *scores: float | None) -> Verdict:
    return Verdict("ok", {shown[j.ref].id: s for j, s in zip(order, scores, strict=False) if s is not None})


def test_the_local_order_is_by_score_then_agreement_then_ref() -> None:
    """Ties are broken by what the backends agree on, then by ref: never by chance."""
    pool = [
        pooled("b", standalone("b", "x")),
        pooled("a", standalone("a", "y")),
        pooled("c", standalone("c", "z"), rrf=0.1),
    ]
    order = by_local_score(pool, SignalTable.of([{"bm25": 0.5}] * 3), RerankSettings(signals={"bm25": 1.0}))
    assert [j.ref for j in order] == ["c", "a", "b"]


@pytest.mark.feature("a question for several things of one speaker counts the speaker for more (`speaker_of_several`)")
@pytest.mark.parametrize(
    ("question", "speaker", "first"),
    [
        ("Which books has Ada read?", 1.0, "ada"),  # .1 + 3 · 1 over .9 + 3 · .5
        ("Where does Ada live?", 1.0, "bo"),  # .1 + 1 under .9 + .5
        ("Which books are there?", 0.5, "bo"),  # nobody is named
    ],
)
def test_speaker_counts_for_more_if_several_things_are_asked_for(question: str, speaker: float, first: str) -> None:
    pool = [pooled("bo", turn(1, "x", "Bo")), pooled("ada", turn(9, "y", "Ada"))]
    table = SignalTable.of([{"bm25": 0.9, "speaker": 0.5}, {"bm25": 0.1, "speaker": speaker}])
    numbers = RerankSettings(signals={"bm25": 1.0, "speaker": 1.0}, speaker_of_several=2.0)
    assert by_local_score(pool, table, numbers, question)[0].ref == first
    alone = by_local_score(pool, table, replace(numbers, speaker_of_several=0.0), question)
    assert alone[0].ref == "bo"


@pytest.mark.row(
    "A023",
    "the judge is asked only if the top four are close; for the fused answer, not for the cortex's "
    "own recall (see Left out)",
)
@pytest.mark.parametrize(
    ("locals_", "asked"),
    [
        ((0.9, 0.85, 0.8, 0.75), True),  # .15000000000000002 in floating point
        ((0.9, 0.85, 0.8, 0.7499), False),
        ((0.9, 0.85, 0.8, 0.74), False),
        ((0.9, 0.89, 0.88), False),
        ((0.65, 0.6, 0.55, 0.5), True),
    ],
)
def test_gate_asks_when_the_top_four_are_within_the_spread(locals_: tuple[float, ...], asked: bool) -> None:
    """The default spread is .15, inclusive; three memories are too few (seed 000, A023)."""
    assert wants_judge(order_of(*locals_), RerankSettings(judge="gate")) is asked


def test_gate_top_and_gate_spread_set_when_the_judge_is_asked() -> None:
    """How many memories must be close to each other, and how close."""
    order = order_of(0.9, 0.85, 0.8, 0.5)
    assert not wants_judge(order, RerankSettings(judge="gate"))
    assert wants_judge(order, RerankSettings(judge="gate", gate_top=3))
    assert wants_judge(order, RerankSettings(judge="gate", gate_spread=0.4))
    assert not wants_judge(order, RerankSettings(judge="gate", gate_top=3, gate_spread=0.05))


def test_judge_never_and_always() -> None:
    """`hook` never asks; `deep` asks even about one; nothing is asked about nothing."""
    assert not wants_judge(order_of(0.5, 0.5, 0.5, 0.5), RerankSettings(judge="never"))
    assert wants_judge(order_of(0.5), RerankSettings(judge="always"))
    assert not wants_judge([], RerankSettings(judge="always"))


def test_passage_has_its_neighbours_and_a_random_id() -> None:
    """Ids are random, not ordinals; the judge sees a turn between the one before and the one after."""
    order = [scored("a", turn(2, "Postgres.", "Ada"), 0.9), scored("b", turn(1, "Which database?", "Bo"), 0.1)]
    shown = passages(order, RerankSettings(head=1))
    assert list(shown) == ["a"]
    assert shown["a"].text == "Bo: Which database?\nAda: Postgres."
    assert passages(order, RerankSettings(head=1))["a"].id != shown["a"].id


def test_the_judges_score_is_blended_with_the_local_one() -> None:
    """.5·10/10 + .5·.2 = .60 beats .5·2/10 + .5·.9 = .55."""
    order = order_of(0.9, 0.2)
    shown = passages(order, RerankSettings())
    after = by_verdict(order, shown, verdict_of(order, shown, 2.0, 10.0), RerankSettings(judge_weight=0.5))
    assert [(j.ref, j.judge) for j in after] == [("r1", 10.0), ("r0", 2.0)]


@pytest.mark.feature("a judge whose scores are no probabilities puts in order, and leaves no memory out")
def test_verdict_that_only_orders_decides_nothing_else() -> None:
    """Its scores count for the order, and the memories say that they neither keep nor leave them out."""
    order = order_of(0.9, 0.2, 0.1)
    shown = passages(order, RerankSettings(head=2))
    verdict = replace(verdict_of(order, shown, 0.1, 9.9), orders_only=True)
    after = by_verdict(order, shown, verdict, RerankSettings(head=2))
    assert [(j.ref, j.judge, j.decided_by_judge) for j in after] == [
        ("r1", 9.9, False),
        ("r0", 0.1, False),
        ("r2", None, False),
    ]
    decided = by_verdict(order, shown, verdict_of(order, shown, 0.1, 9.9), RerankSettings(head=2))
    assert [j.decided_by_judge for j in decided] == [True, True, False]


@pytest.mark.row("A025", "if the judge scores only some, these come first and no other is dropped")
@pytest.mark.row("A025", "scores for some only: no memory is dropped", part="faults/judge")
def test_verdict_on_some_puts_them_first_and_drops_none() -> None:
    """k of n scored: those lead, the others keep their local order behind, the tail stays."""
    order = order_of(0.9, 0.8, 0.7, 0.6)
    numbers = RerankSettings(head=3)
    shown = passages(order, numbers)
    after = by_verdict(order, shown, verdict_of(order, shown, None, None, 5.0), numbers)
    assert [j.ref for j in after] == ["r2", "r0", "r1", "r3"]


@pytest.mark.row("A024", "without scores the local order is kept")
def test_without_scores_the_local_order_stands() -> None:
    """A judge that timed out, refused or was too dear changes nothing."""
    order = order_of(0.9, 0.8)
    shown = passages(order, RerankSettings())
    for status in ("timeout", "skipped_budget", "cooldown", "disabled", "invalid", "error"):
        assert by_verdict(order, shown, Verdict(status), RerankSettings()) == tuple(order)


@pytest.mark.feature(
    "… the best memory for each comes first, unless none answers it",
    of="sub-questions are ranked separately",
)
def test_sub_questions_have_their_best_memories_at_the_top() -> None:
    """Bests of .8 and .4: the second part's scores count double. b is ½ by the first part and .4 · 2 by the second."""
    a, b, c = (pooled(ref, standalone(ref, ref)) for ref in "abc")
    one, two = (SignalTable.of([{"bm25": v} for v in values]) for values in ((0.8, 0.5, 0.1), (0.0, 0.4, 0.3)))
    first = (Scored(a, one, 0, 0.8), Scored(b, one, 1, 0.5), Scored(c, one, 2, 0.1))
    second = (Scored(b, two, 1, 0.4), Scored(c, two, 2, 0.3), Scored(a, two, 0, 0.0))
    order = by_best_sub_question([first, second], RerankSettings())
    assert [(j.ref, j.local) for j in order] == [("a", 0.8), ("b", 0.8), ("c", pytest.approx(0.6))]
    assert order[1].signals == {"bm25": 0.4}  # of the part that it answers best
    assert signals_of(order).rows() == [{"bm25": 0.8}, {"bm25": 0.4}, {"bm25": 0.3}]
    assert signals_of(first[::-1]).rows() == [{"bm25": 0.1}, {"bm25": 0.5}, {"bm25": 0.8}]


@pytest.mark.feature(
    "… the best memory for each comes first, unless none answers it",
    of="sub-questions are ranked separately",
)
def test_unanswered_sub_question_is_not_scaled() -> None:
    """Its best stands under the floor that an answer has to reach, so its .3 stays .3; without all signals there is no
    such floor."""
    a, b = (pooled(ref, standalone(ref, ref)) for ref in "ab")
    none = SignalTable.of([{}, {}])
    first, second = (
        (Scored(a, none, 0, 0.8), Scored(b, none, 1, 0.2)),
        (Scored(b, none, 1, 0.3), Scored(a, none, 0, 0.1)),
    )
    assert [j.local for j in by_best_sub_question([first, second], RerankSettings(abstain=0.36))] == [0.8, 0.3]
    partial = tuple(j._replace(complete=False) for j in second)
    assert [j.local for j in by_best_sub_question([first, partial], RerankSettings(abstain=0.36))] == [0.8, 0.8]
    assert by_best_sub_question([(), ()], RerankSettings()) == ()


@pytest.mark.feature("a fooled judge cannot raise what was not among the best")
@pytest.mark.feature("a fooled judge sees and moves only the best of the local order", part="faults/judge")
def test_fooled_judge_cannot_raise_a_memory_outside_the_head() -> None:
    """A passage below the head has no id to be scored under; one in it gains at most the judge's share."""
    order = order_of(*[1 - i / 100 for i in range(30)])
    numbers = RerankSettings(head=16, judge_weight=0.5)
    shown = passages(order, numbers)
    assert len(shown) == 16
    scores = [5.0] * 15 + [10.0]
    after = by_verdict(order, shown, verdict_of(order, shown, *scores), numbers)
    assert [j.ref for j in after[16:]] == [f"r{i}" for i in range(16, 30)]


@pytest.mark.feature("a stuffed or injected passage gains only what its score is worth, and the others move little")
@pytest.mark.feature("a passage that asks for a score of ten", part="faults/judge")
def test_an_injected_point_moves_a_passage_by_what_it_is_worth() -> None:
    """One point too many is .5 × .1 = .05 of the blended score: it passes neighbours within .1 of local score only."""
    order = order_of(0.9, 0.84, 0.79, 0.5)
    shown = passages(order, RerankSettings())
    honest = by_verdict(order, shown, verdict_of(order, shown, 5.0, 5.0, 5.0, 5.0), RerankSettings())
    fooled = by_verdict(order, shown, verdict_of(order, shown, 5.0, 5.0, 5.0, 6.0), RerankSettings())
    assert [j.ref for j in fooled] == [j.ref for j in honest]


@pytest.mark.feature("a stuffed or injected passage gains only what its score is worth, and the others move little")
@pytest.mark.feature(
    "a passage stuffed with the question's words: its gain and the others' loss are both measured",
    part="faults/judge",
)
def test_a_stuffed_passage_gains_within_bounds_and_the_others_drift_little() -> None:
    """A judge that takes the query's words for an answer gives the last of four 10 instead of 2: .5 · .5 + .5 · 1 = .75
    instead of .35. It passes two (.75 < .8, > .7, > .6): two ranks gained, and the three honest ones drift by 2 / 3."""
    order = order_of(0.8, 0.7, 0.6, 0.5)
    shown = passages(order, RerankSettings())
    honest = by_verdict(order, shown, verdict_of(order, shown, 8.0, 7.0, 6.0, 2.0), RerankSettings())
    fooled = by_verdict(order, shown, verdict_of(order, shown, 8.0, 7.0, 6.0, 10.0), RerankSettings())
    ranks = [{j.ref: rank for rank, j in enumerate(ordered)} for ordered in (honest, fooled)]
    gains = {ref: before - ranks[1][ref] for ref, before in ranks[0].items()}
    assert gains == {"r0": 0, "r1": -1, "r2": -1, "r3": 2}


@given(
    locals_=st.lists(st.floats(0, 1), min_size=1, max_size=25),
    scores=st.lists(st.one_of(st.none(), st.floats(0, 10)), max_size=25),
    head=st.integers(1, 20),
)
def test_a_verdict_only_permutes_the_head(locals_: list[float], scores: list[float | None], head: int) -> None:
    """Nothing enters, nothing leaves, and the tail does not move, whatever the judge says."""
    order = order_of(*locals_)
    numbers = RerankSettings(head=head)
    shown = passages(order, numbers)
    after = by_verdict(order, shown, verdict_of(order[:head], shown, *scores), numbers)
    assert sorted(j.ref for j in after) == sorted(j.ref for j in order)
    assert [j.ref for j in after[head:]] == [j.ref for j in order[head:]]
