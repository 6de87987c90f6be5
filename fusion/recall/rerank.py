"""Pool → Judged: local signals for all of it, then a judge's 0 to 10 for the head.

The judge sees and moves only the head of the local order, and nothing from outside can enter it: that, and the share
that the local score keeps, bound what a passage that fools the judge can gain. On any fault the local order stands.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from itertools import count
from typing import NamedTuple

from fusion.contract import Hit, Passage, Verdict
from fusion.lib.budget import clip
from fusion.lib.words import spoken
from fusion.recall.expand import Pooled
from fusion.recall.mask import shown
from fusion.recall.rank_features import in_context
from fusion.recall.signals import Signals, Table, document_of, lifted, scores, whole
from fusion.recipe import RerankSettings

BESIDE_CHARS = 300
"""of each neighbour that a judge is shown: enough for what is meant, too little to crowd out the memory itself"""


class Scored(NamedTuple):
    """A memory with everything that was found out about it. ``local`` is 0 to 1, ``judge`` 0 to 10 or None.

    Its signals are a ``row`` of the table. ``whole`` says whether every signal of the recipe was there: a mean over a
    part of them is on another scale, so that floors do not hold for it.
    """

    pooled: Pooled
    table: Table
    row: int
    local: float
    judge: float | None = None
    whole: bool = True

    @property
    def ref(self) -> str:
        return self.pooled.candidate.ref

    @property
    def signals(self) -> Signals:
        return self.table.row(self.row)


def by_local_score(pool: Sequence[Pooled], table: Table, numbers: RerankSettings) -> tuple[Scored, ...]:
    """The pool in the local order, best first; ties go to the better fused, then to the smaller ref."""
    wanted = frozenset(name for name, weight in numbers.signals.items() if weight)
    if numbers.model is None:
        local = lifted(scores(table, numbers.signals), table, numbers.lift).tolist()
    else:
        table = in_context(pool, table, numbers.signals)
        trees = numbers.model.trees
        local = trees.shares(table.rows()) if trees is not None else table.column("mean").tolist()
    every = zip(pool, count(), local, whole(table, wanted).tolist(), strict=False)
    return tuple(sorted((Scored(p, table, i, mean, None, there) for p, i, mean, there in every), key=_place))


def by_best_part(orders: Sequence[tuple[Scored, ...]], numbers: RerankSettings) -> tuple[Scored, ...]:
    """One order of the pool, of the orders for each part of a query: a memory stands where it answers best.

    The best for each part counts as much as the best of all, so that none has the block to itself; but what is under
    the floor answers nothing, and is lifted to no answer's height.
    """
    if not all(orders):
        return ()
    best = max(order[0].local for order in orders)
    found: dict[str, Scored] = {}
    for order in orders:
        head = order[0]
        answers = head.local > 0 and (head.local >= numbers.abstain or not head.whole)
        scale = best / head.local if answers else 1.0
        for judged in order:
            scaled = judged._replace(local=judged.local * scale)
            if judged.ref not in found or found[judged.ref].local < scaled.local:
                found[judged.ref] = scaled
    return tuple(sorted(found.values(), key=_place))


def signals_of(order: Sequence[Scored]) -> Table:
    """The signals of an order's memories, in that order."""
    tables = {judged.table for judged in order}  # a table is itself alone
    if len(tables) == 1:
        (table,) = tables
        rows = [judged.row for judged in order]
        return Table(len(rows), {name: column[rows] for name, column in table.columns.items()})
    return Table.of([judged.signals for judged in order])


def _place(judged: Scored) -> tuple[float, float, str]:
    return -judged.local, -judged.pooled.rrf, judged.pooled.candidate.ref


def wants_judge(order: Sequence[Scored], numbers: RerankSettings) -> bool:
    """Whether the recipe asks the judge about this order (the gate is seed 000's: A023)."""
    if numbers.judge != "gate":
        return numbers.judge == "always" and bool(order)
    top = [j.local for j in order[: numbers.gate_top]]
    return len(top) >= numbers.gate_top and max(top) - min(top) <= numbers.gate_spread


def passages(order: Sequence[Scored], numbers: RerankSettings) -> dict[str, Passage]:
    """By ref, the head as the judge sees it: each memory between its neighbours, under an id that says nothing."""
    shelves: dict[tuple[object, ...], dict[int, Hit]] = {}
    for judged in order:
        hit = judged.pooled.candidate.hit
        document = document_of(hit)
        if document is not None and hit.place is not None and hit.place.unit == "turn":
            shelves.setdefault(document, {})[hit.place.start] = hit
    found = {}
    for judged in order[: numbers.head]:
        hit = judged.pooled.candidate.hit
        text = _said(hit)
        document = document_of(hit)
        if document is not None and hit.place is not None and hit.place.unit == "turn":
            shelf = shelves[document]
            beside = (shelf.get(hit.place.start + step) for step in (-1, 1))
            before, after = (clip(_said(h), BESIDE_CHARS) if h is not None else "" for h in beside)
            text = "\n".join(line for line in (before, text, after) if line)
        when = f"({hit.at.utc:%Y-%m-%d}) " if hit.at else ""
        found[judged.ref] = Passage(secrets.token_hex(4), when + text)
    return found


def _said(hit: Hit) -> str:
    hit = shown(hit)
    return spoken(hit.text, hit.speaker)


def by_verdict(
    order: Sequence[Scored], shown: Mapping[str, Passage], verdict: Verdict, numbers: RerankSettings
) -> tuple[Scored, ...]:
    """The order with its head rearranged by ``verdict``; always a permutation of ``order``.

    Scored memories come first, by judge_weight · judge/10 + (1 - judge_weight) · local; those that the judge left out
    follow in their local order; the tail is as it was.
    """
    if not verdict.scores:
        return tuple(order)
    head = [j._replace(judge=verdict.scores.get(shown[j.ref].id)) for j in order[: numbers.head]]
    scored = [j for j in head if j.judge is not None]
    unscored = [j for j in head if j.judge is None]
    weight = numbers.judge_weight
    scored.sort(key=lambda j: -(weight * (j.judge or 0.0) / 10 + (1 - weight) * j.local))
    return (*scored, *unscored, *order[numbers.head :])
