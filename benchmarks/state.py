"""Measures what is decided about memories, what that costs, and whether every answer heeds it.

Statements that are said again reinforce the earlier one; near but different ones must not. A session is not shown the
same memory twice (`benchmarks.sessions`). What was decided against is answered nowhere (`benchmarks.decided`).

`benchmarks/data/restatements.tsv` is a list of our own: 100 rewordings (light, medium, free) and 100 pairs that differ
in a negation, number, date or name. Every second pair was held back while the guards were written.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.decided import decided
from benchmarks.figures import commit
from benchmarks.progress import bar
from benchmarks.sessions import sessions
from benchmarks.state_cost import state_cost
from fusion.contract import Scope
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.settings import load
from fusion.upkeep.consolidate import REINFORCES, SAME

PAIRS = Path(__file__).with_name("data") / "restatements.tsv"
REWORDED = ("light", "medium", "free")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two statements, and whether the second rewords the first."""

    kind: str
    first: str
    second: str
    held_back: bool

    @property
    def is_rewording(self) -> bool:
        return self.kind in REWORDED


def pairs() -> Iterator[Pair]:
    """The pairs of the list."""
    for number, line in enumerate(PAIRS.read_text(encoding="utf-8").splitlines()):
        kind, first, second = line.split("\t")
        yield Pair(kind, first, second, held_back=bool(number % 2))


def measure(memories: int, questions: int) -> dict[str, Any]:
    """All figures: of ``memories`` that are decided about, asked ``questions`` ways."""
    return asyncio.run(_measure(memories, questions))


async def _measure(memories: int, questions: int) -> dict[str, Any]:
    return {
        "command": "state",
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        **await restatements(),
        **await sessions(),
        **await state_cost(),
        **await decided(memories, questions),
    }


async def restatements() -> dict[str, Any]:
    """Remember each pair as a user of its own in a home with the four default memories; see what was merged.

    ``bands`` counts the pairs by the cosine of the model.
    """
    known = list(pairs())
    with tempfile.TemporaryDirectory(prefix="fusion-state-") as folder:
        async with Gateway.open(load(home=Path(folder) / "home")) as gateway:
            if gateway.consolidator is None or gateway.embedders.configured is None:
                return {"restatements": "no embedding model"}
            refs = []
            with bar("pairs", len(known)) as advance:
                for number, pair in enumerate(known):
                    scope = Scope(user_id=f"user{number}")
                    texts = (pair.first, pair.second)
                    kept = await gateway.remember([NewMemory(text, scope, kind="fact") for text in texts])
                    refs.append((scope, [one.ref for one in kept]))
                    advance(1)
            await gateway.settle()
            found: list[tuple[Pair, bool, float]] = []
            for pair, (scope, both) in zip(known, refs, strict=True):
                states = [(await gateway.journal.find(ref, scope)).state for ref in both]
                merged = any(state.reinforced_count for state in states)
                one, other = await gateway.embedders.configured.embed([pair.first, pair.second])
                found.append((pair, merged, float(one @ other)))
    rewordings = [merged for pair, merged, _ in found if pair.is_rewording]
    held = [merged for pair, merged, _ in found if pair.is_rewording and pair.held_back]
    return {
        "pairs": len(found),
        "reinforced_of_rewordings": sum(rewordings) / len(rewordings),
        "reinforced_of_rewordings_held_back": sum(held) / len(held),
        "wrong_merges": sum(merged for pair, merged, _ in found if not pair.is_rewording),
        "bands": _bands(found),
    }


def _bands(found: list[tuple[Pair, bool, float]]) -> dict[str, dict[str, int]]:
    """By band of the cosine, the number of rewordings and of others, and of those that were merged."""
    bands: dict[str, Counter[str]] = {}
    for pair, merged, cosine in found:
        band = "duplicate" if cosine >= SAME else "reinforces" if cosine >= REINFORCES else "below"
        what = "rewordings" if pair.is_rewording else "others"
        bands.setdefault(band, Counter()).update([what, *([f"{what}_merged"] if merged else [])])
    return {band: dict(sorted(counts.items())) for band, counts in sorted(bands.items())}


def show(figures: Mapping[str, Any]) -> None:
    """Print the figures."""
    for name, value in figures.items():
        print(f"{name:36} {value}")
