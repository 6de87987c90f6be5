"""The questions in a question: where one ends, whom the next is about, and what a model saw of each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.recall.signals import Likeness
from fusion.recall.split_query import split_query, sub_questions
from tests.recall.helpers import query


@pytest.mark.feature("sub-questions are ranked separately: where one begins, and which person the next is about")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("What did Ada buy, and where did Bo go?", ["What did Ada buy", "where did Bo go?"]),
        ("What did Ada buy and where did Bo go?", ["What did Ada buy", "where did Bo go?"]),
        ("Who is Bo's boss? And which team is Ada in?", ["Who is Bo's boss?", "which team is Ada in?"]),
        ("Who is Bo's boss? Which team is Ada in?", ["Who is Bo's boss?", "Which team is Ada in?"]),
        (
            "what runs on port 80, how is it restarted, and who is paged?",
            ["what runs on port 80", "how is it restarted", "who is paged?"],
        ),
        ("Does Ada like tea or did Bo drink it?", ["Does Ada like tea", "did Bo drink it?"]),
        ("Where is Bo's boat and was the house of Ada sold?", ["Where is Bo's boat", "was the house of Ada sold?"]),
        ("When did Ada move, but why didn't Bo come along?", ["When did Ada move", "why didn't Bo come along?"]),
        ("In which town is Ada and in which does Bo live?", ["In which town is Ada", "in which does Bo live?"]),
        ("Remind me what Ada bought and where Bo went.", ["Remind me what Ada bought", "where Bo went."]),
        ("I met Bo. What did Bo say? And who was with Ada?", ["I met Bo. What did Bo say?", "who was with Ada?"]),
    ],
)
def test_sub_questions_begin_with_a_question_of_their_own(text: str, found: list[str]) -> None:
    """With a question word or a verb before its subject, behind a question mark, a conjunction or a comma."""
    assert sub_questions(text, 4) == tuple(found)


@pytest.mark.parametrize(
    "text",
    [
        "What did Ada and Bo buy?",
        "Who came in and took the bread?",  # one subject
        "When Ada came, what did Bo say?",  # a clause of time
        "What is the town, in which Ada lives?",
        "What part of the town, in which the man whom Bo met lives, is Ada in?",
        "What did Ada say that made Bo laugh, which he seldom does?",
        "According to Ada, what makes a good loaf?",
        "What happened, and why?",  # nothing to look for by itself
        "Fix the tests and when they pass push.",  # nobody asks before
        "What broke, and have it ready by noon.",
        "Who wrote the gateway? Answer yes or no.",
        "which database",
        "",
    ],
)
def test_sub_questions_leave_one_question_whole(text: str) -> None:
    """Word for word."""
    assert sub_questions(text, 4) == (text,)


@pytest.mark.feature("sub-questions are ranked separately: where one begins, and which person the next is about")
def test_sub_question_with_a_pronoun_gets_the_names_before() -> None:
    """By "he" or "it" before any name of its own, or by naming nobody: they are whom the part before was about."""
    assert sub_questions("Where did Ada go, and what did she buy in Paris?", 4)[1] == "what did she buy in Paris? Ada"
    assert sub_questions("What runs on Postgres, and who is paged?", 4)[1] == "who is paged? Postgres"
    assert sub_questions("Where did Ada go, and what did Bo say of his trip?", 4)[1] == "what did Bo say of his trip?"
    assert sub_questions("Where did Ada go, what did she buy, and when is she back?", 4)[2] == "when is she back? Ada"


def test_last_sub_question_has_the_rest() -> None:
    """Of three at most two: the second has the rest; at most one is the text as it is."""
    text = "Who is Ada, how is Bo? Who is Cy? Who is Di?"
    assert sub_questions(text, 2) == ("Who is Ada", "how is Bo? Who is Cy? Who is Di?")
    assert sub_questions(text, 1) == (text,)


def test_sub_question_has_the_tokens_of_its_words() -> None:
    """The matches of its own words, of those that both have, and of what is in neither ("?"); the cosine is shared."""
    words = ("what", "did", "ada", "buy", "and", "where", "did", "bo", "go", "?")
    likeness = Likeness(words, {"x": np.arange(10, dtype=np.float32)}, {"x": 0.5})
    (first, of_first), (second, of_second) = split_query(query("What did Ada buy and where did Bo go?"), likeness, 4)
    assert (first.text, second.text) == ("What did Ada buy", "where did Bo go?")
    assert of_first.words == ("what", "did", "ada", "buy", "and", "did", "?")
    assert of_first.matches["x"].tolist() == [0, 1, 2, 3, 4, 6, 9]
    assert of_second.matches["x"].tolist() == [1, 4, 5, 6, 7, 8, 9]
    assert of_first.dense == of_second.dense == {"x": 0.5}


def test_sub_question_without_tokens_has_no_matches() -> None:
    """The model reads the beginning of a long query only: the other part is ranked for by its words."""
    likeness = Likeness(("what", "did", "ada", "buy"), {"x": np.ones(4, dtype=np.float32)}, {"x": 0.5})
    _, (_, unseen) = split_query(query("What did Ada buy and where were Bo's boats?"), likeness, 4)
    assert (unseen.words, unseen.matches) == ((), {})


def test_one_question_is_asked_as_it_is() -> None:
    """The very query and likeness: nothing is copied."""
    one, likeness = query("what did we decide"), Likeness()
    assert split_query(one, likeness, 4) == [(one, likeness)]


WORDS = st.sampled_from(
    "what who when where did does is and or but , ; ? . Ada Bo she he it the buy go town in which why how you".split()
)


@given(st.lists(WORDS, max_size=30).map(" ".join), st.integers(1, 5))
def test_sub_questions_lose_no_text(text: str, most: int) -> None:
    """Whatever the words: at most so many parts, and every word of the text but conjunctions is in one, in order."""
    found = sub_questions(text, most)
    assert 1 <= len(found) <= most
    joints = {"and", "or", "but", "also", "then"}
    said = [w for w in text.replace(",", " ").replace(";", " ").split() if w not in joints]
    rest = iter([w for part in found for w in part.replace(",", " ").replace(";", " ").split()])
    assert all(word in rest for word in said)
