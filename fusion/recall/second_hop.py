"""The second hop of a question: memories whose title one of its best memories names.

"Who leads the team that Ada joined?": the best memory says that Ada joined Heron. The note Heron.md says who leads it,
and shares no word with the question.

The title of a memory is the name of its note, else what its text opens with ("Heron. A team of five …"). Turns of a
conversation have none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from fusion.lib.dated_notes import day_of_path
from fusion.lib.text_cache import text_cache
from fusion.lib.titles import BEGINNING, bare, lead
from fusion.lib.words import STOP_WORDS, find_words
from fusion.recall.expand import Pooled

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BEST = 3
"""the best memories whose names are looked up"""
DECAY = 0.8
"""factor on the strength of a name for each rank of the memory that has it"""
NAMING_CHARS = 4_000
"""leading characters of a memory that are searched for names"""
MIN_CHARS = 3
"""characters of the shortest title"""

_LINK = re.compile(r"\[\[([^\[\]|#\n]{1,120})")


class _Names(NamedTuple):
    """What a text names: its words in a row, and its words with a capital and wiki links alone."""

    words: str
    capitals: frozenset[str]


class Named(NamedTuple):
    """How strongly the best memories name each memory's title, 0 to 1, and the score of the memory that names it."""

    strengths: NDArray[np.float64]
    by: NDArray[np.float64]


def named_by_best(query: str, pool: Sequence[Pooled], scores: NDArray[np.float64]) -> Named:
    """Which memories the best ones name by their titles.

    A title in the question counts for nothing: such a memory shares the name with it. Where several memories have one
    title, as the sections of a note, each gets less.
    """
    import numpy as np

    found, by = np.zeros(len(pool)), np.zeros(len(pool))
    titles = [_title_of(entry) for entry in pool]
    if not any(titles):
        return Named(found, by)
    asked = _in_a_row(query)
    counts = Counter(titles)
    head = np.argsort(-scores, kind="stable")[:BEST].tolist()
    best = scores[head[0]] or 1.0
    for rank, i in enumerate(head):
        names = _names_in(pool[i].candidate.hit.text[:NAMING_CHARS])
        strength = DECAY**rank * scores[i] / best
        for j, title in enumerate(titles):
            if title and title != titles[i] and strength > found[j] and _has(names, title):
                found[j], by[j] = 0.0 if f" {title} " in asked else strength, scores[i]
    return Named(found / np.sqrt([max(1, counts[title]) if title else 1 for title in titles]), by)


def _has(names: _Names, title: str) -> bool:
    return f" {title} " in names.words if " " in title else title in names.capitals


def _title_of(entry: Pooled) -> str:
    """The title of a memory as `_in_a_row` has it, without blanks around it; empty for one without."""
    hit = entry.candidate.hit
    if hit.place is not None and hit.place.unit == "turn":
        return ""
    begins = entry.passage is None or entry.passage.start == 0
    return _title(hit.text[:BEGINNING] if begins else "", hit.place.document if hit.place else "")


@text_cache(16_384)
def _title(beginning: str, document: str) -> str:
    path = PurePosixPath(document)
    if path.suffix:
        title = path.stem if day_of_path(document) is None else ""
    else:
        title = lead(beginning) or ""
        title = bare(title) or title
    row = _in_a_row(title).strip()
    return row if len(row) >= MIN_CHARS and row not in STOP_WORDS and not row.replace(" ", "").isdecimal() else ""


@text_cache(256)
def _names_in(text: str) -> _Names:
    linked = (_in_a_row(name).strip() for name in _LINK.findall(text))
    capitals = (word.casefold() for word in find_words(text) if word[:1].isupper())
    return _Names(_in_a_row(text), frozenset([*capitals, *linked]))


def _in_a_row(text: str) -> str:
    """The words of a text without case, each between blanks."""
    return f" {' '.join(find_words(text.casefold()))} "
