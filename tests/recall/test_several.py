"""Questions that ask for several things."""

from __future__ import annotations

import pytest

from fusion.recall.several import asks_for_several


@pytest.mark.parametrize(
    "question",
    [
        "Which books has Ada read?",
        "what musical instruments does Bo play",
        "How many times did Ada move?",
        "how often does Bo swim?",
        "What do Ada and Bo have in common?",
        "What do both like?",
        "In what ways does Ada help?",
        "What kind of art does Ada make?",
        "What are Ada's favourite dishes?",
        "Wie viele Hunde hat Bo?",
        "Was haben Ada und Bo gemeinsam?",
        "Quels livres Ada a-t-elle lus ?",
        "¿Cuántos perros tiene Bo?",
        "Quali libri ha letto Ada?",
    ],
)
def test_question_for_several_things(question: str) -> None:
    assert asks_for_several(question)


@pytest.mark.parametrize(
    "question",
    [
        "Where does Ada live?",
        "What is the bus stop called?",
        "What does Bo do on Sundays?",
        "Which dress did Ada wear?",
        "what was the status of the order",
        "When did Ada's kids visit?",
        "Wo wohnt Ada?",
        "",
        "???",
    ],
)
def test_question_for_one_thing(question: str) -> None:
    assert not asks_for_several(question)
