"""The fusion over scattered stores, measured beside each store alone, all but one, and one that holds everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks import recordings
from benchmarks.arms import Arm, parts, wholes
from benchmarks.datasets import Corpus
from benchmarks.fill_stores import scattered
from benchmarks.measure_corpus import Told, recording
from benchmarks.metrics import mean
from benchmarks.options import Run
from benchmarks.progress import Advance
from benchmarks.recordings import BUDGETS
from benchmarks.scatter import held_alone
from benchmarks.scored_rows import Row
from benchmarks.shapley import loss_beyond_own


def tell(corpus: Corpus, options: Run, arms: Sequence[Arm], advance: Advance) -> Told:
    """The fusion over scattered stores, beside each store alone, all but one, and one store that holds everything.

    All of it is replayed from two recordings: of the scattered stores, and of stores that have everything each.
    """
    one, fresh = recording(corpus, options, arms, advance)
    whole, _ = recording(corpus, replace(options, scattered=False), arms, advance)
    asked = replace(as_scattered(corpus), questions=tuple(corpus.asked(options.limit)))
    scored = replace(asked, questions=tuple(q for q in asked.questions if q.answerable))

    replayed = partial(recordings.replay, dataset=options.setup, advance=advance)
    rows = replayed([one], [asked], arms)
    rows += replayed([one], [scored], parts(arms[0], options.backends), budgets=BUDGETS[:1])
    rows += replayed([whole], [scored], wholes(arms[0], options.backends), budgets=BUDGETS[:1])
    copies = scattered(corpus, options.backends, options.seed)
    return Told(
        tuple(rows),
        fresh.copies if fresh else 0,
        fresh.seconds if fresh else None,
        held_alone(copies, by_document=corpus.match == "document"),
        (one.made.get("commit"), whole.made.get("commit")),
    )


def as_scattered(corpus: Corpus) -> Corpus:
    """The corpus, where an edited copy of a memory is that memory, too."""
    return corpus if corpus.match == "document" else replace(corpus, match="item")


def figures(options: Run, told: Sequence[Told], main: Sequence[Row]) -> dict[str, Any]:
    rows = {name: _of(told, name) for name in {row.arm for t in told for row in t.rows}}
    eib = {name: mean(row.eib for row in found.values() if row.eib is not None) or 0.0 for name, found in rows.items()}
    single = {name: eib[f"only {name}"] for name in options.backends}
    one = {name: eib[f"all in {name}"] for name in options.backends}
    full = {row.key: row for row in main if row.budget == BUDGETS[0] and row.eib is not None}
    alone = {t.rows[0].corpus: t.alone for t in told}
    held = [alone[row.corpus].get(g) for row in full.values() for g in row.gold]
    best = max(single.values())
    fused = mean(row.eib for row in full.values() if row.eib is not None) or 0.0
    beyond = {name: _beyond_own(name, full, rows[f"without {name}"], alone) for name in options.backends}
    return {
        "one_store_eib_frac": max(one.values()),
        "best_single_eib_frac": best,
        "over_best_single": round(fused / best, 3) if best else None,
        "eib_frac_of_one": single,
        "eib_frac_of_one_with_everything": one,
        "eib_one_down": {name: eib[f"without {name}"] for name in options.backends},
        "gold_held_by_one_alone": {name: round(held.count(name) / len(held), 4) for name in options.backends},
        "one_down_loss_beyond_own": max(beyond.values()),
        "one_down_loss_beyond_own_of": beyond,
        "told_twice": sum(
            len(ids) - len(set(ids)) for ids in ([i for m in r.members for i in m] for r in full.values())
        ),
    }


def _of(told: Sequence[Told], arm: str) -> dict[tuple[str, int], Row]:
    return {row.key: row for t in told for row in t.rows if row.arm == arm and row.budget == BUDGETS[0]}


def _beyond_own(
    name: str,
    full: Mapping[tuple[str, int], Row],
    without: Mapping[tuple[str, int], Row],
    alone: Mapping[str, Mapping[str, str]],
) -> float:
    """What is lost with one store down beside what it alone held; an item is named with its corpus."""
    own = {f"{corpus}\0{item}" for corpus, held in alone.items() for item, store in held.items() if store == name}
    gold = [([f"{row.corpus}\0{g}" for g in row.gold], row.found, without[key].found) for key, row in full.items()]
    return round(loss_beyond_own(gold, own), 4)
