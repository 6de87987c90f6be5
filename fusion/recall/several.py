"""Whether a question asks for several things: "which books …", "how many times …", "what do both like?".

By its words alone: plural nouns after an interrogative in English, interrogatives that are plural in German, French,
Spanish and Italian, and words for what is shared.
"""

from __future__ import annotations

from itertools import pairwise

from fusion.lib.text_cache import text_cache
from fusion.lib.words import accentless, find_words, normalise

NOUN_WITHIN = 4
"""words after "what" and "which" among which the noun is looked for, up to a verb"""

_INTERROGATIVES = frozenset({"what", "which"})
_VERBS = frozenset(
    "am are be can could did do does had has have is may might must shall should was were will would about".split()
)
_PLURAL = frozenset({"are", "were"})
_NO_PLURAL = ("ss", "us", "is")
_SEVERAL = frozenset(
    "both kinds types sorts "
    "beide beiden alles gemeinsam combien quels quelles cuales cuantos cuantas ambos ambas quali quanti quante "
    "entrambi entrambe".split()
)
_PAIRS = frozenset(
    [
        *(("how", word) for word in ("many", "often", "else")),
        *(("in", word) for word in ("common", "comune", "comun")),
        ("what", "ways"),
        ("en", "commun"),
        ("en", "comun"),
        ("wie", "viele"),
        ("wie", "oft"),
        ("les", "deux"),
        *(("type", "of"), ("kind", "of"), ("sort", "of")),
    ]
)


@text_cache(64)
def asks_for_several(question: str) -> bool:
    """Whether the answer to a question is probably more than one thing."""
    words = [accentless(normalise(word)) for word in find_words(question)]
    if not _SEVERAL.isdisjoint(words) or not _PAIRS.isdisjoint(pairwise(words)):
        return True
    return any(_has_plural(words[i + 1 :]) for i, word in enumerate(words) if word in _INTERROGATIVES)


def _has_plural(words: list[str]) -> bool:
    """Whether a plural follows an interrogative: "are", or a noun before the verb."""
    if words and words[0] in _PLURAL:
        return True
    for word in words[:NOUN_WITHIN]:
        if word in _VERBS:
            return False
        if len(word) > len("was") and word.endswith("s") and not word.endswith(_NO_PLURAL):
            return True
    return False
