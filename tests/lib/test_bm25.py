"""BM25, with the sums written out."""

from __future__ import annotations

from math import log

import pytest

from fusion.lib.bm25 import Bm25, Counted, Frequencies, terms

SCOPE = Frequencies(documents=10, average_length=4.0, counts={"pump": 2, "green": 5})
"""ten memories of four terms on average; two have the term "pump", five "green" """
PUMP, GREEN = log(1 + 8.5 / 2.5), log(1 + 5.5 / 5.5)
"""idf = ln(1 + (N - n + 0.5) / (n + 0.5)): 1.482 for 2 of 10, 0.693 for 5 of 10"""
MOST = (PUMP + GREEN) * 2.2
"""a term counts at most k1 + 1 = 2.2 times its idf"""


@pytest.mark.parametrize(
    ("term", "idf"),
    [("pump", PUMP), ("green", GREEN), ("valve", log(1 + 10.5 / 0.5))],
    ids=["two of ten", "half of them", "none of them"],
)
def test_idf_of_rare_terms_is_higher(term: str, idf: float) -> None:
    assert SCOPE.idf(term) == pytest.approx(idf)


def test_idf_is_never_negative() -> None:
    """A term that every memory has counts ln(1 + 0.5 / 10.5); more memories than there are count as all."""
    everywhere = Frequencies(documents=10, counts={"the": 10, "of": 11})
    assert everywhere.idf("the") == everywhere.idf("of") == pytest.approx(log(1 + 0.5 / 10.5))
    assert everywhere.idf("the") > 0


def test_score_of_one_text() -> None:
    """ "pump pump valve": three terms, "pump" twice.

    k1 (1 - b + b · 3/4) = 1.2 · 0.8125 = 0.975, so the score is idf · 2 · 2.2 / (2 + 0.975), as a share of the most.
    """
    score = Bm25(["pump", "green"], SCOPE).score(_counted("pump pump valve"))
    assert score == pytest.approx(PUMP * 2 * 2.2 / 2.975 / MOST)
    assert score == pytest.approx(0.4580, abs=1e-4)


def test_score_adds_up_the_terms() -> None:
    """Of average length, k1 (1 - b + b) = 1.2: each term that occurs once counts idf · 2.2 / 2.2 = its idf."""
    text = Counted(4, {"pump": 1, "green": 1})
    assert Bm25(["pump", "green"], SCOPE).score(text) == pytest.approx((PUMP + GREEN) / MOST)
    assert Bm25(["pump", "green"], SCOPE).score(text) == pytest.approx(1 / 2.2)


def test_score_of_longer_texts_is_lower() -> None:
    """The same term once in eight terms instead of four: 2.2 / (1 + 1.2 · 1.75) instead of 2.2 / 2.2."""
    query = Bm25(["pump"], SCOPE)
    assert query.score(Counted(8, {"pump": 1})) == pytest.approx(2.2 / 3.1 / 2.2)
    assert query.score(Counted(8, {"pump": 1})) < query.score(Counted(4, {"pump": 1}))


def test_score_approaches_one() -> None:
    """1,000 times the term in a text of average length: 1000 / 1001.2 of the bound."""
    assert Bm25(["pump"], SCOPE).score(Counted(4, {"pump": 1000})) == pytest.approx(1000 / 1001.2)


def test_score_without_common_terms_is_zero() -> None:
    assert Bm25(["pump"], SCOPE).score(_counted("the valve")) == 0.0
    assert Bm25([], SCOPE).score(_counted("the pump")) == 0.0


def test_score_of_texts_read_as_one() -> None:
    """Two texts of 3 and 5 terms together may be 2 · 4 terms long: counts 2 + 1, k1 (1 - b + b · 8/8) = 1.2."""
    one, other = Counted(3, {"pump": 2}), Counted(5, {"pump": 1})
    assert Bm25(["pump"], SCOPE).score(one, other) == pytest.approx(3 * 2.2 / (3 + 1.2) / 2.2)


def test_scores_of_many_texts_equal_score() -> None:
    """With the neighbours before and after each text, to the last digit."""
    texts = [_counted(text) for text in ("pump pump valve", "green", "the pump is green and the valve is red", "")]
    before, after = [None, 0, 1, 2], [1, 2, 3, None]
    query = Bm25(["pump", "green"], SCOPE)
    assert query.scores(texts).tolist() == [query.score(text) for text in texts]
    assert query.scores(texts, [before, after]).tolist() == [
        query.score(texts[0], texts[1]),
        query.score(texts[1], texts[0], texts[2]),
        query.score(texts[2], texts[1], texts[3]),
        query.score(texts[3], texts[2]),
    ]


def _counted(text: str) -> Counted:
    return Counted.of(terms(text))


def test_terms_are_stems_without_stop_words() -> None:
    assert terms("The pumps were pumping green water") == ("pump", "pump", "green", "water")
    assert _counted("The pumps were pumping green water") == Counted(4, {"pump": 2, "green": 1, "water": 1})
