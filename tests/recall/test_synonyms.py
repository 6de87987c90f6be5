"""What the local model says of two texts that differ in a word."""

from __future__ import annotations

import numpy as np
import pytest

from fusion.contract import CosineScale, TokenVectors
from fusion.recall.synonyms import reworded

FRAME = "the {} has the keys of the old mill"


def tokens(*rows: list[float]) -> TokenVectors:
    return TokenVectors(np.rint(np.array(rows) * 127).astype(np.int8), 1 / 127)


NEAR = {"lawyer": tokens([1, 0], [0, 1]), "attorney": tokens([0.98, 0.2], [0, 1])}
FAR = {"lawyer": tokens([1, 0], [0, 1]), "cat": tokens([0, 1], [0, 1])}


def judge(one: str, other: str, vectors: dict[str, TokenVectors], **more: object) -> bool:
    pair = FRAME.format(one), FRAME.format(other)
    seen = {FRAME.format(word): found for word, found in vectors.items()}
    return reworded([pair], seen, **more) == {pair}  # type: ignore[arg-type]


@pytest.mark.feature(
    "… and so is a text that the local model finds reworded or misspelt", of="a copy with another spelling"
)
def test_reworded_needs_a_match_for_each_token() -> None:
    """By the worst match in either direction."""
    assert judge("lawyer", "attorney", NEAR)
    assert not judge("lawyer", "cat", FAR)
    assert not judge("cat", "lawyer", FAR)


def test_reworded_needs_token_vectors() -> None:
    assert not judge("lawyer", "attorney", {})


def test_reworded_excludes_names_and_opposites() -> None:
    """Vectors of names, and of a word and its opposite, are near each other."""
    one, other = NEAR.values()
    near = {"Lawyer": one, "Attorney": other, "legal": one, "illegal": other}
    assert not judge("Lawyer", "Attorney", near)
    assert not judge("legal", "illegal", near)


def test_reworded_misspelling_needs_a_word_outside_the_vocabulary() -> None:
    """ "databse" is in no vocabulary, "fired" and "hired" both are."""
    vocabulary = {"database", "fired", "hired", "hostel", "hotel"}.__contains__
    assert judge("database", "databse", {}, knows=vocabulary)
    assert not judge("hostel", "hotel", {}, knows=vocabulary)
    assert not judge("database", "databse", {})


def test_reworded_compares_on_the_scale_of_the_model() -> None:
    """A model by which any two words have a cosine of .6 finds no synonyms at .9."""
    near = {"lawyer": tokens([1, 0], [0, 1]), "attorney": tokens([0.9, 0.436], [0, 1])}
    assert judge("lawyer", "attorney", near)
    assert not judge("lawyer", "attorney", near, scale=CosineScale(2.5, -1.5))
    assert judge("lawyer", "attorney", NEAR, scale=CosineScale(2.5, -1.5))
