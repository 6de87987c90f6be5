"""The measures by hand."""

from __future__ import annotations

from math import log2

import pytest

from benchmarks.metrics import by_group, duplicate_pairs, mean, percentile, ranking, texts_in_block


def test_evidence_is_found_despite_escaping_and_whitespace() -> None:
    """Escaping and line breaks are not the agent's loss; a missing word is."""
    gold = ["Per: Then we eat salad <for a week> & bread.", "Ida: The oven broke on Sunday."]
    block = "[m1] Per: Then we eat salad &lt;for\n a week&gt; &amp; bread.\n[m2] Ida: The oven broke"
    assert texts_in_block(gold, block) == [True, False]


def test_recall_and_ndcg_by_hand() -> None:
    """Gold a and b at ranks 1 and 3, c and d at 6 and nowhere; nothing ranked is nothing found.

    First: R@5 2/2, nDCG (1/log2 2 + 1/log2 4) / (1/log2 2 + 1/log2 3), reciprocal rank 1. Second: R@5 0, R@10 1/2,
    nDCG (1/log2 7) over the same, reciprocal rank 1/6.
    """
    ideal = 1 + 1 / log2(3)
    first, second, third = ranking(
        [(["a", "b"], ["a", "x", "b"]), (["c", "d"], ["u", "v", "w", "x", "y", "c"]), (["e"], [])]
    )
    assert first == pytest.approx({"r_at_5": 1, "r_at_10": 1, "ndcg_at_10": (1 + 1 / 2) / ideal, "mrr": 1})
    assert second == pytest.approx({"r_at_5": 0, "r_at_10": 1 / 2, "ndcg_at_10": 1 / log2(7) / ideal, "mrr": 1 / 6})
    assert set(third.values()) == {0.0}


def test_duplicates_are_pairs_with_the_same_content() -> None:
    """Alike at Jaccard 0.6 counts, a negation or a date apart does not, nor do very short texts."""
    oven = "Ida: the oven in the kitchen broke again"
    assert duplicate_pairs([oven, "Ida: The oven in the kitchen broke again!"]) == 1
    assert duplicate_pairs([oven, oven, oven]) == 3
    assert duplicate_pairs([oven, "Ida: the oven in the kitchen never broke again"]) == 0
    assert duplicate_pairs(["Ida: oven broke on 3 May in the kitchen", "Ida: oven broke on 4 May in the kitchen"]) == 0
    assert duplicate_pairs(["Ida: thanks!", "Ida: thanks!"]) == 0


def test_a_text_within_another_is_a_duplicate() -> None:
    """5 of 14 words is far below 0.6, and still both copies count."""
    short = "Ida: the oven broke again"
    assert duplicate_pairs([short, f"{short}, so we eat salad with bread all week long"]) == 1


def test_percentiles_are_values_that_occurred() -> None:
    """Nearest rank: of 1 to 4, half are at most 2, and 95 % need the 4th."""
    assert percentile(0.5, [4, 1, 3, 2]) == 2
    assert percentile(0.95, [4, 1, 3, 2]) == 4
    assert percentile(0.5, []) is None


def test_mean_rounds_and_is_none_without_values() -> None:
    """Nothing has no mean; groups keep their size."""
    assert mean([1, 2, 2]) == 1.6667
    assert mean([]) is None
    assert by_group([("b", 1.0), ("a", 0.0), ("b", 0.0)]) == {"a": (1, 0.0), "b": (2, 0.5)}
