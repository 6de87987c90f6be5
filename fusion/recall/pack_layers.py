"""The layers of memories in a context pack: L0 is one line, L1 a few sentences, L2 the whole text.

A short memory has one layer: its text, which counts as L1. A long one is shown at L1: by its overview if that has the
sentence that fits the question best, else by its best passage. Only a few long memories may have more passages, which
is their detail (L2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from fusion.contract import Hit
from fusion.lib.layers import Layers, best_sentence
from fusion.recall.decision import Decision
from fusion.recall.pack import Ranking
from fusion.recall.rerank import Scored

Layer = Literal["L0", "L1", "L2"]
MAX_L2_ITEMS = 2
"""long memories of a pack that may show more than one passage"""


@dataclass(frozen=True, slots=True)
class Layered:
    """A ranking's order with the chosen layer of each long memory.

    ``layers`` has that of each memory that is shown by its abstract or overview, by ref, and ``methods`` what made
    those; ``capped`` are the memories that would have had more.
    """

    order: Sequence[Scored]
    left_out: Mapping[str, Decision] = field(default_factory=dict)
    layers: Mapping[str, Layer] = field(default_factory=dict)
    capped: frozenset[str] = frozenset()
    methods: Mapping[str, str] = field(default_factory=dict)

    def layer_of(self, parts: Iterable[Scored]) -> Layer:
        """The layer of a line: the most detailed of its memories; L2 for several passages of one."""
        refs = [part.ref for part in parts]
        if len(set(refs)) < len(refs):
            return "L2"
        return max(self.layers.get(ref, "L1") for ref in refs)


def long_events(ranking: Ranking, most: int) -> list[str]:
    """The ids of the events among the best ``most`` entries of a ranking that are shown by passages."""
    hits = (one.pooled.candidate.hit for one in ranking.order[:most] if one.pooled.passage is not None)
    return list(dict.fromkeys(hit.event_id for hit in hits if hit.event_id))


def in_layers(
    ranking: Ranking, layers: Mapping[str, Layers], *, layer: Layer | None = None, max_l2: int = MAX_L2_ITEMS
) -> Layered:
    """The order of a ranking with long memories at their layers; ``layer`` asks for one layer of all of them.

    ``layers`` are those of long memories by event id.
    """
    order: list[Scored] = []
    left_out: dict[str, Decision] = {}
    chosen: dict[str, Layer] = {}
    methods: dict[str, str] = {}
    capped: set[str] = set()
    detailed: set[str] = set()
    seen: set[str] = set()
    for one in ranking.order:
        hit = one.pooled.candidate.hit
        if one.pooled.passage is None and layer is None:
            order.append(one)
            continue
        made = layers.get(hit.event_id or "")
        first = one.ref not in seen
        seen.add(one.ref)
        if first and made is not None and (shown := _overview(made, hit, ranking.question, layer)) is not None:
            chosen[one.ref], text = shown
            methods[one.ref] = made.method
            order.append(_with_text(one, text))
            continue
        if first or one.ref in detailed:
            order.append(one)
        elif one.ref not in chosen and layer in (None, "L2") and len(detailed) < max_l2:
            detailed.add(one.ref)
            order.append(one)
        else:
            if one.ref not in chosen:
                capped.add(one.ref)
            left_out[one.pooled.key] = Decision.DETAIL_CAP
            order.append(one)
    return Layered(order, left_out, chosen, frozenset(capped), methods)


def _overview(made: Layers, hit: Hit, question: str, layer: Layer | None) -> tuple[Layer, str] | None:
    """The layer and its text that stand for a long memory; None where its passages do."""
    if layer == "L0":
        return "L0", made.abstract
    if layer == "L2":
        return None
    if layer == "L1":
        return "L1", made.overview
    if len(made.overview) <= len(hit.text) and best_sentence(hit.text, question) in made.overview:
        return "L1", made.overview
    return None


def _with_text(one: Scored, text: str) -> Scored:
    """The memory with another text in the place of its passage."""
    candidate = one.pooled.candidate
    hit = candidate.hit.cut(text)
    return one._replace(pooled=one.pooled._replace(candidate=candidate._replace(hit=hit), passage=None))
