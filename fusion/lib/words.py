"""Splits a text into words for comparing, and into stems for searching."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

from fusion.lib.text_cache import text_cache

_WORD = re.compile(r"\w+")
# Characters that do not change a word: soft hyphens, the joiners of Persian, Indic scripts and emoji, direction marks,
# and the stroke that stretches an Arabic word.
_INVISIBLE = dict.fromkeys(
    [0xAD, 0x640, *range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x206A), 0xFEFF]
)
# An emoji or other pictograph is a word; a flag is a pair of regional indicators; skin tones are ignored.
_PICTURE = (
    "[\U0001f1e6-\U0001f1ff]{2}|"
    "[\u231a\u231b\u23e9-\u23fa\u2600-\u27bf\u2b1b\u2b1c\u2b50\u2b55\U0001f300-\U0001f3fa\U0001f400-\U0001faff]"
)
# Scripts without spaces between words: a run is cut into overlapping pairs (bigrams), as usual in CJK search.
_UNSPACED = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]+")

# A letter of another script than the Latin one, with its extensions and full-width forms.
_OTHER_LETTER = re.compile(r"[^\W\d_A-Za-z\u00aa-\u024f\u1e00-\u1eff\uff21-\uff5a]")

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
    """The form in which two texts are compared: NFKC and case-folded."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", text).casefold()


def find_words(text: str) -> list[str]:
    """Runs of letters, digits, ``_`` and combining marks; vowels of Hindi and Arabic are such marks."""
    return _WORD.findall(text) if text.isascii() else _marked()[0].findall(text.translate(_INVISIBLE))


def word_list(text: str) -> list[str]:
    """The words of a text's normalised form, in order, with repeats."""
    return find_words(normalise(text))


def words_and_pictures(text: str) -> list[str]:
    """The words and emoji of a text's normalised form, in order, with repeats."""
    plain = normalise(text)
    return _WORD.findall(plain) if plain.isascii() else _marked()[1].findall(plain.translate(_INVISIBLE))


def words(text: str) -> frozenset[str]:
    """The set of words of a text, for Jaccard."""
    return frozenset(word_list(text))


@lru_cache(maxsize=1)
def _marked() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Patterns of words in any script, and of words or pictographs. Python's ``\\w`` does not match combining marks."""
    kinds = ((n, unicodedata.category(chr(n))) for n in range(0x300, 0x10000))
    marks = "".join(chr(n) for n, kind in kinds if kind[0] == "M" and not 0xFE00 <= n <= 0xFE0F)
    word = rf"\w[\w{marks}]*"
    return re.compile(word), re.compile(f"{word}|{_PICTURE}")


def mostly_latin(text: str) -> bool:
    """Whether at least half of a text's letters are Latin ones."""
    return text.isascii() or 2 * len(_OTHER_LETTER.findall(text)) <= sum(map(str.isalpha, text))


def accentless(word: str) -> str:
    """A word without accents, vowel points and hamza.

    Marks that make another letter stay (combining classes up to 9: nukta, the voicing of kana, virama).
    """
    letters = (c for c in unicodedata.normalize("NFD", word) if unicodedata.combining(c) <= 9)
    return unicodedata.normalize("NFC", "".join(letters))


@lru_cache(maxsize=2)
def _stemmer(language: str) -> object:
    from Stemmer import Stemmer

    return Stemmer(language)


@text_cache(65_536)
def stem(word: str) -> str:
    """The Snowball stem of a normalised word without accents: Arabic for Arabic letters, English otherwise."""
    plain = word if word.isascii() else accentless(word)
    language = "arabic" if "\u0600" <= plain[:1] <= "\u06ff" else "english"
    return str(_stemmer(language).stemWord(plain))  # type: ignore[attr-defined]


def stems(text: str) -> list[str]:
    """The search terms of a text, in order, with repeats: stems without stop words, bigrams of scripts without spaces,
    and emoji."""
    plain = normalise(text)
    if plain.isascii():
        return _stems_of(_WORD.findall(plain))
    found: list[str] = []
    for word in _marked()[1].findall(plain.translate(_INVISIBLE)):
        if word in STOP_WORDS:
            continue
        if not word.isascii() and _UNSPACED.search(word):
            found.extend(_pairs(word))
        else:
            found.append(stem(word))
    return found


def words_and_stems(text: str) -> tuple[list[str], list[str]]:
    """`word_list` and `stems` of a text. In ASCII their words are the same, and are found once."""
    plain = normalise(text)
    if not plain.isascii():
        return find_words(plain), stems(text)
    found = _WORD.findall(plain)
    return found, _stems_of(found)


def _stems_of(ascii_words: Sequence[str]) -> list[str]:
    """The stems of words in ASCII, without stop words."""
    return [stem(word) for word in ascii_words if word not in STOP_WORDS]


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


@text_cache(16_384)
def spoken(text: str, speaker: str | None) -> str:
    """``Speaker: text``, the form in which a text is indexed and shown in a block."""
    return f"{speaker}: {text}" if speaker else text


def content_hash(text: str) -> str:
    """A key of a text for caches. It does not identify a memory: two people may say the same words."""
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()
