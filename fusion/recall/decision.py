"""The decision on each candidate: packed, or the reason why not, as an enum and in words."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Decision(StrEnum):
    """The outcome for a candidate. The values are stored in receipts and sent in replies, so they never change."""

    PACKED = "packed"
    BEST_BELOW_FLOOR = "best_below_floor"
    BELOW_FLOOR = "below_floor"
    BELOW_JUDGE_FLOOR = "below_judge_floor"
    SAID_BY_SOURCE = "said_by_source"
    EXCERPTS_FULL = "excerpts_full"
    ITEMS_FULL = "items_full"
    NO_ROOM = "no_room"
    NO_TOKENS = "no_tokens"
    SHARE_TAKEN = "share_taken"
    SHOWN_BEFORE = "shown_before"
    ADDS_TOO_LITTLE = "adds_too_little"
    STATES_NOTHING = "states_nothing"
    NOT_WANTED = "not_wanted"
    PRIVATE = "private"
    NOT_ASKED = "not_asked"
    NO_CANDIDATE = "no_candidate"
    DETAIL_CAP = "detail_cap"
    LISTED = "listed"
    SAID_BY_GRAPH = "said_by_graph"
    CONTRADICTED = "contradicted"
    ENDED_ELSEWHERE = "ended_elsewhere"


TOO_WEAK = frozenset({Decision.BEST_BELOW_FLOOR, Decision.BELOW_FLOOR, Decision.BELOW_JUDGE_FLOOR})
"""the score was too low"""
OUT_OF_ROOM = frozenset({Decision.NO_ROOM, Decision.NO_TOKENS, Decision.SHARE_TAKEN})
"""the budget was too small"""

BY_LIMIT: Mapping[str, Decision] = {
    "budget_chars": Decision.NO_ROOM,
    "budget_tokens": Decision.NO_TOKENS,
    "max_results": Decision.EXCERPTS_FULL,
    "max_items": Decision.ITEMS_FULL,
}
"""the decision that leaves a memory out because of a limit of the block"""

_SENTENCES = {
    Decision.PACKED: "packed",
    Decision.BEST_BELOW_FLOOR: "the best is under the floor",
    Decision.BELOW_FLOOR: "under the floor",
    Decision.BELOW_JUDGE_FLOOR: "under the judge's floor",
    Decision.SAID_BY_SOURCE: "its source says it",
    Decision.EXCERPTS_FULL: "the block has all its excerpts",
    Decision.ITEMS_FULL: "the block has all its items",
    Decision.NO_ROOM: "does not fit",
    Decision.NO_TOKENS: "does not fit into the tokens",
    Decision.SHARE_TAKEN: "its document has its share",
    Decision.SHOWN_BEFORE: "said or shown in this session",
    Decision.ADDS_TOO_LITTLE: "cut: adds too little",
    Decision.STATES_NOTHING: "a question or small talk",
    Decision.NOT_WANTED: "the prompt does not seem to want memory",
    Decision.PRIVATE: "private, and no clear match",
    Decision.NOT_ASKED: "its backends were not asked",
    Decision.NO_CANDIDATE: "not among its candidates",
    Decision.DETAIL_CAP: "enough memories are shown in detail",
    Decision.LISTED: "listed as a hit, and not shown",
    Decision.SAID_BY_GRAPH: "a fact or a card in the pack says it",
    Decision.CONTRADICTED: "another store has it newer",
    Decision.ENDED_ELSEWHERE: "another store says that it has ended",
}
_BY_SENTENCE = {sentence: decision for decision, sentence in _SENTENCES.items()}
_ALL_IN = (" excerpt is in", " excerpts are in")


def decision_of(stored: str) -> str:
    """The value of a stored decision. Receipts of earlier versions have the sentence instead; unknown text is kept."""
    return Decision.EXCERPTS_FULL if stored.endswith(_ALL_IN) else _BY_SENTENCE.get(stored, stored)


def sentence(stored: str) -> str:
    """A stored decision in words; unknown text is kept."""
    return _SENTENCES[Decision(stored)] if stored in _VALUES else stored


_VALUES = frozenset(Decision)
