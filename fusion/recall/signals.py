"""The signals of each memory in the pool and the local score over them. Each signal is from 0 to 1.

| signal     | meaning |
|------------|---------|
| fusion     | the RRF score as a share of the highest possible one: first place in every backend that answered |
| bm25       | BM25 of the query in the memory and its two neighbours, as a share of the highest possible score |
| dense      | cosine of query and memory |
| maxsim     | IDF-weighted MaxSim of the query's tokens in the memory |
| window3    | MaxSim of a turn of a conversation; a token may also match in the turn before or after |
| window5    | the same with two turns before and after: a reply matches by its question's words |
| similarity | of a memory that is no turn next to others, and of a turn between two long ones: the mean of MaxSim   |
|            | and cosine; of a section of a document MaxSim alone, since it is longer than what the model encodes |
| speaker    | 1 for a turn of a speaker that the query names, 0 for another's turn in that case, else ½; ½ as well |
|            | for a memory without neighbours, and for one that only a backend vouches for |
| role       | of a talk between a person and an assistant, 1 for what the person said and 0 for what the       |
|            | assistant said; absent for all others                                                           |
| date       | closeness to the dates that the query names (`fusion.recall.query_dates`); 0 if it names none |
| length     | the text's length as a share of `FULL_LENGTH_CHARS`, at most 1; absent for a passage of a turn and  |
|            | for a turn between two long ones: how much a person writes to an assistant says nothing |
| graph      | how strongly a backend's graph leads from the query to the memory, the highest of all backends; absent |
|            | for turns among others: turns of one conversation name the same people, which links all of them |

| project    | 1 for a memory of the project that the question names, else 0; absent if it names none |
| episode    | 1 for an episode and a daily note of a time that the query names, and for every memory of that time |
|            | if the query names nothing else; absent for all others |
| named      | how strongly the three best memories name the memory's title (`fusion.recall.second_hop`); set after   |
|            | these were scored, if they name any                                                              |
| reach      | ``graph``, but 0 where it is absent: seed 000's graph proximity; computed if a recipe weighs it |
| cosine     | ``dense``, but ``fusion`` where it is absent: seed 000's similarity; computed if a recipe weighs it |
| by_words   | 1 for a memory that has no token vectors yet: its words stand in for them; absent for all others. |
|            | It has no weight; floors do not apply to such a memory |

`fusion.recall.standing` has further signals, of what a memory is regardless of the question's words.

A signal that is not available (no model, no time to encode) is absent, and the others carry the weight. ``graph``,
``project``, ``episode`` and ``named`` have no weight: what they lead to need not resemble the query, so they raise the
mean instead.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from typing import TYPE_CHECKING

from fusion.contract import Hit, Query, document_of
from fusion.lib.bm25 import Bm25, Counted, Frequencies, pairs, terms
from fusion.lib.in_context import in_context
from fusion.lib.text_words import text_words
from fusion.lib.words import normalise, spoken
from fusion.recall.expand import Pooled
from fusion.recall.maxsim import matches_by_words, token_weights
from fusion.recall.query_dates import Dates, dates, time_of
from fusion.recall.standing import STANDING_SIGNALS, Standing, standing_signals

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.float64]

SIGNALS = (
    *("fusion", "bm25", "dense", "maxsim", "window3", "window5", "similarity", "speaker", "role", "date", "length"),
    *("reach", "cosine", *STANDING_SIGNALS),
)
ALTERNATIVES = frozenset({"window3", "window5", "similarity"})
"""a memory has the windows or the similarity, never all three"""
OF_SOME = frozenset({"role", "length"})
"""signals that a sort of memory does not have"""
NEIGHBOUR_OFFSETS = (-2, -1, 1, 2)
"""distances to the neighbours that are looked at, in positions of the document"""
FULL_LENGTH_CHARS = 300
ROLES = {"user": 1.0, "human": 1.0, "assistant": 0.0, "ai": 0.0}
"""speakers that are roles, with the signal ``role``"""

Signals = Mapping[str, float]


@dataclass(frozen=True)
class Likeness:
    """What the embedding model says of a query and of texts.

    ``words``: for each query token the word that it is part of. ``matches``: by text, each query token's best cosine
    in it (shape: query tokens). ``dense``: by text, the cosine with the query. The ``pending`` texts have no token
    vectors yet, and are in neither.
    """

    words: tuple[str, ...] = ()
    matches: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    dense: Mapping[str, float] = field(default_factory=dict)
    pending: frozenset[str] = frozenset()
    model: str = ""
    """the identity of the embedder"""
    second: str = ""
    """the identity of the second encoder, if it says so"""


@dataclass(frozen=True, slots=True, eq=False)
class SignalTable:
    """A column per signal and a row per memory of the pool, in its order; NaN where a memory lacks the signal."""

    size: int
    columns: Mapping[str, Column]

    @classmethod
    def of(cls, rows: Sequence[Signals]) -> SignalTable:
        """A table of these rows; a row has the signals of one memory."""
        import numpy as np

        names = dict.fromkeys(name for row in rows for name in row)
        return cls(len(rows), {name: np.array([row.get(name, nan) for row in rows]) for name in names})

    def column(self, name: str) -> Column:
        """One signal of each memory; all NaN if no memory has it."""
        import numpy as np

        found = self.columns.get(name)
        return np.full(self.size, nan) if found is None else found

    def row(self, i: int) -> dict[str, float]:
        """The signals of one memory, without absent ones."""
        return {name: value for name, column in self.columns.items() if not isnan(value := float(column[i]))}

    def rows(self) -> list[dict[str, float]]:
        return [self.row(i) for i in range(self.size)]


def local_signals(
    query: Query,
    pool: Sequence[Pooled],
    fusion_ceiling: float,
    frequencies: Frequencies,
    likeness: Likeness,
    standings: Mapping[str, Standing] | None = None,
    wanted: Collection[str] = (),
    named: Dates | None = None,
) -> SignalTable:
    """The signals of each memory of ``pool``, in its order. ``likeness`` is by the memory's text with its speaker.

    ``named`` are the dates of the query, if its words alone do not say them.

    ``wanted`` are the signals of `fusion.recall.standing` that the recipe weighs, and ``standings`` are by ref.

    Where ``frequencies`` count fewer documents than the pool has (external memories are not in the journal), the
    pool's own frequencies are used.
    """
    if not pool:
        return SignalTable(0, {})
    import numpy as np

    hits = [entry.candidate.hit for entry in pool]
    said = [spoken(hit.text, hit.speaker) for hit in hits]
    texts = [text_words(text).terms for text in said]
    adjacent = adjacent_positions(pool)
    among = np.array([others != NO_NEIGHBOURS for others in zip(*adjacent.values(), strict=True)])
    said_in_talk = np.array([_is_turn(hit) for hit in hits])
    speakers = _captured_speakers(hits, said_in_talk)
    turns = among & said_in_talk & ~_between_long_turns(pool, adjacent)
    in_talk = said_in_talk & (among | np.array([entry.passage is not None for entry in pool]))
    asked = terms(query.text)
    named = dates(query.text, query.now, query.zone) if named is None else named
    if frequencies.documents < len(pool):
        frequencies = pool_frequencies(texts, asked)
    columns = {
        "fusion": np.array([entry.rrf for entry in pool]) / (fusion_ceiling or 1.0),
        "bm25": Bm25(asked, frequencies).scores(texts, (adjacent[-1], adjacent[1])),
        "speaker": _speakers(query.text, [one if here else None for one, here in zip(speakers, in_talk, strict=True)]),
        "date": _closeness(named, hits),
        "length": np.where(in_talk & ~turns, nan, _lengths(hits)),
        "graph": np.where(in_talk, nan, [_graph(entry) for entry in pool]),
        "dense": np.array([likeness.dense.get(text, nan) for text in said]).clip(0.0),
    }
    if not np.isnan(roles := _roles(speakers)).all():
        columns["role"] = roles
    if likeness.words and (likeness.matches or likeness.pending):
        columns |= _late_interaction(said, texts, adjacent, turns, frequencies, likeness)
    if likeness.pending:
        columns["by_words"] = np.where([text in likeness.pending for text in said], 1.0, nan)
    if named.windows and any(then := [named.asks_for(hit) for hit in hits]):
        columns["episode"] = np.where(then, 1.0, nan)
    sections = among & ~said_in_talk
    columns["similarity"] = np.where(turns, nan, _similarity(columns.get("maxsim"), columns["dense"], sections))
    if query.scope.project is not None:
        columns["project"] = np.array([float(hit.scope.project == query.scope.project) for hit in hits])
    if "reach" in wanted:
        columns["reach"] = np.nan_to_num(np.array([_graph(entry) for entry in pool]))
    if "cosine" in wanted:
        columns["cosine"] = np.where(np.isnan(columns["dense"]), columns["fusion"], columns["dense"])
    columns |= standing_signals(query, pool, standings or {}, wanted)
    return SignalTable(len(pool), columns)


def pool_frequencies(texts: Sequence[Counted], asked: Sequence[str]) -> Frequencies:
    """The document frequency of each term among these texts."""
    length = sum(text.length for text in texts) / len(texts)
    counts = {term: sum(term in text.counts for text in texts) for term in set(asked)}
    return Frequencies(len(texts), length, counts)


def _late_interaction(
    said: Sequence[str],
    texts: Sequence[Counted],
    adjacent: Mapping[int, Sequence[int | None]],
    turns: NDArray[np.bool_],
    frequencies: Frequencies,
    likeness: Likeness,
) -> dict[str, Column]:
    """maxsim of each memory, and window3 and window5 of each turn; a pending text matches by its words."""
    import numpy as np

    found = dict(likeness.matches)
    if likeness.pending:
        by_words = matches_by_words(likeness.words, [one.counts for one in texts])
        found = {t: m for t, m in zip(said, by_words, strict=True) if t in likeness.pending} | found

    weights = np.array(token_weights(likeness.words, frequencies), dtype=np.float32)
    weights /= weights.sum()
    unseen = np.zeros(len(weights), dtype=np.float32)
    matches = np.concatenate([found.get(text, unseen) for text in said]).reshape(len(said), -1)

    def widened(narrower: NDArray[np.float32], *offsets: int) -> NDArray[np.float32]:
        wider = narrower.copy()
        for offset in offsets:
            here, there = pairs(adjacent[offset])
            wider[here] = np.maximum(wider[here], matches[there])
        return wider

    def column(best: NDArray[np.float32], where: NDArray[np.bool_]) -> Column:
        return np.where(where, (best @ weights).clip(0.0).astype(np.float64), nan)

    seen = np.array([text in found for text in said])
    window3 = widened(matches, -1, 1)
    return {
        "maxsim": column(matches, seen),
        "window3": column(window3, seen & turns),
        "window5": column(widened(window3, -2, 2), seen & turns),
    }


def _similarity(maxsim: Column | None, dense: Column, sections: NDArray[np.bool_]) -> Column:
    """The mean where both exist; MaxSim alone for ``sections`` of documents; otherwise whichever exists."""
    import numpy as np

    if maxsim is None:
        return dense
    mean = np.where(np.isnan(dense) | sections, maxsim, (maxsim + dense) / 2)
    return np.where(np.isnan(maxsim), dense, mean)


def scores(table: SignalTable, weights: Mapping[str, float]) -> Column:
    """The weighted mean of each memory's signals, 0 to 1; absent signals have no weight."""
    import numpy as np

    total, best = np.zeros(table.size), np.zeros(table.size)
    for name, weight in weights.items():
        values = table.column(name)
        there = ~np.isnan(values)
        best += weight * there
        total += weight * np.where(there, values, 0.0)
    return np.divide(total, best, out=np.zeros(table.size), where=best > 0)


