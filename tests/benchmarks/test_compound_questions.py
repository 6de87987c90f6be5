"""Questions in one sentence, made of a data set's own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.compound_questions import CATEGORY, join_questions
from benchmarks.datasets import UNANSWERABLE, Corpus, Item, Question
from benchmarks.options import Run

QUESTIONS = (
    Question(0, "When was Ada born?", "single", ("a",)),
    Question(1, "Where does Bo live?", "single", ("b", "a")),
    Question(2, "Ada sold what?", "single", ("c",)),
    Question(3, "Who watered the moon?", UNANSWERABLE, ()),
)
CORPUS = Corpus("town", tuple(Item(i, i) for i in "abc"), QUESTIONS)


@pytest.mark.feature("`--joined N` of the benchmarks asks N questions in one sentence")
def test_two_questions_become_one_that_needs_the_evidence_of_both() -> None:
    """Of three answerable ones a pair, and one is left over; none of it is unanswerable."""
    (one,) = join_questions(CORPUS, 2, seed=0).questions
    said = {"when was Ada born": ("a",), "where does Bo live": ("b", "a"), "Ada sold what": ("c",)}
    parts = one.text.rstrip("?").split(" and ")
    first, second = parts[0][0].lower() + parts[0][1:] if not parts[0].startswith("Ada") else parts[0], parts[1]
    assert (one.index, one.category, len(parts)) == (0, CATEGORY, 2)
    assert one.gold == tuple(dict.fromkeys(said[first] + said[second]))


def test_three_questions_become_a_list_and_names_keep_their_capital() -> None:
    """Commas, and "and" before the last; a name within the sentence stays a name."""
    (one,) = join_questions(CORPUS, 3, seed=1).questions
    assert one.text.count(", ") == 1
    assert one.text.count(" and ") == 1
    assert "Ada sold what" in one.text
    assert set(one.gold) == {"a", "b", "c"}


def test_the_same_seed_joins_the_same_questions() -> None:
    """One seed gives one corpus, whose memories are what they were."""
    assert join_questions(CORPUS, 2, seed=3) == join_questions(CORPUS, 2, seed=3)
    assert join_questions(CORPUS, 2, seed=3).memories == CORPUS.memories
    assert join_questions(CORPUS, 4, seed=3).questions == ()


def test_figures_and_rows_name_the_number_of_joined_questions() -> None:
    """What was stored or asked otherwise is another data set to a report, which never averages two."""
    whole = Run("town", (CORPUS,))
    told = [whole, replace(whole, joined=2), replace(whole, scattered=True, captions=True)]
    assert [one.setup for one in told] == ["town", "town joined 2", "town captions scattered"]
