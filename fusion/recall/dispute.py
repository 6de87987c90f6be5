"""Orders memories that contradict each other next to each other, the more credible one first, and reports them.

A block with room for one of two rival statements must not show only a planted one. More credible is a memory of the
journal than one that only a backend vouches for; then one that is from no tool and no untrusted source; then one of a
conversation or file that was read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from fusion.contract import BACKEND_PREFIX, Hit
from fusion.lib.budget import clip
from fusion.lib.escape import escape
from fusion.lib.paraphrase import STRUCTURAL, Kind
from fusion.lib.succession import outdates
from fusion.lib.words import spoken
from fusion.recall.dedup import Candidate
from fusion.recall.rerank import Scored

NAME_CHARS = 60
"""maximum characters of a document or backend in the line on a dispute"""


@dataclass(frozen=True, slots=True)
class Dispute:
    """Two memories that share most words and contradict each other. ``kind`` says in what they differ; `SUPERSEDED`
    are two of which the later one names the value of the other as past. Of `STRUCTURAL` ones ``newer`` holds.

    ``newer`` is the ref of the later one, None if that is unknown; ``at`` is its day. ``sources`` has the origin of
    each of ``refs``.
    """

    refs: tuple[str, str]
    kind: Kind
    newer: str | None
    at: str | None
    sources: tuple[str, str]

    @property
    def line(self) -> str:
        """The line in the block. A memory's text cannot imitate it: `fence.cited` escapes such a beginning."""
        one, other = self.refs
        if self.newer is None:
            return f"[{one}, {other}] disagree: {one} is from {self.sources[0]}, {other} from {self.sources[1]}.\n"
        source = self.sources[self.refs.index(self.newer)]
        old = one if self.newer == other else other
        if self.kind in STRUCTURAL:
            return f"[{one}, {other}] {old} is superseded by {self.newer} ({self.at}, from {source}).\n"
        if self.kind is Kind.SUPERSEDED:
            return f"[{one}, {other}] {self.newer} says that {old} is past ({self.at}, from {source}).\n"
        return f"[{one}, {other}] disagree: {self.newer} is newer ({self.at}, from {source}).\n"


def next_to_rivals(order: Sequence[Scored]) -> Sequence[Scored]:
    """The order with each memory's rivals right after it; of a pair, the more credible one is first."""
    rivals = rivals_of(order)
    if not rivals:
        return order
    best: dict[str, Scored] = {}  # of a long memory its best passage
    for scored in order:
        best.setdefault(scored.ref, scored)
    at = {ref: i for i, ref in enumerate(best)}
    placed: dict[str, Scored] = {}
    for scored in order:
        ref = scored.ref
        if ref in rivals and scored is best[ref]:
            refs = [ref, *sorted(rivals[ref], key=at.__getitem__)]
            group = {ref: best[ref] for ref in refs}
            for ref in sorted(refs, key=lambda ref: _place_key(group[ref], refs)):
                placed.setdefault(best[ref].pooled.key, best[ref])
        placed.setdefault(scored.pooled.key, scored)
    return tuple(placed.values())


def _place_key(one: Scored, among: Collection[str]) -> tuple[bool, ...]:
    """The sort key of a memory next to its rivals: after one of them that took its place, then by credibility."""
    return not newer_than(one).isdisjoint(among), *_credibility_key(one.pooled.candidate.hit)


def newer_than(one: Scored) -> set[str]:
    """The refs of the memories that took the place of one, where two stores contradict each other."""
    return {rival.ref for rival in one.pooled.candidate.rivals if rival.newer == rival.ref}


def rivals_of(order: Sequence[Scored]) -> dict[str, dict[str, Kind]]:
    """The rivals of each memory that are in the order, by ref, with the kind of difference."""
    found: dict[str, dict[str, Kind]] = {}
    disputed = [scored for scored in order if scored.pooled.candidate.rivals]
    if not disputed:
        return found
    there = {scored.ref for scored in order}
    for scored in disputed:
        for rival in scored.pooled.candidate.rivals:
            if rival.ref in there and rival.ref != scored.ref:
                found.setdefault(scored.ref, {})[rival.ref] = rival.kind
                found.setdefault(rival.ref, {})[scored.ref] = rival.kind
    return found


def dispute(one: Scored, other: Scored, kind: Kind) -> Dispute:
    """The dispute between two memories: which is newer, and the origin of each."""
    hits = one.pooled.candidate.hit, other.pooled.candidate.hit
    for rival in one.pooled.candidate.rivals:
        if rival.ref == other.ref and rival.kind in STRUCTURAL:
            day = None if rival.at is None else rival.at.date().isoformat()
            return Dispute((one.ref, other.ref), rival.kind, rival.newer, day, (_origin(hits[0]), _origin(hits[1])))
    times = _latest(one.pooled.candidate), _latest(other.pooled.candidate)
    newer, at = None, None
    if times[0] is not None and times[1] is not None and times[0] != times[1]:
        later = int(times[1] > times[0])
        newer, at = (one.ref, other.ref)[later], (times[later] or times[0]).date().isoformat()
        if _outdates(hits[later], hits[1 - later]):
            kind = Kind.SUPERSEDED
    return Dispute((one.ref, other.ref), kind, newer, at, (_origin(hits[0]), _origin(hits[1])))


def outdated(one: Scored, other: Scored) -> bool:
    """Whether the later one of two memories says that what the other states is past."""
    return dispute(one, other, Kind.DISSENT).kind is Kind.SUPERSEDED


def _outdates(later: Hit, earlier: Hit) -> bool:
    """Whether a memory says that what an earlier one states is past. A less credible one says so of nothing."""
    if _credibility_key(later)[:2] > _credibility_key(earlier)[:2]:
        return False
    return outdates(spoken(later.text, later.speaker), spoken(earlier.text, earlier.speaker))


def _latest(candidate: Candidate) -> datetime | None:
    """The date of a memory's latest copy, or None if it is unknown."""
    hit = candidate.hit
    return candidate.last or (hit.at.utc if hit.at else hit.recorded_at)


def _origin(hit: Hit) -> str:
    """The origin of a memory: its backend, document or sender."""
    if hit.external:
        name = (hit.stated_by or "").removeprefix(BACKEND_PREFIX)
    else:
        name = hit.place.document if hit.place else hit.stated_by or "what was remembered"
    return clip(" ".join(escape(name).split()), NAME_CHARS)


def _credibility_key(hit: Hit) -> tuple[bool, bool, bool]:
    """The sort key of credibility; the more credible memory has the smaller one."""
    return hit.external, hit.trust == "untrusted" or hit.origin == "tool", hit.place is None
