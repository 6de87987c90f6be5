"""What sort of answer a question asks for."""

from __future__ import annotations

import time

import pytest

from fusion.lib.answer_type import AnswerType, answer_type


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("How many berths does the harbour have?", AnswerType.NUMBER),
        ("What is the speed limit on the quay?", AnswerType.NUMBER),
        ("Wie viele Liegeplätze gibt es?", AnswerType.NUMBER),
        ("When does the ferry leave?", AnswerType.TIME),
        ("How often is the pump serviced?", AnswerType.TIME),
        ("À quelle heure ferme le bureau ?", AnswerType.TIME),
        ("Who keeps the keys?", AnswerType.PERSON),
        ("Where do we meet?", AnswerType.PLACE),
        ("¿Dónde vive Inés?", AnswerType.PLACE),
        ("Does Omar eat fish?", AnswerType.TRUTH),
        ("What does Nadia think of the new crane?", AnswerType.TRUTH),
        ("Is it tea or coffee?", AnswerType.THING),
        ("Which paint is on the hull?", AnswerType.THING),
        ("", AnswerType.THING),
    ],
)
def test_answer_type_of_questions(question: str, kind: AnswerType) -> None:
    assert answer_type(question) is kind


def test_answer_type_of_a_huge_text_is_fast() -> None:
    began = time.perf_counter()
    answer_type("what which " * 100_000)
    assert time.perf_counter() - began < 0.5
