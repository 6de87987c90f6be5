"""Compares the fusion over scattered stores with each store alone, all but one, and one that holds everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks import replay
from benchmarks.arms import Arm, full_store_arms, single_and_without
from benchmarks.datasets import Corpus
from benchmarks.fill_stores import scattered_copies
from benchmarks.measure_corpus import CorpusResult, corpus_recording
from benchmarks.metrics import mean
from benchmarks.options import Run
from benchmarks.progress import Advance
from benchmarks.recordings import BUDGETS
from benchmarks.scatter import held_alone
from benchmarks.scored_rows import Row
from benchmarks.shapley import loss_beyond_own


def measure(corpus: Corpus, options: Run, arms: Sequence[Arm], advance: Advance) -> CorpusResult:
    """Measures one corpus: the given arms and all arms that they are compared with.

    All is replayed from two recordings: of the scattered stores, and of stores that each hold everything.
    """
    one, fresh = corpus_recording(corpus, options, arms, advance)
    whole, _ = corpus_recording(corpus, replace(options, scattered=False), arms, advance)
    asked = replace(as_scattered(corpus), questions=tuple(corpus.asked(options.limit)))
    scored = replace(asked, questions=tuple(q for q in asked.questions if q.answerable))

    replayed = partial(replay.replay, dataset=options.setup, advance=advance)
    rows = replayed([one], [asked], arms)
    rows += replayed([one], [scored], single_and_without(arms[0], options.backends), budgets=BUDGETS[:1])
    rows += replayed([whole], [scored], full_store_arms(arms[0], options.backends), budgets=BUDGETS[:1])
    copies = scattered_copies(corpus, options.backends, options.seed)
    return CorpusResult(
        tuple(rows),
        fresh,
        held_alone(copies, by_document=corpus.match == "document"),
        (one.made.get("commit"), whole.made.get("commit")),
    )


def as_scattered(corpus: Corpus) -> Corpus:
    """The corpus with an edited copy of a memory counted as that memory."""
    return corpus if corpus.match == "document" else replace(corpus, match="item")


def figures(options: Run, results: Sequence[CorpusResult], main: Sequence[Row]) -> dict[str, Any]:
    rows = {name: _of(results, name) for name in {row.arm for result in results for row in result.rows}}
    eib = {name: mean(row.eib for row in found.values() if row.eib is not None) or 0.0 for name, found in rows.items()}
    single = {name: eib[f"only {name}"] for name in options.backends}
    one = {name: eib[f"all in {name}"] for name in options.backends}
    full = {row.key: row for row in main if row.budget == BUDGETS[0] and row.eib is not None}
    alone = {result.rows[0].corpus: result.alone for result in results}
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


def _of(results: Sequence[CorpusResult], arm: str) -> dict[tuple[str, int], Row]:
    return {row.key: row for result in results for row in result.rows if row.arm == arm and row.budget == BUDGETS[0]}


def _beyond_own(
    name: str,
    full: Mapping[tuple[str, int], Row],
    without: Mapping[tuple[str, int], Row],
    alone: Mapping[str, Mapping[str, str]],
) -> float:
    """The loss with one store down beyond what it alone held; items are named with their corpus."""
    own = {f"{corpus}\0{item}" for corpus, held in alone.items() for item, store in held.items() if store == name}
    gold = [([f"{row.corpus}\0{g}" for g in row.gold], row.found, without[key].found) for key, row in full.items()]
    return round(loss_beyond_own(gold, own), 4)
