"""What is cheaply known of each memory in the pool, by name, each 0 to 1.

| signal    | what it says |
|-----------|--------------|
| agreement | reciprocal rank fusion, as a share of first place with every backend that answered |
| bm25      | the query's words in the memory and its two neighbours, as a share of the most they could count |
| dense     | cosine of query and memory |
| maxsim    | IDF-weighted MaxSim of the query's tokens in the memory |
| window3   | the same for a turn of a talk, each token matched in it or in what was said right before and after |
| window5   | the same, two before and two after: a reply by the words of its question, a fact by its occasion |
| alone     | for what is no turn among others, and says by itself what it says: the mean of its MaxSim and its |
|           | cosine; for a section of a document its MaxSim: it is longer than what a model reads as a whole |
| speaker   | 1: it was said by someone the query names; 0: by another while it names one; else ½ |
| date      | how close it is to when the query asks for (`fusion.recall.dates`); 0 where that names no date |
| length    | how much it says, up to `LONG` characters |
| linked    | how strongly a graph leads to it from what the query names and finds, by the backend that says most; for |
|           | what is no turn among others: turns of one talk name the same people, which links all of them |

A signal that cannot be had (no model, no time to encode) is absent, and the others carry the weight. ``linked`` has
none: what a graph leads to need not be like the query at all, so it lifts a score instead of taking part in the mean.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fusion.contract import Hit, Query
from fusion.lib.bm25 import Bm25, Counted, Frequencies, counted, terms
from fusion.lib.maxsim import token_weights
from fusion.lib.words import normalise, spoken
from fusion.recall.dates import dates
from fusion.recall.expand import Pooled

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SIGNALS = ("agreement", "bm25", "dense", "maxsim", "window3", "window5", "alone", "speaker", "date", "length")
EITHER = frozenset({"window3", "window5", "alone"})
"""a memory has windows, or it is alone: it never has all of these"""
LONG = 300

Signals = Mapping[str, float]


@dataclass(frozen=True)
class Likeness:
    """How a model sees a query beside texts.

    ``words`` has the word that each query token is part of; ``matches`` gives, by text, each token's best match in
    it (shape: query tokens), and ``dense`` the cosine of the whole. Texts that there was no time for are not in them.
    """

    words: tuple[str, ...] = ()
    matches: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    dense: Mapping[str, float] = field(default_factory=dict)


def local_signals(
    query: Query, pool: Sequence[Pooled], agreement_ceiling: float, frequencies: Frequencies, likeness: Likeness
) -> list[dict[str, float]]:
    """The signals of each memory of ``pool``, in its order. ``likeness`` is by the memory's spoken text.

    Where ``frequencies`` know less than the pool, because foreign memories are not in the journal, the pool's own
    stand in for them.
    """
    said = [spoken(p.candidate.hit.text, p.candidate.hit.speaker) for p in pool]
    beside = standing_beside(pool)
    turns = [bool(near) and _is_turn(p.candidate.hit) for p, near in zip(pool, beside, strict=True)]
    texts = [counted(text) for text in said]
    asked = terms(query.text)
    if frequencies.documents < len(pool):
        frequencies = _among(texts, asked)
    lexical = Bm25(asked, frequencies)
    names = _names(query.text, pool)
    asked_for = dates(query.text, query.now)
    rows: list[dict[str, float]] = []
    for i, entry in enumerate(pool):
        hit = entry.candidate.hit
        window = [texts[i]]
        if beside[i]:
            window = [texts[j] for j in (beside[i].get(-1), i, beside[i].get(1)) if j is not None]
        row = {
            "agreement": entry.rrf / agreement_ceiling if agreement_ceiling else 0.0,
            "bm25": lexical.score(*window),
            "speaker": _speaker(hit, names) if names else 0.5,
            "date": asked_for.closeness(hit.at) if asked_for else 0.0,
            "length": min(1.0, len(hit.text) / LONG),
        }
        if not turns[i] and (ways := [s.linked for s in entry.candidate.sightings if s.linked]):
            row["linked"] = min(1.0, max(ways))
        if (cosine := likeness.dense.get(said[i])) is not None:
            row["dense"] = max(0.0, cosine)
        rows.append(row)
    if likeness.matches:
        for row, found in zip(rows, _late_interaction(said, beside, turns, frequencies, likeness), strict=True):
            row.update(found)
    for row, turn, others in zip(rows, turns, beside, strict=True):
        if not turn and (looks := [row[name] for name in ("maxsim", "dense") if name in row]):
            row["alone"] = looks[0] if others else sum(looks) / len(looks)
    return rows


def _among(texts: Sequence[Counted], asked: Sequence[str]) -> Frequencies:
    """Of these texts themselves, how many have each term."""
    length = sum(text.length for text in texts) / len(texts)
    counts = {term: sum(term in text.counts for text in texts) for term in set(asked)}
    return Frequencies(len(texts), length, counts)


def _late_interaction(
    said: Sequence[str],
    beside: Sequence[Mapping[int, int]],
    turns: Sequence[bool],
    frequencies: Frequencies,
    likeness: Likeness,
) -> list[dict[str, float]]:
    """maxsim, window3 and window5 of each memory that the model saw."""
    import numpy as np

    weights = np.array(token_weights(likeness.words, frequencies), dtype=np.float32)
    weights /= weights.sum()
    unseen = np.zeros(len(weights), dtype=np.float32)
    alone = np.array([likeness.matches.get(text, unseen) for text in said])

    def widened(offsets: Sequence[int]) -> NDArray[np.float32]:
        matches = alone.copy()
        for offset in offsets:
            here = [i for i, others in enumerate(beside) if offset in others]
            there = [beside[i][offset] for i in here]
            matches[here] = np.maximum(matches[here], alone[there])
        return matches

    columns = np.stack([alone @ weights, widened((-1, 1)) @ weights, widened((-2, -1, 1, 2)) @ weights], axis=1)
    return [
        _seen(*found, windows=turn) if text in likeness.matches else {}
        for text, turn, found in zip(said, turns, columns.clip(0.0).tolist(), strict=True)
    ]


def _seen(maxsim: float, window3: float, window5: float, *, windows: bool) -> dict[str, float]:
    return {"maxsim": maxsim, "window3": window3, "window5": window5} if windows else {"maxsim": maxsim}


def score(row: Signals, weights: Mapping[str, float]) -> float:
    """The local score, 0 to 1: the weighted mean of the signals that are there."""
    total = best = 0.0
    for name, weight in weights.items():
        value = row.get(name)
        if value is not None:
            best += weight
            total += weight * value
    return total / best if best else 0.0


def lifted(mean: float, row: Signals, lift: float) -> float:
    """A mean with what the graph says added, 0 to 1: 1 - (1 - mean)(1 - lift · linked), as two independent reasons to
    show a memory are (noisy-or: J. Pearl, "Probabilistic Reasoning in Intelligent Systems", 1988). It never lowers."""
    return 1 - (1 - mean) * (1 - lift * row.get("linked", 0.0))


def whole(row: Signals, wanted: frozenset[str]) -> bool:
    """Whether every signal that a recipe wants is there, as far as a memory can have it."""
    needs = wanted - EITHER
    return needs <= row.keys() and (needs == wanted or not EITHER.isdisjoint(row))


def document_of(hit: Hit) -> tuple[object, ...] | None:
    """What groups memories that stand beside each other."""
    if hit.place is None:
        return None
    return (hit.scope.tenant, hit.scope.user_id, hit.place.document, hit.place.unit)


def _is_turn(hit: Hit) -> bool:
    return hit.place is not None and hit.place.unit == "turn"


def standing_beside(pool: Sequence[Pooled]) -> list[dict[int, int]]:
    """For each memory, where in the pool those at -2, -1, +1 and +2 places in its document are, if they are in it."""
    shelves: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for i, entry in enumerate(pool):
        document = document_of(entry.candidate.hit)
        if document is not None:
            shelves[document].append(i)
    found: list[dict[int, int]] = [{} for _ in pool]
    for shelf in shelves.values():
        if len(shelf) == 1:
            continue
        order = sorted(shelf, key=lambda i: (_start(pool[i]), pool[i].ref))
        turns = _is_turn(pool[shelf[0]].candidate.hit)
        # Turns are numbered one by one, so a gap shows; chunks are not, so the next in the pool will do.
        places = [(_start(pool[i]) if turns else n, i) for n, i in enumerate(order)]
        standing = dict(reversed(places))  # of two in one place the first
        for here, i in places:
            for offset in (-2, -1, 1, 2):
                if (j := standing.get(here + offset)) is not None:
                    found[i][offset] = j
    return found


def _start(entry: Pooled) -> int:
    place = entry.candidate.hit.place
    return place.start if place is not None else 0


_WORD = re.compile(r"\w+")


def _names(text: str, pool: Sequence[Pooled]) -> frozenset[str]:
    """The speakers of the pool that the query names, by any part of their name of three letters or more."""
    asked = set(_WORD.findall(normalise(text)))
    speakers = {p.candidate.hit.speaker for p in pool if p.candidate.hit.speaker}
    return frozenset(
        s for s in speakers if any(len(part) > 2 and part in asked for part in _WORD.findall(normalise(s)))
    )


def _speaker(hit: Hit, names: frozenset[str]) -> float:
    if not names or hit.speaker is None:
        return 0.5
    return 1.0 if hit.speaker in names else 0.0
