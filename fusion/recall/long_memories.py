"""Replaces the long memories of the pool by their passages, so that each passage is ranked and shown by itself.

A text of thousands of characters has its answer in one paragraph. Compared as a whole, the rest of the text drowns it,
and shown as a whole, it fills the block. A memory of one passage (`fusion.lib.passages`) stays as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fusion.contract import Hit, Query
from fusion.lib.bm25 import Bm25, Frequencies, terms
from fusion.lib.passages import Span, is_long, passages
from fusion.lib.text_words import text_words
from fusion.lib.words import spoken
from fusion.recall.expand import Pooled
from fusion.recall.filter import Record
from fusion.recall.rerank import Scored

MAX_COMPARED = 4_000
"""passages that are compared by words and by cosine; memories beyond it are ranked by the text that was found"""

PASSAGES_FIRST = 2
"""passages of a turn that are packed before those of other turns: its further ones mostly say the same in more words"""


class Part(NamedTuple):
    """A passage of a memory of the pool: the memory's place in the pool, the span, and its text with the speaker."""

    owner: int
    span: Span
    said: str


def parts_of(pool: Sequence[Pooled], records: Mapping[str, Record]) -> list[Part]:
    """The passages of the long memories of ``pool``, of at most `MAX_COMPARED`. ``records`` are by event id."""
    found: list[Part] = []
    for i, entry in enumerate(pool):
        speaker = entry.candidate.hit.speaker
        text = _whole_text(entry.candidate.hit, records)
        spans = passages(text, speaker) if is_long(text, speaker) else ()
        if len(spans) > 1 and len(found) + len(spans) <= MAX_COMPARED:
            found += [Part(i, span, spoken(text[span.start : span.end], speaker)) for span in spans]
    return found


def best_parts(
    query: Query, parts: Sequence[Part], cosines: Mapping[str, float], frequencies: Frequencies, most: int
) -> list[Part]:
    """The ``most`` best parts, and the best one of each memory, in reading order.

    They are compared by the sum of BM25 and cosine, which cost little; what is chosen is compared token by token.
    """
    by_words = Bm25(terms(query.text), frequencies).scores([text_words(part.said).terms for part in parts]).tolist()
    worth = [score + cosines.get(part.said, 0.0) for part, score in zip(parts, by_words, strict=True)]
    order = sorted(range(len(parts)), key=lambda i: (-worth[i], i))
    chosen = set(order[:most])
    seen: set[int] = set()
    for i in order:
        if parts[i].owner not in seen:
            seen.add(parts[i].owner)
            chosen.add(i)
    return [parts[i] for i in sorted(chosen)]


def in_parts(pool: Sequence[Pooled], parts: Sequence[Part]) -> tuple[Pooled, ...]:
    """The pool with these parts in place of their memories."""
    by_owner: dict[int, list[Part]] = {}
    for part in parts:
        by_owner.setdefault(part.owner, []).append(part)
    found: list[Pooled] = []
    for i, entry in enumerate(pool):
        if i not in by_owner:
            found.append(entry)
            continue
        hit = entry.candidate.hit.with_own_tags()
        for part in by_owner[i]:
            text = part.said.removeprefix(f"{hit.speaker}: ") if hit.speaker else part.said
            found.append(entry._replace(candidate=entry.candidate._replace(hit=hit.cut(text)), passage=part.span))
    return tuple(found)


def best_of_each_first(order: Sequence[Scored]) -> Sequence[Scored]:
    """The order with all but the best passages of each long turn at its end; the same if no turn has more."""
    taken: Counter[str] = Counter()
    best: list[Scored] = []
    rest: list[Scored] = []
    for scored in order:
        place = scored.pooled.candidate.hit.place
        if scored.pooled.passage is not None and place is not None and place.unit == "turn":
            taken[scored.ref] += 1
        (rest if taken[scored.ref] > PASSAGES_FIRST else best).append(scored)
    return (*best, *rest) if rest else order


def _whole_text(hit: Hit, records: Mapping[str, Record]) -> str:
    """The text of a memory: the journal's, since a hit has only the part of a very long one that was found."""
    record = None if hit.external or hit.event_id is None else records.get(hit.event_id)
    return hit.text if record is None else record.event.text
