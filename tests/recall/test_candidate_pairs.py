"""Which of many texts may be alike: no pair that is may be missing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.lib.jaccard import jaccard
from fusion.lib.words import words
from fusion.recall.candidate_pairs import possible_pairs

TEXTS = st.lists(st.lists(st.sampled_from("ash birch cedar elm fir holly larch oak pine yew".split())).map(" ".join))
THRESHOLD = 0.6


@given(TEXTS)
def test_possible_pairs_miss_no_pair_over_the_threshold(texts: list[str]) -> None:
    """Jaccard of the word sets themselves is 0.6 or more: then the later one names the earlier."""
    found = possible_pairs(texts, THRESHOLD)
    for i, one in enumerate(texts):
        for j, other in enumerate(texts[:i]):
            if words(one) and jaccard(words(one), words(other)) >= THRESHOLD:
                assert j in found[i]


@given(TEXTS, st.integers(0, 12))
def test_possible_pairs_since_an_index_equal_those_of_all(texts: list[str], since: int) -> None:
    """Only the rows that are asked for, and each of them whole."""
    since = min(since, len(texts))
    assert possible_pairs(texts, THRESHOLD, since) == {
        i: js for i, js in possible_pairs(texts, THRESHOLD).items() if i >= since
    }


@pytest.mark.parametrize("length", [10, 100, 300, 400, 1000])
def test_possible_pairs_include_similar_long_texts(length: int) -> None:
    """One word in nine differs, a Jaccard of .8; and the very same words: however many bits their sketches have."""
    one = [f"w{i}" for i in range(length)]
    other = [f"x{i}" if i % 9 == 0 else word for i, word in enumerate(one)]
    unlike = [f"y{i}" for i in range(length)]
    assert jaccard(words(" ".join(one)), words(" ".join(other))) > THRESHOLD
    assert possible_pairs([" ".join(unlike), " ".join(one), " ".join(other), " ".join(one)], THRESHOLD)[3][-2:] == [
        1,
        2,
    ]
