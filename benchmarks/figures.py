"""Computes the figures of an arm from its rows, and the difference of two arms."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.datasets import UNANSWERABLE
from benchmarks.fill_stores import Stored
from benchmarks.metrics import by_group, mean, percentile, ranking
from benchmarks.recordings import BUDGETS
from benchmarks.scored_rows import Row
from fusion.compare import reliability
from fusion.compare.verdict import paired

FULL = BUDGETS[0]
PREFIXES = {6000: "eib", 3000: "eib_3000", 1500: "eib_1500"}


def quality(rows: Sequence[Row]) -> dict[str, Any]:
    """Quality of one arm's rows: shares of 1, except counts and characters."""
    full = [row for row in rows if row.budget == FULL]
    scored = [row for row in full if row.eib is not None]
    out: dict[str, Any] = {"n": len(scored)}
    for budget, prefix in PREFIXES.items():
        of_budget = [row for row in rows if row.budget == budget and row.eib is not None]
        out[f"{prefix}_frac"] = mean(row.eib for row in of_budget if row.eib is not None)
        out[f"{prefix}_all"] = mean(float(all(row.found)) for row in of_budget)
    ranks = ranking([(row.gold, row.ranked) for row in scored])
    for name in ("r_at_5", "r_at_10", "ndcg_at_10", "mrr"):
        out[name] = mean(one[name] for one in ranks)
    out["abstained_on_unanswerable"] = mean(float(row.abstained) for row in full if row.category == UNANSWERABLE)
    out["abstained_on_answerable"] = mean(float(row.abstained) for row in scored)
    fractions = by_group((row.category, row.eib) for row in scored if row.eib is not None)
    wholes = by_group((row.category, float(all(row.found))) for row in scored)
    out["by_category"] = {
        name: {"n": n, "eib_frac": frac, "eib_all": wholes[name][1]} for name, (n, frac) in fractions.items()
    }
    out |= reliability.figures([pair for row in scored for pair in row.judged])
    out["chars"] = mean((len(row.block) for row in scored), 0)
    gold = sum(sum(row.found) for row in scored)
    out["chars_per_gold"] = round(sum(len(row.block) for row in scored) / gold, 1) if gold else None
    out["duplicate_pairs"] = sum(row.duplicates for row in full)
    out["over_budget"] = sum(len(row.block) > row.budget for row in rows)
    return out


def cost(rows: Sequence[Row]) -> dict[str, Any]:
    """Latency and CPU of one arm's rows at the full budget, in milliseconds."""
    full = [row for row in rows if row.budget == FULL]
    return {
        "p50_ms": _ms(percentile(0.50, (row.took_ms for row in full))),
        "p95_ms": _ms(percentile(0.95, (row.took_ms for row in full))),
        "p50_cpu_ms": _ms(percentile(0.50, (row.cpu_ms for row in full))),
        "cpu_ms_per_query": mean((row.cpu_ms for row in full), 1),
    }


def ingest(stored: Sequence[Stored]) -> dict[str, float | None]:
    """Memories stored in a second, by the clock and of CPU; None if the homes had them already."""
    fresh = [(one.copies, one.took) for one in stored if one.took is not None]
    copies = sum(n for n, _ in fresh)
    seconds, cpu_s = sum(took.seconds for _, took in fresh), sum(took.cpu_s for _, took in fresh)
    return {
        "ingest_per_s": round(copies / seconds, 1) if seconds else None,
        "ingest_per_cpu_s": round(copies / cpu_s, 1) if cpu_s else None,
    }


def arms(rows: Iterable[Row], against: str | None, *, seed: int = 0) -> dict[str, dict[str, Any]]:
    """Every arm's figures, and the verdict over ``against``, question by question. Raises KeyError without its rows."""
    by_arm: dict[str, list[Row]] = {}
    for row in rows:
        by_arm.setdefault(row.arm, []).append(row)
    out = {}
    for name, mine in by_arm.items():
        first = mine[0]
        out[name] = {
            "recipe": first.recipe,
            "recipe_hash": first.recipe_hash,
            "backends": list(first.backends),
            **quality(mine),
            **(cost(mine) if first.recipe_hash else {}),
        }
        if against is not None and name != against:
            out[name]["against"] = {"baseline": against, **verdict(mine, by_arm[against], seed=seed)}
    return out


def verdict(ours: Sequence[Row], theirs: Sequence[Row], *, seed: int = 0) -> dict[str, Any]:
    """EIB of ours over theirs at each budget and, at the full one, by category: with intervals, wins, ties, losses."""

    def over(pairs: Sequence[tuple[Row, Row]], value: Callable[[Row], float]) -> dict[str, Any]:
        return asdict(paired([value(theirs) for _, theirs in pairs], [value(ours) for ours, _ in pairs], seed=seed))

    def share(row: Row) -> float:
        return row.eib or 0.0

    out: dict[str, Any] = {}
    for budget, prefix in PREFIXES.items():
        pairs = _pairs(ours, theirs, budget)
        if not pairs:
            continue
        out[f"{prefix}_frac"] = over(pairs, share)
        if budget == FULL:
            out["eib_all"] = over(pairs, lambda row: float(all(row.found)))
            out["by_category"] = {
                category: over([pair for pair in pairs if pair[0].category == category], share)
                for category in sorted({row.category for row, _ in pairs})
            }
    return out


def _pairs(ours: Sequence[Row], theirs: Sequence[Row], budget: int) -> list[tuple[Row, Row]]:
    """The rows of the questions that both were asked and that count."""
    other = {row.key: row for row in theirs if row.budget == budget and row.eib is not None}
    return [(r, other[r.key]) for r in ours if r.budget == budget and r.eib is not None and r.key in other]


def _ms(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def commit() -> str | None:
    """The checkout's commit, with a + where files differ from it; None outside of one."""
    folder = Path(__file__).parent
    try:
        git = ["git", "-C", os.fspath(folder)]
        head = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
        changed = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")
