"""Measures the labels of `heuristic-v1` by 200 labelled lines of our own, compared with guessing the commonest label.

Nothing is tuned on these lines: the scorer has the published formula and three signs that were chosen by other lines of
our own.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.pack import Data
from fusion.lib.heuristic_v1 import heuristic_score
from fusion.lib.importance import label_of

LINES = Path(__file__).parent / "data" / "importance_lines.jsonl"
MUST = "must_remember"


def measure(data: Data) -> dict[str, Any]:
    """The share of right labels, and of what is labelled must_remember how much is; ``data`` is not used."""
    lines = [json.loads(line) for line in LINES.read_text(encoding="utf-8").splitlines()]
    true = [str(line["label"]) for line in lines]
    given = [str(label_of(heuristic_score(line["text"]).score)) for line in lines]
    commonest, often = Counter(true).most_common(1)[0]
    chosen = [right for label, right in zip(given, true, strict=True) if label == MUST]
    return {
        "lines": len(lines),
        "accuracy": _share(sum(one == other for one, other in zip(given, true, strict=True)), len(lines)),
        f"accuracy_guessing_{commonest}": _share(often, len(lines)),
        "must_remember_given": len(chosen),
        "must_remember_precision": _share(chosen.count(MUST), len(chosen)),
        "must_remember_recall": _share(chosen.count(MUST), true.count(MUST)),
        "must_remember_share": _share(true.count(MUST), len(lines)),
    }


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 3) if whole else None
