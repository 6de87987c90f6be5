"""Escapes recalled text so that nothing in it can be read as a tag.

Only such text is escaped: operators and arrows stay as they are and take no extra characters. A reader may normalise
text (NFKC) and does not see joiners and variation selectors, so text that would become a tag that way is escaped too.
"""

from __future__ import annotations

import re
import unicodedata

from fusion.lib.clean import JOINERS, SELECTORS, clean
from fusion.lib.lazy_pattern import lazy_pattern

_MARKED = lazy_pattern("[<&\uff1c\ufe64\uff06\ufe60]")
# A "<" stays where it cannot begin a tag: before an operator, a digit or the end, and before a blank and a word that
# does not begin with m, as the fence's own name does.
_TAG = lazy_pattern(r"[<\uff1c\ufe64](?![-=<>0-9]|\s*\Z|\s+[0-9A-LN-Za-ln-z(\[{\"'$.+*_-])")
# An "&" stays where it cannot be read as one of the escapes made here.
_SEMICOLONS = ";\u037e\ufe14\ufe54\uff1b"
_REFERENCE = lazy_pattern(rf"[&\uff06\ufe60](?=([^\s&{_SEMICOLONS}]{{1,33}})[{_SEMICOLONS}])")
_NAME = lazy_pattern("#?[0-9A-Za-z]{1,32}")
INVISIBLE_CHARACTERS = f"{JOINERS}{SELECTORS}"
"""invisible characters that `clean` keeps where they have a use"""
BRAILLE_BLANK = "\u2800"
"""looks like a blank, but is not whitespace in Unicode"""
_INVISIBLE = lazy_pattern(f"[{INVISIBLE_CHARACTERS}]+")


def escape(text: str) -> str:
    """The text without invisible characters, with everything escaped that could be read as a tag."""
    text = clean(text)[0]
    if not _MARKED.search(text):
        return text
    return _TAG.sub("&lt;", _REFERENCE.sub(_ampersand, text))


def _ampersand(found: re.Match[str]) -> str:
    return "&amp;" if _NAME.fullmatch(as_read(found[1])) else found[0]


def as_read(text: str) -> str:
    """The text as a reader may see it; normalised character by character, since runs of accents take quadratic time."""
    seen = _INVISIBLE.sub("", text).replace(BRAILLE_BLANK, " ")
    return "".join(unicodedata.normalize("NFKC", character) for character in seen)
