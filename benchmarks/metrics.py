"""Functions that compute the figures from values, with unit and source.

Evidence in block (EIB) scores what the agent receives: an evidence turn is found if its ``Speaker: text`` is in the
packed block, whitespace and escaping aside.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from math import ceil

from fusion.lib.jaccard import guard_words, jaccard
from fusion.lib.words import words

CONTENT_WORD_LETTERS = 4
"""letters of a content word, at least"""
SHORT_TEXT_WORDS = 4
"""a text of at most so many different words ("Thanks, you too!") is never a duplicate"""


def plain(text: str) -> str:
    """The text as EIB compares it: unescaped, NFKC, whitespace collapsed."""
    return " ".join(unicodedata.normalize("NFKC", html.unescape(text)).split())


def texts_in_block(gold: Sequence[str], block: str) -> list[bool]:
    """For each evidence text, whether the block has it."""
    read = plain(block)
    return [plain(text) in read for text in gold]


def ranking(pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> list[dict[str, float]]:
    """R@5, R@10, nDCG@10 and reciprocal rank of each (gold ids, ranked ids), by ir-measures.

    Relevance is binary; nDCG discounts by log2(1 + rank): Järvelin and Kekäläinen, TOIS 2002.
    """
    import ir_measures

    measures = {
        "r_at_5": ir_measures.R @ 5,
        "r_at_10": ir_measures.R @ 10,
        "ndcg_at_10": ir_measures.nDCG @ 10,
        "mrr": ir_measures.RR,
    }
    names = {str(measure): name for name, measure in measures.items()}
    qrels = [ir_measures.Qrel(str(i), doc, 1) for i, (gold, _) in enumerate(pairs) for doc in gold]
    run = [
        ir_measures.ScoredDoc(str(i), doc, -float(rank))
        for i, (_, ranked) in enumerate(pairs)
        for rank, doc in enumerate(ranked)
    ]
    found = [dict.fromkeys(measures, 0.0) for _ in pairs]
    # A question without a ranked document is not in the run and scores 0.
    for metric in ir_measures.iter_calc(list(measures.values()), qrels, run) if run else ():
        found[int(metric.query_id)][names[str(metric.measure)]] = float(metric.value)
    return found


def _has_content_word(words: Iterable[str]) -> bool:
    return any(len(word) >= CONTENT_WORD_LETTERS for word in words)


def duplicate_pairs(texts: Sequence[str], threshold: float = 0.6) -> int:
    """Counts pairs of members with the same content: similar word sets by Jaccard, or one text within the other.

    A pair is not counted if its negations, numbers or dates differ, if each text has a word of `CONTENT_WORD_LETTERS`
    or more that the other lacks, or if a text is very short.
    """
    seen: list[tuple[str, frozenset[str], frozenset[str]]] = []
    pairs = 0
    for text in texts:
        said = words(text)
        if len(said) <= SHORT_TEXT_WORDS:
            continue
        entry = (plain(text).casefold(), said, guard_words(said))
        for other, other_said, other_telling in seen:
            within = entry[0] in other or other in entry[0]
            apart = entry[2] != other_telling or (
                _has_content_word(said - other_said) and _has_content_word(other_said - said)
            )
            pairs += not apart and (within or jaccard(said, other_said) >= threshold)
        seen.append(entry)
    return pairs


def mean(values: Iterable[float], digits: int = 4) -> float | None:
    """The rounded mean; None without values."""
    listed = list(values)
    return round(sum(listed) / len(listed), digits) if listed else None


def percentile(share: float, values: Iterable[float]) -> float | None:
    """Nearest rank: the smallest value that at least ``share`` of all do not exceed; None without values."""
    ordered = sorted(values)
    return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else None


def by_group(values: Iterable[tuple[str, float]]) -> Mapping[str, tuple[int, float]]:
    """Count and mean of each group, by name."""
    groups: dict[str, list[float]] = {}
    for name, value in values:
        groups.setdefault(name, []).append(value)
    return {name: (len(group), round(sum(group) / len(group), 4)) for name, group in sorted(groups.items())}
