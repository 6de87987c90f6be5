"""Which questions may need several memories."""

from __future__ import annotations

import pytest

from fusion.recall.nested_question import is_nested


@pytest.mark.parametrize(
    "question",
    [
        "When was the institute founded that owned the newspaper?",
        "Who is the wife of the director of the film?",
        "What is the birthplace of Ines's teacher?",
        "Of what church is the town of the poet a part of?",
        "How do the opening hours, prices, staff, parking, menu and music of both restaurants compare?",
        "Wie heißt der Ort, dessen Kirche wir besucht haben?",
    ],
)
def test_questions_with_clauses_relations_or_many_words_are_nested(question: str) -> None:
    assert is_nested(question)


@pytest.mark.parametrize(
    "question",
    [
        "who has the spare key?",
        "which hotel did we book?",
        "what's the name of our cat?",
        "Where is Ada's bicycle?",
        "",
    ],
)
def test_plain_questions_are_not_nested(question: str) -> None:
    assert not is_nested(question)
