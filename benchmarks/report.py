"""What a run on LoCoMo is, what it yields, and the figures made of that."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.locomo import CATEGORIES, UNANSWERABLE
from benchmarks.metrics import by_group, mean, ndcg_at, percentile, recall_at

BACKENDS = ("markdown", "cortex", "mem0", "triples")
BUDGETS = (6000, 3000, 1500)
"""characters; the full one first: its time is taken, before anything of the query is cached"""


@dataclass(frozen=True, slots=True)
class Run:
    """What is measured, and how."""

    data: Path
    recipe: str = "default"
    backends: tuple[str, ...] = BACKENDS
    captions: bool = False
    scattered: bool = False
    conversations: tuple[str, ...] = ()
    limit: int | None = None
    """questions of each conversation, from its first"""
    jobs: int = 1
    answers: Path | None = None
    home: Path | None = None
    """kept between runs, so that a second one with another recipe need not store again"""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """One question at one budget. ``members`` are the turn ids of each excerpt, ``ranked`` those before packing."""

    conversation: str
    question: int
    category: int
    budget: int
    block: str
    members: tuple[tuple[str, ...], ...]
    ranked: tuple[str, ...]
    found: tuple[bool, ...]
    """for each gold turn; empty where the question does not count for recall"""
    gold: tuple[str, ...]
    duplicates: int
    took_ms: float
    cpu_ms: float

    def answer(self) -> dict[str, object]:
        """The row that a referee scores: what the agent got, and nothing of our own judgement."""
        return {
            "conversation": self.conversation,
            "question": self.question,
            "budget": self.budget,
            "block": self.block,
            "members": self.members,
            "ranked": self.ranked,
        }


@dataclass(frozen=True, slots=True)
class Told:
    """What one conversation gave. ``arms`` has, by name, the questions asked of fewer backends (scattered only)."""

    asked: tuple[Asked, ...]
    turns: int
    ingest_s: float | None
    """None where the home had the memories already"""
    recipe_hash: str
    arms: Mapping[str, tuple[tuple[bool, ...], ...]] = field(default_factory=dict)
    alone: Mapping[str, int] = field(default_factory=dict)
    """gold turns (over questions) that one store alone has, by store"""


def figures(options: Run, told: Sequence[Told]) -> dict[str, Any]:
    """The object that is printed. Shares are of 1; ``_ms`` milliseconds; characters where it says so."""
    asked = {b: [a for t in told for a in t.asked if a.budget == b] for b in BUDGETS}
    full = asked[6000]
    scored = [a for a in full if a.found]
    ingested = [t for t in told if t.ingest_s]
    out: dict[str, Any] = {
        "dataset": options.data.stem,
        "n": len(scored),
        "recipe": options.recipe,
        "recipe_hash": told[0].recipe_hash,
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "backends": list(options.backends),
    }
    for budget, prefix in ((6000, "eib"), (3000, "eib_3000"), (1500, "eib_1500")):
        rows = [a for a in asked[budget] if a.found]
        out[f"{prefix}_frac"] = mean(_share(a.found) for a in rows)
        out[f"{prefix}_all"] = mean(float(all(a.found)) for a in rows)
    for k in (5, 10):
        out[f"r_at_{k}"] = mean(recall_at(k, a.gold, a.ranked) for a in scored)
    out["ndcg_at_10"] = mean(ndcg_at(10, a.gold, a.ranked) for a in scored)
    out["abstained_on_unanswerable"] = mean(float(not a.members) for a in full if a.category == UNANSWERABLE)
    out["abstained_on_answerable"] = mean(float(not a.members) for a in scored)
    fractions = by_group((CATEGORIES[a.category], _share(a.found)) for a in scored)
    wholes = by_group((CATEGORIES[a.category], float(all(a.found))) for a in scored)
    out["by_category"] = {
        name: {"n": n, "eib_frac": frac, "eib_all": wholes[name][1]} for name, (n, frac) in fractions.items()
    }
    out["chars"] = mean((len(a.block) for a in scored), 0)
    out["duplicate_pairs"] = sum(a.duplicates for a in full)
    out["over_budget"] = sum(len(a.block) > a.budget for rows in asked.values() for a in rows)
    out["p50_ms"] = _ms(percentile(0.50, (a.took_ms for a in full)))
    out["p95_ms"] = _ms(percentile(0.95, (a.took_ms for a in full)))
    out["cpu_ms_per_query"] = mean((a.cpu_ms for a in full), 1)
    out["ingest_per_s"] = (
        round(sum(t.turns for t in ingested) / sum(t.ingest_s or 0.0 for t in ingested), 1) if ingested else None
    )
    if options.scattered:
        out |= _scattered_figures(options, told, scored)
    return out


def _scattered_figures(options: Run, told: Sequence[Told], scored: Sequence[Asked]) -> dict[str, Any]:
    arms = {
        name: mean(_share(row) for t in told for row in t.arms.get(name, ()))
        for name in sorted({name for t in told for name in t.arms})
    }
    single = {name: arms[f"only {name}"] or 0.0 for name in options.backends}
    one = {name: arms[f"all in {name}"] or 0.0 for name in options.backends}
    fused = mean(_share(a.found) for a in scored) or 0.0
    gold = sum(len(a.gold) for a in scored)
    best = max(single.values())
    return {
        "dataset": f"{options.data.stem} scattered",
        "one_store_eib_frac": max(one.values()),
        "best_single_eib_frac": best,
        "over_best_single": round(fused / best, 3) if best else None,
        "eib_frac_of_one": single,
        "eib_frac_of_one_with_everything": one,
        "eib_one_down": {name: arms[f"without {name}"] for name in options.backends},
        "gold_held_by_one_alone": {
            name: round(sum(t.alone.get(name, 0) for t in told) / gold, 4) if gold else None
            for name in options.backends
        },
        "told_twice": sum(len(ids) - len(set(ids)) for ids in ([i for m in a.members for i in m] for a in scored)),
    }


def _share(found: Sequence[bool]) -> float:
    return sum(found) / len(found)


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
