"""The title that a text opens with, and titles in the text of others. Pure functions, linear in the text."""

from __future__ import annotations

import re

from fusion.lib.words import STOP_WORDS

BEGINNING = 160
"""leading characters of a text that are searched for a title"""

_LEAD = re.compile(r"(?:#{1,6} )?([^\n.:!?]{1,80}(?:\.[^\n.:!?\s]{1,20})*)(?:[.:](?=\s)|(?=\n)|\Z)")
_BARE = re.compile(r"(.+?)(?:(?<!\s)\s*+\([^()]*\)|,\s(?s:.*))")
_SMALL = STOP_WORDS | {"de", "del", "der", "du", "la", "le", "van", "von", "und", "et"}


def lead(text: str) -> str | None:
    """The title that a text opens with, as an entry of an encyclopedia does: "Title. …", "Title: …", "# Title".

    Two words or more, each with a capital or a digit but for the small ones; or one, if the text has it again. What
    else comes first is a greeting or a sentence.
    """
    match = _LEAD.match(text[:BEGINNING])
    title = match[1].strip() if match else ""
    named, is_qualified, _ = title.partition(" (")
    words = [word for part in named.split() if (word := part.strip("()\"'“”‘’,–—-"))]
    significant = [word for word in words if word.lower() not in _SMALL]
    if not significant or len(words) > 12 or not all(word[0].isupper() or word[0].isdigit() for word in significant):
        return None
    return title if len(significant) > 1 or is_qualified or text.count(significant[0], 0, BEGINNING) > 1 else None


def bare(title: str) -> str | None:
    """A title without its qualifier: "Green (album)", "Paris, Texas"."""
    match = _BARE.fullmatch(title)
    return match[1].strip() if match else None
