"""Ranking of the pool: a local score for each memory, then a language model's score of 0 to 10 for the head.

The judge sees and reorders only the head of the local order, and the local score keeps a share there. Both limit what
a passage that fools the judge can gain. If the judge fails, the local order is final.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from itertools import count
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from fusion.contract import Hit, Passage, Verdict, document_of
from fusion.lib.budget import clip
from fusion.lib.words import spoken
from fusion.recall.expand import Pooled
from fusion.recall.mask import shown
from fusion.recall.query_dates import Dates
from fusion.recall.rank_features import in_context
from fusion.recall.second_hop import named_by_best
from fusion.recall.several import asks_for_several
from fusion.recall.signals import Signals, SignalTable, boosted, complete, multiplied, penalised, scores
from fusion.recipe import RerankSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NEIGHBOUR_CHARS = 300
"""characters of each neighbour in a passage for the judge: enough for context, too few to crowd out the memory"""
SPREAD_TOLERANCE = 1e-9
"""difference that makes the gate's bound inclusive in floating point: .90 - .75 is .15000000000000002"""


class Scored(NamedTuple):
    """A memory of the pool with its scores: ``local`` from 0 to 1, ``judge`` from 0 to 10 or None.

    Its signals are a ``row`` of the table. ``complete`` is False when a signal of the recipe is missing: the mean of
    the others is on another scale, so floors do not apply to it. Nor do they if it is ``asked_for`` by its time alone.
    ``ordered_only`` says that the judge's score compares and nothing else, so it neither keeps nor leaves out a memory.
    """

    pooled: Pooled
    table: SignalTable
    row: int
    local: float
    judge: float | None = None
    complete: bool = True
    asked_for: bool = False
    ordered_only: bool = False
    probability: float | None = None
    """that it helps (`fusion.recall.calibration`); None without a calibration"""

    @property
    def decided_by_judge(self) -> bool:
        """Whether the judge's score decides if the memory is shown."""
        return self.judge is not None and not self.ordered_only

    def is_below(self, numbers: RerankSettings) -> bool:
        """Whether the floors of the recipe leave it out."""
        if self.asked_for:
            return False
        if self.probability is not None and numbers.floor_probability:
            return self.probability < numbers.floor_probability
        return self.complete and self.local < numbers.floor

    def with_probability(self, probability: float) -> Scored:
        """A copy with this probability, made in half the time that `_replace` takes."""
        return Scored(*self[:-1], probability)

    @property
    def ref(self) -> str:
        return self.pooled.candidate.ref

    @property
    def signals(self) -> Signals:
        return self.table.row(self.row)


def by_local_score(
    pool: Sequence[Pooled], table: SignalTable, numbers: RerankSettings, question: str = ""
) -> tuple[Scored, ...]:
    """The pool by local score, best first; ties go to the higher RRF score, then to the smaller ref."""
    wanted = frozenset(name for name, weight in numbers.signals.items() if weight)
    if numbers.model is None:
        means = boosted(scores(table, _weights(table, numbers, question)), table, "graph", numbers.graph_boost)
        means = boosted(means, table, "project", numbers.project_boost)
        means = boosted(means, table, "episode", numbers.episode_boost)
        if numbers.named_boost and pool:
            table, means = _with_second_hop(question, pool, table, means, numbers.named_boost)
        means = penalised(means, table, numbers.penalties)
        local = multiplied(means, table, numbers.factors).tolist()
    else:
        table = in_context(pool, table, numbers.signals)
        trees = numbers.model.trees
        local = trees.shares(table.rows()) if trees is not None else table.column("mean").tolist()
    every = zip(pool, count(), local, complete(table, wanted).tolist(), strict=False)
    return tuple(sorted((Scored(p, table, i, mean, None, there) for p, i, mean, there in every), key=_rank_key))


def _with_second_hop(
    question: str, pool: Sequence[Pooled], table: SignalTable, means: NDArray[np.float64], boost: float
) -> tuple[SignalTable, NDArray[np.float64]]:
    """The table with the signal ``named``, and the means with its boost: each memory stays below what names it."""
    import numpy as np

    named = named_by_best(question, pool, means)
    if not named.strengths.any():
        return table, means
    table = SignalTable(table.size, {**table.columns, "named": named.strengths})
    ceiling = np.nextafter(named.by, 0.0)
    return table, np.maximum(means, np.minimum(boosted(means, table, "named", boost), ceiling))


def _weights(table: SignalTable, numbers: RerankSettings, question: str) -> Mapping[str, float]:
    """The weights of the signals; the speaker's is higher if the question asks for several things of one."""
    more = numbers.speaker_of_several
    if not more or not (table.column("speaker") == 1).any() or not asks_for_several(question):
        return numbers.signals
    return {**numbers.signals, "speaker": numbers.signals.get("speaker", 0.0) + more}


