"""Forms of words: spellings, inflections, opposites."""

from __future__ import annotations

import pytest

from fusion.lib.word_forms import opposed, same_word


@pytest.mark.parametrize("pair", ["colour/color", "organise/organize", "went/go", "tries/try", "photo/picture"])
def test_same_word_includes_spellings_inflections_and_synonyms(pair: str) -> None:
    """One of each rule."""
    assert same_word(*pair.split("/"))


@pytest.mark.parametrize(
    "pair", ["hired/fired", "filing/filling", "diner/dinner", "united/untied", "police/policy", "new/news"]
)
def test_same_word_excludes_lookalikes(pair: str) -> None:
    """Neither a typing error nor an inflection makes one of the other."""
    assert not same_word(*pair.split("/"))


def test_opposed_words_differ_by_a_prefix() -> None:
    """ "lock" and "unlock" are no spellings of each other, and no model may say so."""
    assert opposed("lock", "unlock")
    assert opposed("illegal", "legal")
    assert not same_word("lock", "unlock")
