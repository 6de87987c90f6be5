"""The figures: each a function of values, with its unit and source.

Evidence in block (EIB) looks at what the agent really gets: a gold turn counts as found when its ``Speaker: text``
stands in the packed block, whitespace and escaping aside.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from math import ceil

from fusion.lib.jaccard import jaccard, telling
from fusion.lib.words import words

CONTENT = 4
"""letters of a word that says what a text is about"""
SHORT = 4
"""texts of at most this many different words ("Thanks, you too!") are alike without being duplicates"""


def plain(text: str) -> str:
    """A text as EIB compares it: unescaped, NFKC, every run of whitespace one blank."""
    return " ".join(unicodedata.normalize("NFKC", html.unescape(text)).split())


def found(gold: Sequence[str], block: str) -> list[bool]:
    """For each gold text, whether it stands in the block."""
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
    # A question without any ranked document is in no run, and stays at 0.
    for metric in ir_measures.iter_calc(list(measures.values()), qrels, run) if run else ():
        found[int(metric.query_id)][names[str(metric.measure)]] = float(metric.value)
    return found


def _content(said: Iterable[str]) -> bool:
    return any(len(word) >= CONTENT for word in said)


def duplicate_pairs(texts: Sequence[str], threshold: float = 0.6) -> int:
    """Pairs among the members of one block that say the same: word sets alike by Jaccard, or one text within the other.

    Pairs are none that a negation, a number or a date tells apart, or of which each has a word of `CONTENT` letters or
    more that the other lacks; nor are very short texts.
    """
    seen: list[tuple[str, frozenset[str], frozenset[str]]] = []
    pairs = 0
    for text in texts:
        said = words(text)
        if len(said) <= SHORT:
            continue
        entry = (plain(text).casefold(), said, telling(said))
        for other, other_said, other_telling in seen:
            within = entry[0] in other or other in entry[0]
            apart = entry[2] != other_telling or (_content(said - other_said) and _content(other_said - said))
            pairs += not apart and (within or jaccard(said, other_said) >= threshold)
        seen.append(entry)
    return pairs


def mean(values: Iterable[float], digits: int = 4) -> float | None:
    """Rounded; None of nothing."""
    listed = list(values)
    return round(sum(listed) / len(listed), digits) if listed else None


def percentile(share: float, values: Iterable[float]) -> float | None:
    """Nearest rank: the smallest value that at least ``share`` of all do not exceed; None of nothing."""
    ordered = sorted(values)
    return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else None


def by_group(values: Iterable[tuple[str, float]]) -> Mapping[str, tuple[int, float]]:
    """How many, and their mean, by group; groups in order of name."""
    groups: dict[str, list[float]] = {}
    for name, value in values:
        groups.setdefault(name, []).append(value)
    return {name: (len(group), round(sum(group) / len(group), 4)) for name, group in sorted(groups.items())}
