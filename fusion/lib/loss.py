"""Measures how much of a text its new version loses."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

from fusion.lib.jaccard import guard_words
from fusion.lib.words import words

REWORDED = 0.6
"""least share of a lost line's words in one line of the new text that counts as its rewording; that line must also have
all its numbers, dates and negations"""
_MARKER = re.compile(r"(?:[-*+>]|\d{1,9}[.)]|#{1,6})(?=\s|$)")
_REFS = re.compile(r" \[m[0-9a-z]{1,12}(?:, m[0-9a-z]{1,12}){0,20}\]$")


def lost_lines(old: str, new: str) -> list[str]:
    """The lines of ``old`` that are neither in ``new`` nor reworded there.

    Blank lines, spaces, list markers, heading marks and refs at a line's end do not count.
    """
    kept = Counter(_plain(line) for line in new.splitlines())
    new_words = _lines_by_word(new)
    lost = []
    for line in old.splitlines():
        plain = _plain(line)
        if not plain:
            continue
        if kept[plain]:
            kept[plain] -= 1
        elif plain not in kept and not _is_reworded(plain, new_words):
            lost.append(line)
    return lost


def loss(old: str, new: str) -> float:
    """The share of ``old`` that ``new`` loses, from 0 to 1: of its lines or its characters, whichever is larger."""
    lines = [plain for line in old.splitlines() if (plain := _plain(line))]
    if not lines:
        return 0.0
    lost = [_plain(line) for line in lost_lines(old, new)]
    return max(len(lost) / len(lines), sum(map(len, lost)) / sum(map(len, lines)))


def _plain(line: str) -> str:
    """A line without its list marker or heading mark and its refs, with single spaces."""
    said = _REFS.sub("", line.strip())
    marker = _MARKER.match(said)
    return " ".join(said[marker.end() if marker else 0 :].split())


def _lines_by_word(text: str) -> dict[str, set[int]]:
    """The numbers of the lines that have each word."""
    found: defaultdict[str, set[int]] = defaultdict(set)
    for number, line in enumerate(text.splitlines()):
        for word in words(line):
            found[word].add(number)
    return found


def _is_reworded(line: str, lines_by_word: dict[str, set[int]]) -> bool:
    asked = words(line)
    common = Counter(number for word in asked for number in lines_by_word.get(word, ()))
    guarded = [lines_by_word.get(word, set()) for word in guard_words(asked)]
    return any(
        count >= REWORDED * len(asked) and all(number in lines for lines in guarded) for number, count in common.items()
    )
