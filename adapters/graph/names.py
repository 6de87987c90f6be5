"""Entity names: a normal form for all spellings of one entity, and the entities that a text names.

Exact names, the longest first; case, accents and punctuation make no difference ("Café-Bar" is "cafe bar").
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterator

from fusion.lib.text_cache import text_cache
from fusion.lib.words import STOP_WORDS, normalise

# "C++" and "C#" are not "C"; an underscore joins words as a blank does ("corrected_by").
_TOKEN = re.compile(r"[^\W_]+[+#]*")
# Thai, kana, Han and Hangul: without blanks between words, or with particles glued on: a name begins anywhere.
_UNSPACED = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")

LONGEST_KEY = 120
"""maximum characters of a name; a longer text is a sentence"""

LONGEST_SPAN = 8
"""maximum words, or characters of an unspaced script, of a name that is looked for in a text"""

UNITS_READ = 600
"""words of a text that are searched for names: a query of 4,000 characters has fewer"""


@text_cache(1024)
def key(name: str) -> str:
    """The normal form of a name; "" when it has no letter or digit, or is too long to be a name."""
    plain = _plain(name)
    return plain if len(plain) <= LONGEST_KEY else ""


def _plain(text: str) -> str:
    text = normalise(text)
    if not text.isascii():
        parts = unicodedata.normalize("NFD", text)
        text = unicodedata.normalize("NFC", "".join(c for c in parts if not unicodedata.combining(c)))
    return " ".join(_TOKEN.findall(text))


@text_cache(16)
def spans(text: str) -> tuple[tuple[int, int, str], ...]:
    """Every stretch of ``text`` that could be a name: its start and end in the normal form, and itself.

    Cached: every store looks up the names of the same question, twice.
    """
    return tuple(_spans(_plain(text)))


def _spans(plain: str) -> Iterator[tuple[int, int, str]]:
    starts, ends = _boundaries(plain)
    for first, start in enumerate(starts[:UNITS_READ]):
        for end in ends[first : first + LONGEST_SPAN]:
            name = plain[start:end]
            if name not in STOP_WORDS and not (len(name) == 1 and name.isascii()):
                yield start, end, name


def _boundaries(plain: str) -> tuple[list[int], list[int]]:
    """The start and end of each unit: words, and each character of an unspaced script."""
    starts, ends = [], []
    for word in re.finditer(r"\S+", plain):
        if word.group().isascii() or not _UNSPACED.search(word.group()):
            starts.append(word.start())
            ends.append(word.end())
        else:
            starts.extend(range(word.start(), word.end()))
            ends.extend(range(word.start() + 1, word.end() + 1))
    return starts, ends


def named(text: str, known: Container[str]) -> list[str]:
    """The keys of ``known`` that ``text`` names, longest first; a name within a longer one does not count."""
    taken: list[tuple[int, int]] = []
    found: dict[str, None] = {}
    there = [span for span in spans(text) if span[2] in known]
    for start, end, name in sorted(there, key=lambda span: (span[0] - span[1], span[0])):
        if all(end <= begun or ended <= start for begun, ended in taken):
            taken.append((start, end))
            found[name] = None
    return list(found)