def boosted(means: Column, table: SignalTable, name: str, boost: float) -> Column:
    """Means raised by a signal, 0 to 1: 1 - (1 - mean)(1 - boost · signal).

    That is the noisy-or of two independent reasons to show a memory (J. Pearl, "Probabilistic Reasoning in Intelligent
    Systems", 1988). It never lowers a score.
    """
    import numpy as np

    if name not in table.columns:
        return means
    return 1 - (1 - means) * (1 - boost * np.nan_to_num(table.column(name)))


def multiplied(means: Column, table: SignalTable, factors: Sequence[str]) -> Column:
    """Means times each of these signals; one that a memory lacks counts 1."""
    import numpy as np

    for name in factors:
        means = means * np.nan_to_num(table.column(name), nan=1.0)
    return means


def penalised(means: Column, table: SignalTable, penalties: Mapping[str, float]) -> Column:
    """Means times each penalty to the extent of its signal: mean · (1 - (1 - penalty) · signal)."""
    import numpy as np

    for name, penalty in penalties.items():
        means = means * (1 - (1 - penalty) * np.nan_to_num(table.column(name)))
    return means


def complete(table: SignalTable, wanted: frozenset[str]) -> NDArray[np.bool_]:
    """Whether each memory has every wanted signal, as far as a memory of its sort can have it, and not by words."""
    import numpy as np

    met = np.isnan(table.column("by_words"))
    for name in wanted - ALTERNATIVES - OF_SOME:
        met &= ~np.isnan(table.column(name))
    if wanted & ALTERNATIVES:
        met &= ~np.isnan([table.column(name) for name in ALTERNATIVES]).all(axis=0)
    return met


