"""Why a memory is in the block or not: the decision as programs compare it, and as people read it."""

from __future__ import annotations

from enum import StrEnum


class Decision(StrEnum):
    """What became of a candidate. The values stand in receipts and replies, so they never change."""

    PACKED = "packed"
    BEST_BELOW_FLOOR = "best_below_floor"
    BELOW_FLOOR = "below_floor"
    BELOW_JUDGE_FLOOR = "below_judge_floor"
    SAID_BY_SOURCE = "said_by_source"
    EXCERPTS_FULL = "excerpts_full"
    NO_ROOM = "no_room"
    SHARE_TAKEN = "share_taken"
    NOT_ASKED = "not_asked"
    NO_CANDIDATE = "no_candidate"


TOO_WEAK = frozenset({Decision.BEST_BELOW_FLOOR, Decision.BELOW_FLOOR, Decision.BELOW_JUDGE_FLOOR})
"""the score was too low, whatever room there was"""
OUT_OF_ROOM = frozenset({Decision.NO_ROOM, Decision.SHARE_TAKEN})
"""a larger budget would have changed these"""

_SENTENCES = {
    Decision.PACKED: "packed",
    Decision.BEST_BELOW_FLOOR: "the best is under the floor",
    Decision.BELOW_FLOOR: "under the floor",
    Decision.BELOW_JUDGE_FLOOR: "under the judge's floor",
    Decision.SAID_BY_SOURCE: "its source says it",
    Decision.EXCERPTS_FULL: "the block has all its excerpts",
    Decision.NO_ROOM: "does not fit",
    Decision.SHARE_TAKEN: "its document has its share",
    Decision.NOT_ASKED: "its backends were not asked",
    Decision.NO_CANDIDATE: "not among its candidates",
}
_EARLIER = {sentence: decision for decision, sentence in _SENTENCES.items()}
_ALL_IN = (" excerpt is in", " excerpts are in")


def decision_of(kept: str) -> str:
    """A decision as a receipt keeps it. Receipts of earlier versions have the sentence in its place; what nobody knows
    stays as it is."""
    return Decision.EXCERPTS_FULL if kept.endswith(_ALL_IN) else _EARLIER.get(kept, kept)


def sentence(kept: str) -> str:
    """A decision, as a receipt keeps it, in words."""
    return _SENTENCES[Decision(kept)] if kept in _VALUES else kept


_VALUES = frozenset(Decision)
