"""Estimates tokens, keeps texts within a budget of characters and tokens, and clips texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

MAX_BUDGET_CHARS = 200_000
"""characters of the largest block"""
DAILY_LOG_CHARS = 2800
"""characters of the daily logs at the start of a session, as in OpenClaw"""
MAX_BUDGET_TOKENS = 60_000
"""tokens of the largest budget: fewer characters than `MAX_BUDGET_CHARS`"""


class Size(NamedTuple):
    """The characters and words of a text. Sizes of texts that are joined at a line end or blank add up."""

    chars: int = 0
    words: int = 0

    @classmethod
    def of(cls, text: str) -> Size:
        return cls(len(text), len(text.split()))

    def plus(self, other: Size) -> Size:
        return Size(self.chars + other.chars, self.words + other.words)

    def minus(self, other: Size) -> Size:
        return Size(self.chars - other.chars, self.words - other.words)

    @property
    def tokens(self) -> int:
        """max(words × 1.25, characters / 3.5) × 1.1, rounded up; in whole numbers, so that no rounding adds one."""
        return max(-(-self.words * 11 // 8), -(-self.chars * 11 // 35))


EMPTY = Size()


def estimate_tokens(text: str) -> int:
    """Tokens of a text without its tokenizer: max(words × 1.25, characters / 3.5) × 1.1, rounded up (seed 000).

    The seed's separator, a line of three dashes with its line ends, has two.
    """
    return Size.of(text).tokens


Limit = Literal["chars", "tokens"]


@dataclass(frozen=True, slots=True)
class Budget:
    """The most characters and tokens of a text; both hold. ``tokens`` None is no limit."""

    chars: int
    tokens: int | None = None

    def exceeded_by(self, size: Size) -> Limit | None:
        """The limit that a size exceeds, or None if it fits."""
        if size.chars > self.chars:
            return "chars"
        return "tokens" if self.tokens is not None and size.tokens > self.tokens else None

    def share(self, part: float) -> Budget:
        """A budget of a part of each limit."""
        return Budget(int(self.chars * part), None if self.tokens is None else int(self.tokens * part))


def clip(text: str, limit: int, mark: str = " […]") -> str:
    """At most ``limit`` characters of a text, cut at a space if one is near, and with a mark at the cut."""
    if len(text) <= limit:
        return text
    if limit <= len(mark):
        return text[: max(0, limit)]
    head = text[: limit - len(mark)]
    blank = head.rfind(" ")
    if blank > len(head) * 0.8:
        head = head[:blank]
    return head.rstrip() + mark


def clip_to_tokens(text: str, tokens: int) -> str:
    """A text of at most so many estimated tokens, cut as `clip` does."""
    limit = len(text)
    cut = text
    while limit and (size := estimate_tokens(cut)) > tokens:
        limit = min(limit - 1, limit * tokens // size)
        cut = clip(text, limit)
    return cut if limit else ""
