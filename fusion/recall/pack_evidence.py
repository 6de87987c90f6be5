"""Observations in a context pack: what a session did lately (hot), and episodes that fit the question (cold).

They are evidence, not memories: each is one line with its ref and type, is never more trusted than its observation, and
counts as no use. Their text is from outside, so it cannot imitate a line, a citation or a frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fusion.contract import Trust
from fusion.lib.budget import estimate_tokens
from fusion.recall.fresh_tail import safe_line

LaneName = Literal["hot", "warm", "cold"]
COLD_ITEMS = 4
COLD_SHARE = 4
"""of a pack's tokens, one in so many is for episodes at most"""
ENOUGH = 0.5
"""the share of a question's words that an episode has which nobody asked for, where no memory answers"""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One observation as a line of a pack."""

    ref: str
    line: str
    text: str
    type: str
    trust: Trust
    lane: LaneName


@dataclass(frozen=True, slots=True)
class Searched:
    """Whether a lane was searched, why or why not, and what it adds to the pack."""

    searched: bool
    why: str
    found: tuple[Evidence, ...] = ()


def evidence_of(
    episodes: Iterable[Mapping[str, Any]], lane: LaneName, max_items: int, budget_tokens: int
) -> tuple[Evidence, ...]:
    """The lines of these observations, in their order, within both limits."""
    kept: list[Evidence] = []
    left = budget_tokens
    for episode in episodes:
        if len(kept) >= max_items:
            break
        text = safe_line(f"{episode['type']} {str(episode['ts'])[:10]}: {episode['summary']}")
        line = f"- [{episode['ref']}] {text}\n"
        left -= estimate_tokens(line)
        if left < 0:
            break
        kept.append(Evidence(episode["ref"], line, text, episode["type"], episode["trust"], lane))
    return tuple(kept)
