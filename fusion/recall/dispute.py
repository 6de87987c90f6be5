"""Judged → Judged: memories that dispute each other stand next to each other, the better founded one first.

A block that has room for one of two rival statements must not show the planted one alone. The better founded one is
ours rather than a backend's alone, from no tool and no untrusted source, and stands in a talk or file that was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from fusion.contract import BACKEND_PREFIX, Hit
from fusion.lib.budget import clip
from fusion.recall.dedup import Candidate
from fusion.recall.fence import escape
from fusion.recall.paraphrase import Kind
from fusion.recall.rerank import Scored

NAME_CHARS = 60
"""of the document or backend that a dispute names"""


@dataclass(frozen=True, slots=True)
class Dispute:
    """Two memories that share most words and cannot both be true. ``kind`` says in what they differ.

    ``newer`` is the ref of the one that happened or was recorded later, None where that is not known; ``at`` is its
    day. ``sources`` say where each of ``refs`` comes from.
    """

    refs: tuple[str, str]
    kind: Kind
    newer: str | None
    at: str | None
    sources: tuple[str, str]

    @property
    def line(self) -> str:
        """What a block says of it. No memory's text can begin a line so: `fence.cited` escapes it."""
        one, other = self.refs
        if self.newer is None:
            return f"[{one}, {other}] disagree: {one} is from {self.sources[0]}, {other} from {self.sources[1]}.\n"
        source = self.sources[self.refs.index(self.newer)]
        return f"[{one}, {other}] disagree: {self.newer} is newer ({self.at}, from {source}).\n"


def next_to_rivals(order: Sequence[Scored]) -> Sequence[Scored]:
    """The order with each memory's rivals right after it; of a pair, the better founded one is first."""
    rivals = rivals_of(order)
    if not rivals:
        return order
    by_ref = {scored.ref: scored for scored in order}
    at = {scored.ref: i for i, scored in enumerate(order)}
    placed: dict[str, Scored] = {}
    for scored in order:
        refs = [scored.ref, *sorted(rivals.get(scored.ref, ()), key=at.__getitem__)]
        for ref in sorted(refs, key=lambda ref: _doubt(by_ref[ref].pooled.candidate.hit)):
            placed.setdefault(ref, by_ref[ref])
    return tuple(placed.values())


def rivals_of(order: Sequence[Scored]) -> dict[str, dict[str, Kind]]:
    """By ref, the rivals of each memory that are in the order, with what they differ in."""
    found: dict[str, dict[str, Kind]] = {}
    if not any(scored.pooled.candidate.rivals for scored in order):
        return found
    there = {scored.ref for scored in order}
    for scored in order:
        for rival in scored.pooled.candidate.rivals:
            if rival.ref in there and rival.ref != scored.ref:
                found.setdefault(scored.ref, {})[rival.ref] = rival.kind
                found.setdefault(rival.ref, {})[scored.ref] = rival.kind
    return found


def dispute(one: Scored, other: Scored, kind: Kind) -> Dispute:
    """What there is to say of two memories that disagree."""
    hits = one.pooled.candidate.hit, other.pooled.candidate.hit
    times = _when(one.pooled.candidate), _when(other.pooled.candidate)
    newer, at = None, None
    if times[0] is not None and times[1] is not None and times[0] != times[1]:
        later = int(times[1] > times[0])
        newer, at = (one.ref, other.ref)[later], (times[later] or times[0]).date().isoformat()
    return Dispute((one.ref, other.ref), kind, newer, at, (_source(hits[0]), _source(hits[1])))


def _when(candidate: Candidate) -> datetime | None:
    """When a memory was said for the last time, as far as is known."""
    hit = candidate.hit
    return candidate.last or (hit.at.utc if hit.at else hit.recorded_at)


def _source(hit: Hit) -> str:
    """Where a memory comes from, in a word or a name."""
    if hit.external:
        name = (hit.stated_by or "").removeprefix(BACKEND_PREFIX)
    else:
        name = hit.place.document if hit.place else hit.stated_by or "what was remembered"
    return clip(" ".join(escape(name).split()), NAME_CHARS)


def _doubt(hit: Hit) -> tuple[bool, bool, bool]:
    """Less is better founded."""
    return hit.external, hit.trust == "untrusted" or hit.origin == "tool", hit.place is None