def by_best_sub_question(orders: Sequence[tuple[Scored, ...]], numbers: RerankSettings) -> tuple[Scored, ...]:
    """Merges the orders for each sub-question into one: each memory gets its best score of them.

    Scores are scaled so that each sub-question's best memory scores as high as the best of all, and no sub-question
    takes the whole block. A sub-question whose best memory is below `abstain` has no answer and is not scaled.
    """
    if not all(orders):
        return ()
    best = max(order[0].local for order in orders)
    found: dict[str, Scored] = {}
    for order in orders:
        head = order[0]
        answers = head.local > 0 and (head.local >= numbers.abstain or not head.complete)
        scale = best / head.local if answers else 1.0
        for scored in order:
            scaled = scored._replace(local=scored.local * scale)
            key = scored.pooled.key
            if key not in found or found[key].local < scaled.local:
                found[key] = scaled
    return tuple(sorted(found.values(), key=_rank_key))


def nothing_fits(order: Sequence[Scored], numbers: RerankSettings) -> bool:
    """Whether the block stays empty: probably neither of the best two memories helps.

    Where a memory has no probability, or the recipe none to compare with, it does if the best score is below `abstain`;
    so it is with a single memory, which has no other to be compared with. A memory that was asked for by its time is
    reason enough for a block, and so is one that a judge decided on where probabilities decide.
    """
    if any(scored.asked_for for scored in order):
        return False
    found = sorted((scored.probability for scored in order if scored.probability is not None), reverse=True)
    if len(found) < max(2, len(order)) or not numbers.abstain_probability:
        best = max((scored.local for scored in order), default=0.0)
        return best < numbers.abstain and all(scored.complete for scored in order)
    if any(scored.decided_by_judge for scored in order):
        return False
    return 1 - prod(1 - probability for probability in found[:2]) < numbers.abstain_probability


def of_that_time(order: Sequence[Scored], named: Dates) -> Sequence[Scored]:
    """What is of the times that a query names, for one that asks for nothing else; all if nothing is of that time."""
    found = [one._replace(asked_for=True) for one in order if named.asks_for(one.pooled.candidate.hit)]
    return found or order


def signals_of(order: Sequence[Scored], names: Collection[str] | None = None) -> SignalTable:
    """The signal table of these memories, in their order; with ``names`` it has these signals alone."""
    import numpy as np

    tables = {scored.table for scored in order}  # tables compare by identity
    if len(tables) == 1:
        (table,) = tables
        rows = np.array([scored.row for scored in order], dtype=np.intp)
        wanted = (name for name in table.columns if names is None or name in names)
        return SignalTable(len(rows), {name: table.columns[name][rows] for name in wanted})
    return SignalTable.of([scored.signals for scored in order])


def _rank_key(scored: Scored) -> tuple[float, float, str]:
    return -scored.local, -scored.pooled.rrf, scored.pooled.candidate.ref


def wants_judge(order: Sequence[Scored], numbers: RerankSettings) -> bool:
    """Whether to ask the judge. The gate asks when the best local scores are within `gate_spread` (seed 000)."""
    if numbers.judge != "gate":
        return numbers.judge == "always" and bool(order)
    top = [scored.local for scored in order[: numbers.gate_top]]
    return len(top) >= numbers.gate_top and max(top) - min(top) <= numbers.gate_spread + SPREAD_TOLERANCE


def passages(order: Sequence[Scored], numbers: RerankSettings) -> dict[str, Passage]:
    """The head as the judge sees it, by key: each short turn between its neighbours, under a random id."""
    turns: dict[tuple[object, ...], dict[int, Hit]] = {}
    for scored in order:
        hit = scored.pooled.candidate.hit
        document = document_of(hit) if scored.pooled.passage is None else None
        if document is not None and hit.place is not None and hit.place.unit == "turn":
            turns.setdefault(document, {})[hit.place.start] = hit
    found = {}
    for scored in order[: numbers.head]:
        hit = scored.pooled.candidate.hit
        text = _said(hit)
        document = document_of(hit) if scored.pooled.passage is None else None
        if document is not None and hit.place is not None and hit.place.unit == "turn":
            neighbours = (turns[document].get(hit.place.start + step) for step in (-1, 1))
            before, after = (clip(_said(h), NEIGHBOUR_CHARS) if h is not None else "" for h in neighbours)
            text = "\n".join(line for line in (before, text, after) if line)
        when = f"({hit.at.utc:%Y-%m-%d}) " if hit.at else ""
        found[scored.pooled.key] = Passage(secrets.token_hex(4), when + text)
    return found


def _said(hit: Hit) -> str:
    hit = shown(hit)
    return spoken(hit.text, hit.speaker)


def by_verdict(
    order: Sequence[Scored], passages_by_key: Mapping[str, Passage], verdict: Verdict, numbers: RerankSettings
) -> tuple[Scored, ...]:
    """Reorders the head by ``verdict``; the result is a permutation of ``order``.

    Memories that the judge scored come first, by judge_weight · judge/10 + (1 - judge_weight) · local. The rest of the
    head follows in local order, then the tail.
    """
    if not verdict.scores:
        return tuple(order)
    head = [
        scored._replace(
            judge=verdict.scores.get(passages_by_key[scored.pooled.key].id), ordered_only=verdict.orders_only
        )
        for scored in order[: numbers.head]
    ]
    judged = [scored for scored in head if scored.judge is not None]
    unjudged = [scored for scored in head if scored.judge is None]
    weight = numbers.judge_weight
    judged.sort(key=lambda scored: -(weight * (scored.judge or 0.0) / 10 + (1 - weight) * scored.local))
    return (*judged, *unjudged, *order[numbers.head :])
