"""Removes invisible characters, controls and broken characters from a text, and counts them.

After Unicode TR 36 and TR 39 (security) and DerivedCoreProperties' Default_Ignorable_Code_Point. Two kinds of invisible
characters have honest uses and stay where they have them: a joiner between two letters or emoji of other scripts
(Persian, Devanagari, families of emoji), and one variation selector after its character.
"""

from __future__ import annotations

import re

from fusion.lib.lazy_pattern import lazy_pattern

BREAKS = "\r\v\f\x1c-\x1e\x85\u2028\u2029"
_SURROGATES = "\ud800-\udfff"
UNSEEN = (
    "\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f"  # C0 and C1 but tab, newline and the breaks
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"  # soft hyphen, grapheme joiner, fillers that are letters by name
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction
    "\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff0-\ufffb"  # no width
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # shorthand and musical format controls
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"  # tags: a whole hidden ASCII
)
JOINERS = "\u200c\u200d"
SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"

_SUSPECT = lazy_pattern(f"[{BREAKS}{_SURROGATES}{UNSEEN}{JOINERS}{SELECTORS}]")
_CRLF_OR_BREAK = lazy_pattern(f"\r\n|[{BREAKS}]")
_SURROGATE = lazy_pattern(f"[{_SURROGATES}]")
_HIDDEN = lazy_pattern(f"[{UNSEEN}]+")
_MODIFIERS = lazy_pattern(f"[{JOINERS}{SELECTORS}]+")


def clean(text: str) -> tuple[str, int]:
    """The text in a form that is safe to show, and the number of characters that were removed or replaced.

    Lone surrogates become U+FFFD, other line breaks ``\\n``; controls (but ``\\n`` and ``\\t``), direction marks,
    zero-width, tag and stray modifier characters go. Cleaning what is clean changes nothing.
    """
    # Most texts are plain ASCII, and these two checks are several times faster than the search.
    if (text.isascii() and text.isprintable()) or not _SUSPECT.search(text):
        return text, 0
    text, breaks = _CRLF_OR_BREAK.subn("\n", text)
    text, surrogates = _SURROGATE.subn("\ufffd", text)
    seen = _HIDDEN.sub("", text)
    kept = _MODIFIERS.sub(_earned, seen)
    return kept, breaks + surrogates + len(text) - len(kept)


def is_one_line(text: str) -> bool:
    """Whether a text is one line of visible characters, as an id, a reference or a tag has to be."""
    return not ("\n" in text or "\t" in text or "\U0010ffff" in text or clean(text)[1])


def _earned(run: re.Match[str]) -> str:
    """Of a run of joiners and selectors what its neighbours give a meaning: one selector, then one joiner."""
    text, characters = run.string, run.group()
    before = text[run.start() - 1 : run.start()] if run.start() else ""
    after = text[run.end() : run.end() + 1]
    keycap = before in "0123456789#*" and characters == "\ufe0f" and after == "\u20e3"
    if not before or (before.isascii() and not keycap):
        return ""  # keycaps (1️⃣) are the only use after ASCII
    selector = characters[0] if characters[0] not in JOINERS else ""
    joiner = characters[len(selector) : len(selector) + 1]
    joins = joiner in JOINERS and after and not after.isascii() and not before.isspace() and not after.isspace()
    return selector + (joiner if joins else "")
