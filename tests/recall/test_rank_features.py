"""What a memory's place among the others says of it."""

from __future__ import annotations

import pytest

from fusion.recall.expand import Pooled
from fusion.recall.rank_features import CONTEXT, in_context
from fusion.recall.signals import SignalTable
from tests.recall.helpers import pooled, turn

TALK = ("Did the oven break on Sunday?", "Yes, it was repaired for ninety crowns.", "Nobody watered the tomatoes.")


def pool(*texts: str) -> list[Pooled]:
    """Turns of one session, in order."""
    return [pooled(f"m{i}", turn(i, text)) for i, text in enumerate(texts)]


@pytest.mark.feature("context signals exist only for recipes with a model")
def test_every_signal_is_there_and_a_share() -> None:
    """Three turns at .2, .8 and .5: means, ranks 3, 1 and 2, neighbours where there are any."""
    rows = in_context(pool(*TALK), SignalTable.of([{"bm25": 0.2}, {"bm25": 0.8}, {"bm25": 0.5}]), {"bm25": 1}).rows()
    assert set().union(*rows) == {"bm25", *CONTEXT}
    assert all(0 <= value <= 1 for row in rows for value in row.values())
    assert [row["mean"] for row in rows] == [0.2, 0.8, 0.5]
    assert [row["share"] for row in rows] == pytest.approx([0.25, 1.0, 0.625])
    assert [row["rank"] for row in rows] == [1 / 3, 1.0, 0.5]
    assert (rows[1]["before"], rows[1]["after"]) == (0.2, 0.5)
    assert ("before" in rows[0], "after" in rows[2]) == (False, False)
    assert [(row["question"], row["reply"]) for row in rows] == [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)]


def test_feedback_counts_the_words_of_the_best_but_not_ones_own() -> None:
    """The fourth shares "oven" and "Sunday" with the best three, the fifth nothing."""
    texts = (*TALK, "The oven shop is open on Sunday.", "Clogs are loud.")
    rows = in_context(
        pool(*texts), SignalTable.of([{"bm25": v} for v in (0.9, 0.8, 0.7, 0.1, 0.1)]), {"bm25": 1}
    ).rows()
    assert rows[3]["feedback"] > rows[4]["feedback"] == 0.0


def test_an_empty_pool_has_no_rows() -> None:
    """Nothing was found: nothing is said."""
    assert in_context([], SignalTable.of([]), {"bm25": 1}).rows() == []
