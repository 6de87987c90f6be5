"""Splits a query into its sub-questions: "What did Ada buy, and where did Bo go?" has two.

Rules for English, linear in the text. A sub-question begins with a question word or with a verb before its subject,
after a question mark or a conjunction. After a comma it begins only if the text before the comma is a direct question,
so that "When Ada came, what did Bo say?" and "the town, in which she lives" stay whole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from fusion.contract import Query
from fusion.lib.bm25 import terms
from fusion.lib.pasted import prompt_parts
from fusion.lib.words import STOP_WORDS, word_list
from fusion.recall.signals import Likeness

MIN_TERMS = 1
"""fewest terms, stop words aside, of a sub-question that is ranked separately: "and why?" has none"""

_WORD = r"(?i:what|which|who|whom|whose|when|where|why|how)\b"
_AMONG = r"(?i:in|on|at|for|from|with|to|by|of|about|since|until)\s+"
_AUXILIARY = r"(?i:did|does|is|are|was|were|has|had|can|could|will|would|should)(?:n['’]t)?\s+"
_SUBJECT = (
    r"(?:(?i:i|you|he|she|it|we|they|there|the|this|that|these|those|my|your|his|her|its|our|their|any\w*|some\w*)\b"
    r"|[A-Z])"
)
# "and do the dishes", "and have it ready" are no questions.
_VERB = rf"(?:{_AUXILIARY}{_SUBJECT}|(?i:do|have)\s+(?:(?i:i|you|we|they)\b|[A-Z]))"
_ASKS = rf"(?:(?:{_AMONG})?{_WORD}|{_VERB})"
_LISTED = rf"(?:(?i:what|how)\b|(?i:when|where|why)\s+(?:{_AUXILIARY}|(?i:do|have)\s))"

_BEGINS = re.compile(
    rf"(?<=\?)\s+(?:(?i:and|or|but|also),?\s+)?(?={_ASKS})"
    rf"|(?<!\s)[,;]?\s+(?i:and|or|but)\s+(?:(?i:also|then)\s+)?(?={_ASKS})"
    rf"|(?P<comma>[,;])\s+(?={_LISTED})"
)
_ASKING = re.compile(rf"\?|(?<!\w)(?:{_WORD}|{_VERB})")
_DIRECTLY = re.compile(rf"{_LISTED}|(?i:who|which|whose|whom)\b|{_VERB}")
_NAME = re.compile(r"(?<!\w)[A-Z]\w+")
_PRONOUN = re.compile(r"\b(?:he|she|it|they|him|her|them|his|hers|its|their|theirs)\b", re.IGNORECASE)


def sub_questions(text: str, most: int) -> tuple[str, ...]:
    """The sub-questions of a text in its order, at most ``most``; the text itself if it has only one.

    A sub-question without names, or with a pronoun before them, gets the names of the one before appended.
    """
    spans: list[tuple[int, int]] = []
    start = 0
    for match in _BEGINS.finditer(text):
        if not match["comma"] or _DIRECTLY.match(text, start):
            spans.append((start, match.start()))
            start = match.end()
    found: list[tuple[int, int, bool]] = []
    for begin, end in (*spans, (start, len(text))):
        asks = _ASKING.search(text, begin, end) is not None and len(set(terms(text[begin:end]))) >= MIN_TERMS
        if found and not (asks and found[-1][2] and len(found) < most):
            first, _, asked = found.pop()
            found.append((first, end, asked or asks))
        else:
            found.append((begin, end, asks))
    return _named([text[begin:end] for begin, end, _ in found]) if len(found) > 1 else (text,)


def _named(pieces: Sequence[str]) -> tuple[str, ...]:
    named: list[str] = []
    before: dict[str, None] = {}
    for piece in pieces:
        names = dict.fromkeys(name for name in _NAME.findall(piece) if name.lower() not in STOP_WORDS)
        pronoun = _PRONOUN.search(piece)
        if not names or (pronoun and pronoun.start() < piece.index(next(iter(names)))):
            names |= before
            piece = " ".join([piece, *before])
        named.append(piece)
        before = names
    return tuple(named)


def split_query(query: Query, likeness: Likeness, most: int) -> list[tuple[Query, Likeness]]:
    """Each sub-question as a query, with the likeness of its own tokens; a token of none counts for all of them.

    What was pasted into a prompt is a query of its own, to which the brackets of code belong. The cosine stays that of
    the whole query, which was encoded once.
    """
    typed, pasted = prompt_parts(query.text)
    texts = (*sub_questions(typed, most), *filter(None, [pasted])) if most > 1 else (query.text,)
    if len(texts) == 1:
        return [(query, likeness)]
    said = [frozenset(word_list(text)) for text in texts]
    every = frozenset().union(*said)
    found = []
    for text, own in zip(texts, said, strict=True):
        others = text.casefold() if pasted else None
        at = [
            i
            for i, word in enumerate(likeness.words)
            if word in own or (word not in every and (others is None or word in others))
        ]
        seen = {key: best[at] for key, best in likeness.matches.items()} if at else {}
        words = tuple(likeness.words[i] for i in at)
        found.append((replace(query, text=text), replace(likeness, words=words, matches=seen)))
    return found
