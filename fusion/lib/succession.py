"""Whether a statement itself says that the value of an earlier one is past: "moved from X to Y", "no longer X, now Y".

Rules for English and German read the change that a sentence reports; questions, plans, conditions and denials report
none. The earlier statement must state the old value, and little else, about what both name. A rule that is unsure says
no: then the two are shown as contradicting each other, which they do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from fusion.lib.text_cache import text_cache
from fusion.lib.word_forms import FUNCTION_WORDS, canonical, same_word

MAX_CHARS = 600
"""characters of a statement that are read; a longer one is about more than one change"""
MAX_OTHER_WORDS = 2
"""content words of the earlier statement that the later one need not have"""

_OLD = r"(?P<old>(?:(?!\b(?:from|von|vom)\b)[^,;!?\n]){1,60}?)"
_NEW = r"(?P<new>[^,;!?\n]{1,60}?)"
_END = r"(?=[,;!?]|\.(?: |$)| (?:on|in|since|last|because|so|and|um|seit|am|weil|und) | um[. ]| ?$)"
_GAP = r"[^.;!?\n]{0,60}?"
_MOVES = (
    "moved|switched|migrated|changed|upgraded|downgraded|relocated|shifted|transitioned|rescheduled|converted|"
    "wechselt\\w*|gewechselt|zog|zogen|umgezogen|stieg\\w*|umgestiegen|stellt\\w*|umgestellt|verlegt\\w*|verschob\\w*|"
    "verschoben|migriert\\w*"
)
_DONE = "umgestellt|gewechselt|umgezogen|umgestiegen|verlegt|verschoben|migriert|gezogen"
_CHANGES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b(?:{_MOVES})\b{_GAP}\b(?:from|von|vom) {_OLD} (?:to|auf|zu|zum|zur|nach) {_NEW}{_END}",
        rf"\b(?:von|vom) {_OLD} (?:auf|zu|zum|zur|nach) {_NEW} (?:{_DONE})\b",
        rf"\bno longer {_OLD}[,;]? (?:(?:but|and|it|we|I|they|is|are|am) ){{0,4}}now {_NEW}{_END}",
        rf"\bused to {_OLD}[,;]? (?:(?:but|and|it|we|I|they|is|are|am) ){{0,4}}now {_NEW}{_END}",
        rf"\bnicht mehr {_OLD}[,;] ?(?:sondern|jetzt|nun|inzwischen) (?:jetzt |nun )?{_NEW}{_END}",
        rf"\bfrüher {_OLD}[,;] ?(?:jetzt|nun|heute|inzwischen) {_NEW}{_END}",
    )
)
_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n+")
_NO_CHANGE = re.compile(
    r"\?|n['’]t\b|\b(?:not|never|if|whether|would|might|(?-i:may)|should|could|will|plan|plans|planned|planning|want|wants|"
    r"wanted|consider\w*|propos\w*|suggest\w*|going\s+to|back|nicht(?!\s+mehr)|nie|kein\w*|wenn|falls|ob|würde\w*|"
    r"könnte\w*|sollte\w*|soll|sollen|wird|werden|wollen|plan\w*|zurück)\b",
    re.IGNORECASE,
)
"""words of a sentence that reports no change that has happened, or one that was undone"""
_NO_STATE = re.compile(
    r"\?|n['’]t\b|\b(?:not|never|no|because|if|when|was|were|had|nicht|nie|kein\w*|weil|wenn|als|war|waren|hatte\w*)\b",
    re.IGNORECASE,
)
"""words of a statement that says something else than what holds"""
_STATE = frozenset(
    "is are am has have use uses run runs live lives work works store stores host hosts hosted stored start starts "
    "begin begins leave leaves open opens close closes meet meets happen happens take takes deploy deploys prefer "
    "prefers cost costs sit sits belong belongs ist sind bin hat haben nutzt nutzen nutze verwendet verwenden läuft "
    "laufen lauft wohnt wohne wohnen arbeitet arbeite arbeiten liegt liegen beginnt beginnen startet kostet kosten "
    "steht".split()
)
"""verbs that say what holds"""
_PERSONS = frozenset("i we ich wir".split())
_GERMAN = frozenset(
    "der die das den dem des ein eine einen einem einer und oder aber auf in im an am um zu zum zur von vom nach mit "
    "bei für seit jetzt nun noch mehr es er sie".split()
)


class Change(NamedTuple):
    """What a sentence reports: the words of the old value and of the new one, and those of all of it."""

    old: tuple[str, ...]
    new: tuple[str, ...]
    words: tuple[str, ...]


def outdates(later: str, earlier: str) -> bool:
    """Whether ``later`` says that what ``earlier`` states has changed to something else."""
    if max(len(later), len(earlier)) > MAX_CHARS or _NO_STATE.search(earlier):
        return False
    words = canonical(earlier)
    content = _content(words)
    return any(_is_of(change, words, content) for change in _changes(later))


@text_cache(1_024)
def _changes(text: str) -> tuple[Change, ...]:
    """The changes that a text reports."""
    return tuple(_found(text[:MAX_CHARS]))


def _found(text: str) -> Iterator[Change]:
    for sentence in map(_one_spaced, _SENTENCES.split(text)):
        if _NO_CHANGE.search(sentence):
            continue
        for pattern in _CHANGES:
            match = pattern.search(sentence)
            if match is not None:
                old, new = (_content(canonical(match[name])) for name in ("old", "new"))
                if old and new:
                    yield Change(old, new, canonical(text))
                    break


def _one_spaced(text: str) -> str:
    """The text with one space between words, as the patterns expect it."""
    return " ".join(text.split())


def _is_of(change: Change, words: tuple[str, ...], content: tuple[str, ...]) -> bool:
    """Whether a statement with these words states the old value of a change, and about the same."""
    if not all(_has(content, word) for word in change.old) or all(_has(content, word) for word in change.new):
        return False
    rest = [word for word in content if not _has(change.old, word)]
    shared = [word for word in rest if _has(change.words, word) and word not in _STATE]
    others = [word for word in rest if word not in shared and word not in _STATE]
    states = not _STATE.isdisjoint(words)
    persons = not _PERSONS.isdisjoint(words) and not _PERSONS.isdisjoint(change.words)
    return states and len(others) <= MAX_OTHER_WORDS and (bool(shared) or (persons and not others))


def _content(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for word in words if word not in FUNCTION_WORDS and word not in _GERMAN)


def _has(words: tuple[str, ...], word: str) -> bool:
    return any(same_word(word, other) for other in words)
