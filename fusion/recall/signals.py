"""What is cheaply known of each memory in the pool, by name, each 0 to 1.

| signal    | what it says |
|-----------|--------------|
| agreement | reciprocal rank fusion, as a share of first place with every backend that answered |
| bm25      | the query's words in the memory and its two neighbours, as a share of the most they could count |
| dense     | cosine of query and memory |
| maxsim    | IDF-weighted MaxSim of the query's tokens in the memory |
| window3   | the same for a turn of a talk, each token matched in it or in what was said right before and after |
| window5   | the same, two before and two after: a reply by the words of its question, a fact by its occasion |
| own       | for what is no turn among others, and says by itself what it says: the mean of its MaxSim and its |
|           | cosine; for a section of a document its MaxSim: it is longer than what a model reads as a whole |
| speaker   | 1: a turn of a talk said by someone the query names; 0: one said by another while it names one; else ½, |
|           | which is also what a memory has that stands alone or that only a backend vouches for |
| date      | how close it is to when the query asks for (`fusion.recall.query_dates`); 0 where that names no date |
| length    | how much it says, up to `FULL_LENGTH_CHARS` characters |
| linked    | how strongly a graph leads to it from what the query names and finds, by the backend that says most; for |
|           | what is no turn among others: turns of one talk name the same people, which links all of them |

A signal that cannot be had (no model, no time to encode) is absent, and the others carry the weight. ``linked`` has
none: what a graph leads to need not be like the query at all, so it lifts a score instead of taking part in the mean.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from typing import TYPE_CHECKING

from fusion.contract import Hit, Query
from fusion.lib.bm25 import Bm25, Counted, Frequencies, counted, pairs, terms
from fusion.lib.words import normalise, spoken
from fusion.recall.expand import Pooled
from fusion.recall.maxsim import token_weights
from fusion.recall.query_dates import dates

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.float64]

SIGNALS = ("fusion", "bm25", "dense", "maxsim", "window3", "window5", "similarity", "speaker", "date", "length")
ALTERNATIVES = frozenset({"window3", "window5", "similarity"})
"""a memory has windows or a look of its own: it never has all of these"""
NEIGHBOUR_OFFSETS = (-2, -1, 1, 2)
"""how far from a memory what stands beside it is, in places of its document"""
FULL_LENGTH_CHARS = 300

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


@dataclass(frozen=True, slots=True, eq=False)
class SignalTable:
    """What is known of each memory of a pool, in its order: a column for each signal, NaN where a memory has none.

    A column, because what is done with one memory is done with hundreds.
    """

    size: int
    columns: Mapping[str, Column]

    @classmethod
    def of(cls, rows: Sequence[Signals]) -> SignalTable:
        """A row for each memory, with the signals that it has."""
        import numpy as np

        names = dict.fromkeys(name for row in rows for name in row)
        return cls(len(rows), {name: np.array([row.get(name, nan) for row in rows]) for name in names})

    def column(self, name: str) -> Column:
        """A signal of each; one that no memory has is NaN throughout."""
        import numpy as np

        found = self.columns.get(name)
        return np.full(self.size, nan) if found is None else found

    def row(self, i: int) -> dict[str, float]:
        """The signals that one memory has."""
        return {name: value for name, column in self.columns.items() if not isnan(value := float(column[i]))}

    def rows(self) -> list[dict[str, float]]:
        return [self.row(i) for i in range(self.size)]


def local_signals(
    query: Query, pool: Sequence[Pooled], fusion_ceiling: float, frequencies: Frequencies, likeness: Likeness
) -> SignalTable:
    """The signals of each memory of ``pool``, in its order. ``likeness`` is by the memory's spoken text.

    Where ``frequencies`` know less than the pool, because foreign memories are not in the journal, the pool's own
    stand in for them.
    """
    if not pool:
        return SignalTable(0, {})
    import numpy as np

    hits = [entry.candidate.hit for entry in pool]
    said = [spoken(hit.text, hit.speaker) for hit in hits]
    texts = [counted(text) for text in said]
    adjacent = adjacent_positions(pool)
    among = np.array([others != NO_NEIGHBOURS for others in zip(*adjacent.values(), strict=True)])
    turns = among & np.array([_is_turn(hit) for hit in hits])
    asked = terms(query.text)
    if frequencies.documents < len(pool):
        frequencies = _among(texts, asked)
    columns = {
        "fusion": np.array([entry.rrf for entry in pool]) / (fusion_ceiling or 1.0),
        "bm25": Bm25(asked, frequencies).scores(texts, (adjacent[-1], adjacent[1])),
        "speaker": _speakers(query.text, hits, turns),
        "date": _closeness(query, hits),
        "length": np.minimum(1.0, np.array([len(hit.text) for hit in hits]) / FULL_LENGTH_CHARS),
        "graph": np.where(turns, nan, [_graph(entry) for entry in pool]),
        "dense": np.array([likeness.dense.get(text, nan) for text in said]).clip(0.0),
    }
    if likeness.matches:
        columns |= _late_interaction(said, adjacent, turns, frequencies, likeness)
    columns["similarity"] = np.where(turns, nan, _similarity(columns.get("maxsim"), columns["dense"], among))
    return SignalTable(len(pool), columns)


def _among(texts: Sequence[Counted], asked: Sequence[str]) -> Frequencies:
    """Of these texts themselves, how many have each term."""
    length = sum(text.length for text in texts) / len(texts)
    counts = {term: sum(term in text.counts for text in texts) for term in set(asked)}
    return Frequencies(len(texts), length, counts)


def _late_interaction(
    said: Sequence[str],
    adjacent: Mapping[int, Sequence[int | None]],
    turns: NDArray[np.bool_],
    frequencies: Frequencies,
    likeness: Likeness,
) -> dict[str, Column]:
    """maxsim of each memory that the model saw, window3 and window5 where it is a turn."""
    import numpy as np

    weights = np.array(token_weights(likeness.words, frequencies), dtype=np.float32)
    weights /= weights.sum()
    unseen = np.zeros(len(weights), dtype=np.float32)
    matches = np.concatenate([likeness.matches.get(text, unseen) for text in said]).reshape(len(said), -1)

    def widened(narrower: NDArray[np.float32], *offsets: int) -> NDArray[np.float32]:
        wider = narrower.copy()
        for offset in offsets:
            here, there = pairs(adjacent[offset])
            wider[here] = np.maximum(wider[here], matches[there])
        return wider

    def column(best: NDArray[np.float32], where: NDArray[np.bool_]) -> Column:
        return np.where(where, (best @ weights).clip(0.0).astype(np.float64), nan)

    seen = np.array([text in likeness.matches for text in said])
    window3 = widened(matches, -1, 1)
    return {
        "maxsim": column(matches, seen),
        "window3": column(window3, seen & turns),
        "window5": column(widened(window3, -2, 2), seen & turns),
    }


def _similarity(maxsim: Column | None, dense: Column, among: NDArray[np.bool_]) -> Column:
    """What there is of the two; of both the mean, and among others MaxSim."""
    import numpy as np

    if maxsim is None:
        return dense
    mean = np.where(np.isnan(dense) | among, maxsim, (maxsim + dense) / 2)
    return np.where(np.isnan(maxsim), dense, mean)


def scores(table: SignalTable, weights: Mapping[str, float]) -> Column:
    """The local score of each memory, 0 to 1: the weighted mean of the signals that are there."""
    import numpy as np

    total, best = np.zeros(table.size), np.zeros(table.size)
    for name, weight in weights.items():
        values = table.column(name)
        there = ~np.isnan(values)
        best += weight * there
        total += weight * np.where(there, values, 0.0)
    return np.divide(total, best, out=np.zeros(table.size), where=best > 0)


def graph_boosted(means: Column, table: SignalTable, graph_boost: float) -> Column:
    """Means with what the graph says added, 0 to 1: 1 - (1 - mean)(1 - lift · linked), as two independent reasons to
    show a memory are (noisy-or: J. Pearl, "Probabilistic Reasoning in Intelligent Systems", 1988). It never lowers."""
    import numpy as np

    linked = np.nan_to_num(table.column("graph"))
    return 1 - (1 - means) * (1 - graph_boost * linked)


def complete(table: SignalTable, wanted: frozenset[str]) -> NDArray[np.bool_]:
    """Whether every signal that a recipe wants is there, as far as a memory can have it."""
    import numpy as np

    met = np.ones(table.size, dtype=np.bool_)
    for name in wanted - ALTERNATIVES:
        met &= ~np.isnan(table.column(name))
    if wanted & ALTERNATIVES:
        met &= ~np.isnan([table.column(name) for name in ALTERNATIVES]).all(axis=0)
    return met


def document_of(hit: Hit) -> tuple[object, ...] | None:
    """What groups memories that stand beside each other."""
    if hit.place is None:
        return None
    return (hit.scope.tenant, hit.scope.user_id, hit.place.document, hit.place.unit, hit.stated_by)


def _is_turn(hit: Hit) -> bool:
    return hit.place is not None and hit.place.unit == "turn"


NO_NEIGHBOURS = (None,) * len(NEIGHBOUR_OFFSETS)
"""what stands beside a memory that stands alone"""


def adjacent_positions(pool: Sequence[Pooled]) -> dict[int, list[int | None]]:
    """By offset, and for each memory, where in the pool the one stands that is so many places on in its document."""
    shelves: dict[object, list[tuple[int, str, int]]] = defaultdict(list)
    for i, entry in enumerate(pool):
        hit = entry.candidate.hit
        if hit.place is not None:
            shelves[document_of(hit)].append((hit.place.start, entry.candidate.ref, i))
    found: dict[int, list[int | None]] = {offset: [None] * len(pool) for offset in NEIGHBOUR_OFFSETS}
    for shelf in shelves.values():
        if len(shelf) == 1:
            continue
        shelf.sort()
        turns = _is_turn(pool[shelf[0][-1]].candidate.hit)
        # Turns are numbered one by one, so a gap shows; chunks are not, so the next in the pool will do.
        places = [(start if turns else n, i) for n, (start, _, i) in enumerate(shelf)]
        standing = dict(reversed(places))  # of two in one place the first
        for offset, others in found.items():
            for here, i in places:
                others[i] = standing.get(here + offset)
    return found


_WORD = re.compile(r"\w+")


def _speakers(text: str, hits: Sequence[Hit], turns: NDArray[np.bool_]) -> Column:
    """A speaker counts where the talk that was captured around a turn bears it out; else anybody could claim a name."""
    import numpy as np

    known = [
        hit.speaker if turn and not hit.external and hit.trust != "untrusted" and hit.origin != "tool" else None
        for hit, turn in zip(hits, turns.tolist(), strict=True)
    ]
    names = _names(text, {speaker for speaker in known if speaker})
    if not names:
        return np.full(len(hits), 0.5)
    return np.array([0.5 if speaker is None else 1.0 if speaker in names else 0.0 for speaker in known])


def _names(text: str, speakers: Collection[str]) -> frozenset[str]:
    """The speakers that the query names, by any part of their name of three letters or more."""
    asked = set(_WORD.findall(normalise(text)))
    return frozenset(
        s for s in speakers if any(len(part) > 2 and part in asked for part in _WORD.findall(normalise(s)))
    )


def _closeness(query: Query, hits: Sequence[Hit]) -> Column:
    import numpy as np

    asked_for = dates(query.text, query.now)
    return np.array([asked_for.closeness(hit.at) for hit in hits]) if asked_for else np.zeros(len(hits))


def _graph(entry: Pooled) -> float:
    ways = [source_hit.graph_score for source_hit in entry.candidate.source_hits if source_hit.graph_score]
    return min(1.0, max(ways)) if ways else nan
