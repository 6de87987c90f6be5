"""Dissent: which pairs of answers count, with vectors that are made up, and which are settled."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from fusion.contract import State, TokenVectors
from fusion.lib.paraphrase import Kind
from fusion.recall.context_pack import with_both_sides
from fusion.recall.decision import Decision
from fusion.recall.dedup import Rival
from fusion.recall.dissent import MAX_PAIRS, MAX_READ, Dissent, dissents, readable, with_dissent, without_rivals_apart
from fusion.recall.dissent_features import Asked, Stated
from fusion.recall.pack import Ranking
from fusion.recall.rerank import Scored
from fusion.recipe import PackSettings, RerankSettings
from tests.recall.helpers import by_id, record, scored, standalone

QUESTION = "When does the ferry leave?"
_AXES = 8


def _near(axis: int, other: int = 7, share: float = 0.2) -> np.ndarray:
    found = np.zeros(_AXES, np.float32)
    found[axis], found[other] = 1 - share, share
    return found / np.linalg.norm(found)


def _tokens(*axes: int, words: Sequence[str] = ()) -> TokenVectors:
    rows = np.array([_near(axis) * 127 for axis in axes], dtype=np.int8)
    return TokenVectors(rows, 1 / 127, tuple(words), tuple(words))


ASKED = Asked(QUESTION, _tokens(0, 1, words=("ferry", "leave")), _near(0))


def stated(ref: str, text: str, day: int = 1, speaker: str | None = None) -> Stated:
    """A memory that has the question's words and one more."""
    at = datetime(2025, 1, day, tzinfo=UTC)
    return Stated(ref, text, speaker, at, _tokens(0, 1, 2), _near(0, 1), ASKED)


def other(ref: str) -> Stated:
    """A memory that has nothing to do with the question."""
    return Stated(ref, "Tea is served in the hall.", None, None, _tokens(5, 6), _near(5), ASKED)


SEVEN, EIGHT = "The ferry leaves at seven in the evening.", "The ferry leaves at 8 pm."


def test_dissent_of_two_values() -> None:
    (found,) = dissents(ASKED, [stated("a", SEVEN), other("x"), stated("b", EIGHT, day=20)])
    assert set(found.refs) == {"a", "b"}
    assert 0.5 < found.probability <= 1


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (stated("a", SEVEN), stated("b", "The ferry leaves at 7 pm.", day=20)),
        (stated("a", SEVEN, speaker="Ada"), stated("b", EIGHT, day=20, speaker="Bo")),
        (stated("a", SEVEN), stated("b", "The ferry leaves.", day=20)),
        (stated("a", SEVEN), stated("b", "The ferry leaves at 8 pm, except on Sundays.", day=20)),
    ],
    ids=["the same time", "two speakers", "no time", "an exception"],
)
def test_no_dissent(one: Stated, two: Stated) -> None:
    assert dissents(ASKED, [one, other("x"), two]) == []


def test_dissent_does_not_depend_on_the_order() -> None:
    answers = [stated("a", SEVEN), other("x"), stated("b", EIGHT, day=20)]
    assert [set(one.refs) for one in dissents(ASKED, answers)] == [
        set(one.refs) for one in dissents(ASKED, answers[::-1])
    ]


def test_dissent_is_bounded() -> None:
    many = [stated(f"m{n}", f"The ferry leaves at {n}:15 pm.", day=n + 1) for n in range(1, 12)]
    found = dissents(ASKED, many)
    assert len(found) <= MAX_PAIRS
    refs = [ref for one in found for ref in one.refs]
    assert len(refs) == len(set(refs)), "a memory is in one pair"


def test_dissent_among_huge_texts_is_found_fast() -> None:
    words = " ".join(f"Word{n}" for n in range(20_000))
    answers = [stated("a", f"{SEVEN} {words}"), other("x"), stated("b", f"{EIGHT} {words} more", day=20)]
    began = time.perf_counter()
    dissents(ASKED, answers)
    assert time.perf_counter() - began < 3


def ranking(order: Sequence[Scored], **more: object) -> Ranking:
    return replace(Ranking(QUESTION, order, PackSettings(), RerankSettings(), "0123"), **more)  # type: ignore[arg-type]


def two() -> list[Scored]:
    return [scored(ref, standalone(ref, text), 0.5) for ref, text in (("r1", SEVEN), ("r2", EIGHT))]