def _is_turn(hit: Hit) -> bool:
    return hit.place is not None and hit.place.unit == "turn"


NO_NEIGHBOURS = (None,) * len(NEIGHBOUR_OFFSETS)
"""the neighbours of a memory that has none in the pool"""


def adjacent_positions(pool: Sequence[Pooled]) -> dict[int, list[int | None]]:
    """By offset, each memory's neighbour at that distance in its document, as an index into the pool, or None.

    A passage of a long memory has no neighbours and is none: it says enough by itself.
    """
    documents: dict[object, list[tuple[int, str, int]]] = defaultdict(list)
    for i, entry in enumerate(pool):
        hit = entry.candidate.hit
        if hit.place is not None and entry.passage is None:
            documents[document_of(hit)].append((hit.place.start, entry.candidate.ref, i))
    found: dict[int, list[int | None]] = {offset: [None] * len(pool) for offset in NEIGHBOUR_OFFSETS}
    for members in documents.values():
        if len(members) == 1:
            continue
        members.sort()
        turns = _is_turn(pool[members[0][-1]].candidate.hit)
        # Turns are numbered one by one, so gaps are known; of chunks the next one in the pool counts as the neighbour.
        places = [(start if turns else n, i) for n, (start, _, i) in enumerate(members)]
        at_place = dict(reversed(places))  # of two in one place the first
        for offset, others in found.items():
            for here, i in places:
                others[i] = at_place.get(here + offset)
    return found


