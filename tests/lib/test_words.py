"""Words for comparing texts, and stems for searching them, in several scripts."""

from __future__ import annotations

import pytest

from fusion.lib.words import accentless, content_hash, normalise, spoken, stem, stems, word_list, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Use  PostgreSQL, use it!", ["use", "postgresql", "use", "it"]),
        ("don't e-mail foo_bar 3.5", ["don", "t", "e", "mail", "foo_bar", "3", "5"]),
        ("ＦＵＬＬ ﬁne Straße", ["full", "fine", "strasse"]),
        ("co\u00adop", ["coop"]),
        ("हिन्दी", ["हिन्दी"]),
        ("", []),
    ],
    ids=["case and punctuation", "parts of words", "NFKC and case folding", "soft hyphen", "vowel marks", "empty"],
)
def test_word_list_normalises(text: str, expected: list[str]) -> None:
    """Words in order, with repeats, as two texts are compared."""
    assert word_list(text) == expected
    assert words(text) == set(expected)


def test_normalise_makes_forms_of_a_text_equal() -> None:
    assert normalise("ＣＡＦÉ") == normalise("cafe\u0301") == "café"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Müllers were running runs", ["muller", "run", "run"]),
        ("東京タワー", ["東京", "京タ", "タワ", "ワー"]),
        ("東a京", ["東", "a", "京"]),
        ("ปลา", ["ปล", "ลา"]),
        ("I love 🍜 in 🇩🇪 👍🏽", ["love", "🍜", "🇩🇪", "👍"]),
    ],
    ids=["English", "four pairs of five characters", "mixed scripts", "Thai", "emoji without skin tone"],
)
def test_stems_are_searchable_terms(text: str, expected: list[str]) -> None:
    """Without stop words; scripts without spaces are cut into overlapping pairs of characters."""
    assert stems(text) == expected


@pytest.mark.parametrize(
    ("word", "expected"), [("running", "run"), ("organization", "organiz"), ("cafés", "cafe"), ("الكتاب", "كتاب")]
)
def test_stem_is_snowballs_without_accents(word: str, expected: str) -> None:
    """English by default, Arabic for Arabic letters."""
    assert stem(word) == expected


def test_accentless_keeps_marks_that_make_another_letter() -> None:
    """The voicing mark of が stays, the accent of é goes."""
    assert accentless("é") == "e"
    assert accentless("が") == "が"


def test_spoken_puts_the_speaker_first() -> None:
    assert spoken("tea, please", "Ada") == "Ada: tea, please"
    assert spoken("tea, please", None) == "tea, please"


def test_content_hash_names_a_text() -> None:
    """16 bytes in hexadecimal, equal for equal texts only; a lone surrogate has one, too."""
    assert content_hash("tea") == content_hash("tea") != content_hash("Tea")
    assert len(content_hash("\ud800")) == 32