def rival_pair(one: str, other: str, kind: Kind) -> list[Scored]:
    """Two memories that are rivals."""
    found = []
    for ref, text, rival in (("r1", one, "r2"), ("r2", other, "r1")):
        memory = scored(ref, standalone(ref, text), 0.5)
        candidate = memory.pooled.candidate._replace(rivals=(Rival(rival, kind),))
        found.append(memory._replace(pooled=memory.pooled._replace(candidate=candidate)))
    return found


def test_dissenting_memories_become_rivals() -> None:
    found = with_dissent(ranking(two()), [Dissent(("r1", "r2"), 0.9)])
    assert [[(rival.ref, rival.kind) for rival in one.pooled.candidate.rivals] for one in found.order] == [
        [("r2", Kind.DISSENT)],
        [("r1", Kind.DISSENT)],
    ]


@pytest.mark.parametrize(
    ("later", "kind", "rivals"),
    [
        ("The firm has an office in Cardiff as well.", Kind.WORD, 0),
        ("The firm has an office in Cardiff.", Kind.WORD, 1),
        ("The bank has an office in Cardiff.", Kind.WORD, 0),
        ("The firm has an office in Cardiff as well.", Kind.CONFLICT, 1),
    ],
    ids=["an addition", "another value", "two things", "a conflict of the journal"],
)
def test_rivals_that_are_not_about_one_thing_are_none_in_a_pack(later: str, kind: Kind, rivals: int) -> None:
    order = rival_pair("The firm has an office in Leeds.", later, kind)
    found = without_rivals_apart(ranking(order))
    assert [len(one.pooled.candidate.rivals) for one in found.order] == [rivals, rivals]


@pytest.mark.parametrize(("question", "rivals"), [("Which ports are open?", 0), ("Which port is open?", 1)])
def test_two_answers_to_a_question_for_several_things_are_no_rivals(question: str, rivals: int) -> None:
    order = rival_pair("Port Leith is open.", "Port Dover is open.", Kind.WORD)
    found = without_rivals_apart(ranking(order, question=question))
    assert [len(one.pooled.candidate.rivals) for one in found.order] == [rivals, rivals]


@pytest.mark.parametrize(
    ("status", "settled"), [("resolved", True), ("active", False)], ids=["resolved", "still in conflict"]
)
def test_a_resolved_conflict_is_no_dissent(status: str, settled: bool) -> None:
    state = State(conflict_group="g1", conflict_status=status)  # type: ignore[arg-type]
    records = [replace(record(f"e{n}"), ref=f"r{n}", state=state) for n in (1, 2)]
    found = with_dissent(ranking(two(), records=by_id(*records)), [Dissent(("r1", "r2"), 0.9)])
    assert any(one.pooled.candidate.rivals for one in found.order) is not settled


@pytest.mark.feature("a contradiction about something else is no reason for a pack: where nothing fits, it stays empty")
@pytest.mark.parametrize("floor", [0.5, 0.0])
@pytest.mark.parametrize(("kind", "shown"), [(Kind.DISSENT, 2), (Kind.WORD, 0)])
def test_two_answers_that_dissent_are_never_too_weak(kind: Kind, shown: int, floor: float) -> None:
    """Neither if each is too weak, nor if the best is; two that only contradict each other are."""
    found = with_dissent(ranking(two()), [Dissent(("r1", "r2"), 0.9)])
    order = [
        one._replace(
            local=0.01,
            pooled=one.pooled._replace(
                candidate=one.pooled.candidate._replace(
                    rivals=tuple(rival._replace(kind=kind) for rival in one.pooled.candidate.rivals)
                )
            ),
        )
        for one in found.order
    ]
    weak = replace(found, order=order, floors=RerankSettings(floor=floor, abstain=0.5))
    assert len(with_both_sides(weak).packed) == shown


def test_what_is_private_is_not_compared_and_few_are_read() -> None:
    order = [scored(f"r{n}", standalone(f"n{n}", f"text {n}"), 0.5) for n in range(MAX_READ + 3)]
    left_out = {order[0].pooled.key: Decision.PRIVATE, order[1].pooled.key: Decision.ADDS_TOO_LITTLE}
    assert [one.ref for one in readable(ranking(order, left_out=left_out))] == [f"r{n}" for n in range(1, MAX_READ + 1)]
