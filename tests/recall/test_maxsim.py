"""MaxSim, with its arithmetic."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from fusion.contract import UNKNOWN_PIECE, TokenVectors
from fusion.lib.bm25 import Frequencies
from fusion.recall.maxsim import best_matches, match_unknown_words, matches_by_words, token_weights
from fusion.recall.signals import Likeness, local_signals
from tests.recall.helpers import pooled, query, standalone

TEN = Frequencies(10, 2.0, {"databas": 1, "gate": 5})


def test_token_weights_follow_the_words_document_frequency() -> None:
    """w = ln((N+1)/(df+1)) + 0.1; a stop word keeps 0.1; a name that is nowhere weighs most."""
    weights = token_weights(("the", "gates", "zanzibar"), TEN)
    assert weights == pytest.approx([0.1, log(11 / 6) + 0.1, log(11 / 1) + 0.1])


def vectors(*rows: list[int]) -> TokenVectors:
    return TokenVectors(np.array(rows, dtype=np.int8).reshape(len(rows), -1), 0.5)


def test_best_matches_take_the_maximum_over_a_texts_tokens() -> None:
    """Unit vectors quantised to 2 with scale .5: a token finds itself at 1, an orthogonal one at 0, nothing at 0."""
    asked = vectors([2, 0], [0, 2])
    found = best_matches(
        asked, [vectors([2, 0]), vectors([0, 2], [2, 0]), TokenVectors(np.empty((0, 2), np.int8), 1.0)]
    )
    assert found.tolist() == [[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]


def test_words_that_the_model_cannot_spell_match_by_themselves() -> None:
    """To the model they are all one: each text would match them as well as its own words. Known words keep theirs."""
    texts = ["ድመቷ ትናንት ጠፋች", "ዳቦ ቤቱ ሰኞ ዝግ ነው 🎉", "cat"]
    matches = np.full((3, 3), 0.9, np.float32)
    tokens = (UNKNOWN_PIECE, "cat", UNKNOWN_PIECE)
    asked = TokenVectors(np.ones((3, 2), np.int8), 1.0, tokens, ("ድመቷ", "cat", "🎉"))
    assert match_unknown_words(asked, texts, matches)
    assert matches.tolist() == [
        [1.0, pytest.approx(0.9), 0.0],
        [0.0, pytest.approx(0.9), 1.0],
        [0.0, pytest.approx(0.9), 0.0],
    ]
    known = TokenVectors(np.ones((3, 2), np.int8), 1.0, ("a", "cat", UNKNOWN_PIECE), ("a", "cat", "🎉"))
    assert not match_unknown_words(known, texts, matches)
    assert not match_unknown_words(vectors([2, 0]), texts[:1], np.zeros((1, 1), np.float32))


@pytest.mark.feature("… an accelerator, if installed, finds the same", of="the index: vectors are in a memory-mapped")
def test_an_accelerator_matches_to_the_last_digit() -> None:
    """Inner products of int8 are whole numbers below 2^24, which float32 holds exactly, in whatever order they are
    summed: 300 texts of up to 40 tokens, one of them without any."""
    pytest.importorskip("numkong")
    draw = np.random.default_rng(5)

    def text(tokens: int) -> TokenVectors:
        return TokenVectors(draw.integers(-127, 128, (tokens, 384)).astype(np.int8), float(draw.random() / 100))

    asked, texts = text(11), [text(tokens) for tokens in [0, *draw.integers(1, 40, 300)]]
    assert np.array_equal(best_matches(asked, texts), best_matches(asked, texts, fast=False))


def test_maxsim_is_the_mean_of_the_best_matches_weighted_by_rarity() -> None:
    """`database` (1 of 10 documents) matches at .8 and `gates` (5 of 10) at .2: Σ w·best / Σ w over the two tokens."""
    rare, common = log(11 / 2) + 0.1, log(11 / 6) + 0.1
    asked = TokenVectors(np.array([[100, 0], [0, 100]], np.int8), 0.01)
    text = TokenVectors(np.array([[80, 0], [0, 20], [-50, -50]], np.int8), 0.01)
    (best,) = best_matches(asked, [text])
    assert best.tolist() == [pytest.approx(0.8), pytest.approx(0.2)]
    likeness = Likeness(("database", "gates"), {"x": best}, {})
    (row,) = local_signals(query("database gates"), [pooled("a", standalone("a", "x"))], 1.0, TEN, likeness).rows()
    assert row["maxsim"] == pytest.approx((rare * 0.8 + common * 0.2) / (rare + common))
    assert row["maxsim"] > 0.5, "the rare word counts for more"


def test_a_text_without_vectors_matches_by_its_words() -> None:
    """A word that is there counts nearly in full, in any form of it; stop words and signs say nothing."""
    found = matches_by_words(("gates", "the", "zanzibar"), [{"gate": 1}, {}])
    assert found.shape == (2, 3)
    (here, stop, absent), (not_here, same_stop, _) = found.tolist()
    assert here > stop > absent
    assert (not_here, same_stop) == (absent, stop)
    assert matches_by_words((), [{}]).shape == (1, 0)


def test_what_is_ranked_by_words_is_marked_and_compares_with_the_rest() -> None:
    words = ("database", "gates")
    likeness = Likeness(words, {"x": np.array([0.8, 0.2], np.float32)}, {}, frozenset({"the databases", "boats"}))
    pool = [pooled(text, standalone(text, text)) for text in ("x", "the databases", "boats")]
    encoded, by_words, other = local_signals(query("database gates"), pool, 1.0, TEN, likeness).rows()
    assert "by_words" not in encoded
    assert by_words["by_words"] == other["by_words"] == 1
    assert by_words["similarity"] == pytest.approx(encoded["similarity"], abs=0.1)
    assert other["similarity"] < encoded["similarity"] / 2
