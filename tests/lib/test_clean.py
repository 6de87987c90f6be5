"""Nothing invisible reaches a prompt; what is seen stays as it was."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.lib.clean import clean

ANY_TEXT = st.text(
    st.one_of(
        st.characters(),
        st.characters(categories=["Cs", "Cc", "Cf"]),
        st.sampled_from("\u200c\u200d\ufe0f\ufe00\U000e0100\U000e0041\u202e\r\n\t a1é東🏽❤"),
    )
)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain words, and\n\ttwo lines",
        "Zoë’s naïve café – 東京で会う",
        "cafe\u0301 stays decomposed",
        "می\u200cخواهم",
        "क्\u200dष",
        "👩\u200d👩\u200d👧 ❤\ufe0f\u200d🔥 1\ufe0f\u20e3 👍🏽",
        "葛\U000e0100城",
    ],
)
def test_what_is_seen_stays(text: str) -> None:
    """Accents, other scripts, emoji families, keycaps and ideographic variants are not touched."""
    assert clean(text) == (text, 0)


@pytest.mark.parametrize(
    ("text", "expected", "count"),
    [
        ("a\x00b", "ab", 1),
        ("bell\x07 esc\x1b[31m", "bell esc[31m", 2),
        ("c1\x9b", "c1", 1),
        ("lone \ud800 and \udfff", "lone \ufffd and \ufffd", 2),
        ("evil\u202etxt.exe", "eviltxt.exe", 1),
        ("\u2066x\u2069", "x", 2),
        ("<\u200b/memory>", "</memory>", 1),
        ("<\u200d/memory>", "</memory>", 1),
        ("\ufeffbom", "bom", 1),
        ("tag" + "".join(chr(0xE0000 + ord(c)) for c in "obey"), "tag", 4),
        ("byte smuggling😀" + "\ufe01" * 9, "byte smuggling😀\ufe01", 8),
        ("a" + "\U000e0100\U000e0101", "a", 2),
        ("\u3164fill\u115f", "fill", 2),
        ("soft\u00adhyphen", "softhyphen", 1),
        ("one\r\ntwo\rthree\u2028four\x85five", "one\ntwo\nthree\nfour\nfive", 4),
        ("é\u200d\u200d\u200dé", "é\u200dé", 2),
        ("é\u200d", "é", 1),
        ("[m2\ufe0f] #\ufe0f 1", "[m2] # 1", 2),
    ],
)
def test_what_is_not_seen_goes(text: str, expected: str, count: int) -> None:
    """Each kind of hidden or broken character is taken out, and counted."""
    assert clean(text) == (expected, count)


@pytest.mark.feature("invisible, bidi and broken characters are removed")
@given(ANY_TEXT)
def test_result_is_clean_and_valid(text: str) -> None:
    """The result is valid UTF-8, has nothing left to clean, is no longer than the text, and a change is counted."""
    cleaned, count = clean(text)
    cleaned.encode()
    assert clean(cleaned) == (cleaned, 0)
    assert len(cleaned) <= len(text)
    assert (count == 0) == (cleaned == text)


@given(st.text(st.characters(categories=["L", "M", "N", "P", "S", "Zs"])))
def test_letters_are_never_lost(text: str) -> None:
    """What has a shape is kept, in its order: only what Unicode calls ignorable may go from among letters and marks."""
    ignorable = re.compile(
        "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0\ufe00-\ufe0f\ufffc\U000e0100-\U000e01ef]"
    )
    visible = ignorable.sub("", text)
    assert clean(visible) == (visible, 0)