def contexts_of(pool: Sequence[Pooled]) -> dict[str, str]:
    """By text with its speaker, each turn of a conversation together with the turns right before and after it.

    A turn that came as a neighbour alone has a context only if both are in the pool: others are not known to be none.
    """
    said = [spoken(entry.candidate.hit.text, entry.candidate.hit.speaker) for entry in pool]
    adjacent = adjacent_positions(pool)
    found: dict[str, str] = {}
    for entry, text, before, after in zip(pool, said, adjacent[-1], adjacent[1], strict=True):
        known = entry.neighbour_of is None and entry.rrf > 0
        if _is_turn(entry.candidate.hit) and (None not in (before, after) or (known and before != after)):
            around = ("" if i is None else said[i] for i in (before, after))
            found.setdefault(text, in_context(text, *around))
    return found


def _between_long_turns(pool: Sequence[Pooled], adjacent: Mapping[int, Sequence[int | None]]) -> NDArray[np.bool_]:
    """Whether each memory is next to a long turn and to no short one, as a prompt between an assistant's replies.

    It says enough by itself: the turns two places away are about something else.
    """
    import numpy as np

    hits = [entry.candidate.hit for entry in pool]
    long = {
        (document_of(hit), hit.place.start)
        for entry, hit in zip(pool, hits, strict=True)
        if entry.passage is not None and hit.place is not None
    }
    if not long:
        return np.zeros(len(pool), dtype=np.bool_)
    return np.array(
        [
            before is after is None
            and hit.place is not None
            and not long.isdisjoint((document_of(hit), hit.place.start + step) for step in (-1, 1))
            for hit, before, after in zip(hits, adjacent[-1], adjacent[1], strict=True)
        ]
    )


_WORD = re.compile(r"\w+")


def _speakers(text: str, known: Sequence[str | None]) -> Column:
    """The speaker signal. Only turns of a captured conversation count, since any other sender could claim a name."""
    import numpy as np

    names = _names(text, {speaker for speaker in known if speaker})
    if not names:
        return np.full(len(known), 0.5)
    return np.array([0.5 if speaker is None else 1.0 if speaker in names else 0.0 for speaker in known])


def _captured_speakers(hits: Sequence[Hit], turns: NDArray[np.bool_]) -> list[str | None]:
    """The speaker of each turn of a captured conversation, None for all other hits."""
    return [
        hit.speaker if turn and not hit.external and hit.trust != "untrusted" and hit.origin != "tool" else None
        for hit, turn in zip(hits, turns.tolist(), strict=True)
    ]


def _lengths(hits: Sequence[Hit]) -> Column:
    import numpy as np

    return np.minimum(1.0, np.array([len(hit.text) for hit in hits]) / FULL_LENGTH_CHARS)


def _roles(known: Sequence[str | None]) -> Column:
    import numpy as np

    roles = {speaker: ROLES.get((speaker or "").casefold(), nan) for speaker in {*known}}
    return np.array([roles[speaker] for speaker in known])


def _names(text: str, speakers: Collection[str]) -> frozenset[str]:
    """The speakers that the query names by any part of their name of three letters or more."""
    asked = set(_WORD.findall(normalise(text)))
    return frozenset(
        s for s in speakers if any(len(part) > 2 and part in asked for part in _WORD.findall(normalise(s)))
    )


def _closeness(asked_for: Dates, hits: Sequence[Hit]) -> Column:
    import numpy as np

    return np.array([asked_for.closeness(time_of(hit)) for hit in hits]) if asked_for else np.zeros(len(hits))


def _graph(entry: Pooled) -> float:
    strengths = [source_hit.graph_score for source_hit in entry.candidate.source_hits if source_hit.graph_score]
    return min(1.0, max(strengths)) if strengths else nan
