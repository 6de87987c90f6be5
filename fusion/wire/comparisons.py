"""The stored comparisons of two arms over many questions."""

from __future__ import annotations

from typing_extensions import TypedDict


class ComparisonArm(TypedDict):
    """One arm of a comparison, and what its answers cost: means of a question, in characters and milliseconds."""

    arm: str
    """as it was written: default, seed003@markdown+cortex, -mem0"""
    recipe: str
    hash: str
    """the first digits of the SHA-256 of the recipe"""
    backends: list[str]
    only: int
    """memories that only this arm's blocks had"""
    empty: int
    """questions without a block"""
    characters: float
    waited_ms: float
    took_ms: float


class ComparisonVerdict(TypedDict):
    """What the arms found of the expected answers: shares from 0 to 1, and b - a with its 95 % interval.

    ``n`` questions count. ``better`` is null if the interval includes 0. ``seed`` is of the bootstrap.
    """

    n: int
    a: float
    b: float
    difference: float
    low: float
    high: float
    win: int
    tie: int
    loss: int
    seed: int
    better: str | None


class Comparison(TypedDict):
    """One comparison over many questions. It has no question and no text of a memory.

    ``verdict`` is null without expected answers. ``overlap`` is the mean share of memories that both blocks have.
    """

    id: int
    at: str
    by: str
    """the key that stored it; `owner` with the home's token"""
    a: ComparisonArm
    b: ComparisonArm
    questions: int
    """that both arms answered"""
    unanswered: int
    degraded: int
    tuned_on: int
    """questions that chose an arm's recipe, which count in no verdict"""
    same_memories: int
    """questions with the same memories in both blocks"""
    overlap: float
    verdict: ComparisonVerdict | None


class Comparisons(TypedDict):
    """Stored comparisons, the newest first."""

    comparisons: list[Comparison]
    next_cursor: str | None
