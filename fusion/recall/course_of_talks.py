"""Packs the person's turns first if a question asks about the course of talks with an assistant.

"In which order did I bring up …" and "summarise how my plans developed" resemble no single memory, and they resemble
the assistant's explanations most. The course is in the person's turns, even where their probability is low.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isnan

from fusion.lib.text_cache import text_cache
from fusion.lib.words import accentless, find_words, normalise
from fusion.recall.rerank import Scored

SHARE = 0.7
"""least share of the best score of a person's turn that is packed although it is below the floors"""

_ASKER = frozenset(
    "i my we our us "
    "ich mein meine meinen meiner meinem wir uns unser unsere unseren unserer "
    "je j mon ma mes nous notre nos "
    "yo mi mis nos nuestro nuestra nuestros nuestras he hemos "
    "io mio mia miei mie ho abbiamo nostro nostra nostri nostre".split()
)
_COURSE = re.compile(
    r"\b(?:summar\w+|recap|overview|over time|throughout (?:our|my)|in order(?! to\b)|(?:what|which) order"
    r"|order in which|zusammenfass\w*|uberblick|reihenfolge|im laufe|apercu|quel ordre|ordre dans lequel|au fil"
    r"|resumez|resume (?:moi|ce|mes|nos)|resumen|resumir"
    r"|que orden|orden en (?:el )?que|a lo largo|riassu\w+|panoramica|che ordine|ordine in cui|nel corso|nel tempo)\b"
)
_HOW = frozenset("how wie comment como come fass fasse".split())
_GREW = ("developed", "evolved", "progressed", "entwickelt", "zusammen", "evolue", "evolucion", "evolut")


@text_cache(64)
def asks_for_course(question: str) -> bool:
    """Whether a question asks what its asker said or did over several talks, by words of five languages."""
    words = [accentless(normalise(word)) for word in find_words(question)]
    if _ASKER.isdisjoint(words):
        return False
    grew = not _HOW.isdisjoint(words) and any(word.startswith(_GREW) for word in words)
    return grew or _COURSE.search(" ".join(words)) is not None


def person_first(order: Sequence[Scored]) -> Sequence[Scored]:
    """The order with the person's turns before the assistant's; all other memories keep their places.

    Unchanged if the best memory is not of a talk with an assistant. The scores do not change.
    """
    if not order or _role(order[0]) is None:
        return order
    least = SHARE * max(scored.local for scored in order)
    places = [i for i, scored in enumerate(order) if _role(scored) is not None]
    talk = [order[i] for i in places]
    said = [scored._replace(asked_for=scored.local >= least) for scored in talk if _role(scored)]
    found = list(order)
    for i, scored in zip(places, (*said, *(one for one in talk if not _role(one))), strict=True):
        found[i] = scored
    return found


def _role(scored: Scored) -> float | None:
    """1 for a person's turn, 0 for an assistant's; None for other memories."""
    if "role" not in scored.table.columns:
        return None
    role = float(scored.table.columns["role"][scored.row])
    return None if isnan(role) else role
