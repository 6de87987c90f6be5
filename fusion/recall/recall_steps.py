"""The three steps of progressive recall, each in its own tokens: an index of hits, what stands around one, full texts.

An `Entry` is one line on a memory. The first two steps return entries; `tokens` of an entry is what the last step costs
for it, so that a reader fetches only what is worth it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fusion.contract import Hit, Trust
from fusion.lib.budget import estimate_tokens
from fusion.lib.importance import Label, label_of
from fusion.lib.layers import layers_of
from fusion.lib.listing import record_ref
from fusion.lib.private_paths import public_path, without_private_paths
from fusion.lib.words import spoken
from fusion.recall.decision import Decision
from fusion.recall.filter import Record
from fusion.recall.mask import shown
from fusion.recall.pack import Block, Ranking
from fusion.recall.rerank import Scored

T = TypeVar("T")

INDEX_TOKENS = 800
TIMELINE_TOKENS = 800
RECORDS_TOKENS = 2000
"""the default budgets of the steps"""
MAX_HITS = 100
MAX_REFS = 50
SPAN = 4
MAX_SPAN = 50
"""memories before and after one in a timeline"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line on a memory: its abstract, and what its full text costs in ``tokens``."""

    ref: str
    recordRef: str  # noqa: N815 - the name in openclaw-mem
    line: str
    ts: str | None
    kind: str
    trust: Trust
    importance: Label
    place: str | None
    """its document and its first line or turn there"""
    tokens: int

    @property
    def cost(self) -> int:
        """The tokens of the entry itself."""
        return estimate_tokens(f"- [{self.recordRef}] {self.ts or ''} {self.kind} {self.place or ''} {self.line}")


@dataclass(frozen=True, slots=True)
class Ranked:
    """A hit of an index with its scores; ``probability`` is None where the scores are not calibrated."""

    entry: Entry
    score: float
    probability: float | None


@dataclass(frozen=True, slots=True)
class Index(Block):
    """What is packed for an index: nothing, since a list of hits is no use of them. ``hits`` are its candidates."""

    hits: tuple[Ranked, ...] = ()
    left_out: int = 0


def entry_of(ref: str, hit: Hit, record: Record | None = None) -> Entry:
    """The entry of a hit; of a journal's memory by its whole text, also where a part of it was found."""
    masked = shown(hit)
    text = spoken(masked.text if record is None else record.event.text, hit.speaker)
    at = hit.at.utc if hit.at is not None else hit.recorded_at
    return Entry(
        ref,
        record_ref(ref),
        without_private_paths(layers_of(text).abstract),
        None if at is None else at.isoformat(),
        hit.kind,
        hit.trust,
        "unknown" if record is None else label_of(record.state.importance),
        None if hit.place is None else f"{public_path(hit.place.document)}:{hit.place.start}",
        estimate_tokens(text),
    )


def index_of(ranking: Ranking, limit: int, budget_tokens: int) -> Index:
    """The best memories of a ranking, each once, within both limits; what is below the floors is not listed."""
    best: dict[str, Scored] = {}
    for one in ranking.order:
        best.setdefault(one.ref, one)
    fits = [one for one in best.values() if not one.is_below(ranking.floors)]
    entries = (_ranked(one, ranking.records) for one in fits[:limit])
    hits = within(entries, budget_tokens, lambda ranked: ranked.entry.cost)
    listed = {ranked.entry.ref for ranked in hits}
    admitted = {one.ref for one in fits}
    decisions = {ref: _decision(ref, listed, admitted) for ref in best}
    return Index("", (), decisions, hits=tuple(hits), left_out=len(fits) - len(hits))


def _decision(ref: str, listed: set[str], admitted: set[str]) -> Decision:
    if ref in listed:
        return Decision.LISTED
    return Decision.ITEMS_FULL if ref in admitted else Decision.BELOW_FLOOR


def _ranked(one: Scored, records: Mapping[str, Record]) -> Ranked:
    hit = one.pooled.candidate.hit
    record = records.get(hit.event_id) if hit.event_id else None
    probability = None if one.probability is None else round(one.probability, 4)
    return Ranked(entry_of(one.ref, hit, record), round(one.local, 4), probability)


def within(items: Iterable[T], budget_tokens: int, cost: Callable[[T], int]) -> list[T]:
    """The first of these items that fit the budget together; the first one always does."""
    kept: list[T] = []
    left = budget_tokens
    for item in items:
        left -= cost(item)
        if left < 0 and kept:
            break
        kept.append(item)
    return kept


def nearest_within(entries: Sequence[Entry], anchor: str, budget_tokens: int) -> list[Entry]:
    """Those of these entries that fit the budget, the nearest to the anchor first, in their own order."""
    at = next(place for place, entry in enumerate(entries) if entry.ref == anchor)
    by_distance = sorted(range(len(entries)), key=lambda place: (abs(place - at), place))
    kept = within(by_distance, budget_tokens, lambda place: entries[place].cost)
    return [entries[place] for place in sorted(kept)]
