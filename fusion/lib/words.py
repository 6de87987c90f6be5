"""What a text is made of: its words for comparing, its stems for searching."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from hashlib import blake2b

_WORD = re.compile(r"\w+")
# Scripts written without blanks between words: a run of them is cut into overlapping pairs, as CJK search does.
_UNSPACED = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+")

STOP_WORDS = frozenset(
    "a about after again all also am an and any are as at be because been before being both but by can could did do "
    "does doing done down during each else ever few for from further get got had has have having he her here hers "
    "herself him himself his how i if in into is it its itself just let me more most much my myself no nor not now of "
    "off on once only or other our ours ourselves out over own really same she should so some such than that the "
    "their theirs them themselves then there these they this those through to too under until up us very was we were "
    "what when where which while who whom whose why will with would you your yours yourself yourselves "
    "s t d ll m o re ve y don didn doesn isn wasn weren won wouldn couldn shouldn hasn haven hadn aren".split()
)


def normalise(text: str) -> str:
    """NFKC, case-folded: the form in which two texts are compared."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", text).casefold()


def word_list(text: str) -> list[str]:
    """The words of a text in order, with repeats: ``\\w+`` of its normalised form."""
    return _WORD.findall(normalise(text))


def words(text: str) -> frozenset[str]:
    """The set of words of a text, for Jaccard."""
    return frozenset(word_list(text))


def _accentless(word: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c))


@lru_cache(maxsize=1)
def _stemmer() -> object:
    from Stemmer import Stemmer

    return Stemmer("english")


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Snowball's English stem of one normalised word, accents removed."""
    plain = word if word.isascii() else _accentless(word)
    return str(_stemmer().stemWord(plain))  # type: ignore[attr-defined]


def stems(text: str) -> list[str]:
    """The searchable terms of a text in order, with repeats: stemmed, without stop words, unspaced scripts in pairs."""
    found: list[str] = []
    for word in word_list(text):
        if word in STOP_WORDS:
            continue
        if not word.isascii() and _UNSPACED.search(word):
            found.extend(_pairs(word))
        else:
            found.append(stem(word))
    return found


def _pairs(word: str) -> list[str]:
    terms: list[str] = []
    position = 0
    for run in _UNSPACED.finditer(word):
        if run.start() > position:
            terms.append(stem(word[position : run.start()]))
        characters = run.group()
        terms.extend(characters[i : i + 2] for i in range(len(characters) - 1))
        if len(characters) == 1:
            terms.append(characters)
        position = run.end()
    if position < len(word):
        terms.append(stem(word[position:]))
    return terms


def spoken(text: str, speaker: str | None) -> str:
    """A text as it was said: ``Speaker: text``. This is what is indexed and what a block shows."""
    return f"{speaker}: {text}" if speaker else text


def content_hash(text: str) -> str:
    """Names a text for caches only: two people who say "yes" said two things."""
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()
