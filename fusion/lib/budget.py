"""Estimates tokens, and clips texts to a number of characters."""

from __future__ import annotations


def estimate_tokens(text: str) -> int:
    """Tokens of a text without its tokenizer: max(words × 1.25, characters / 3.5) × 1.1, rounded up (seed 000)."""
    return -int(-max(len(text.split()) * 1.25, len(text) / 3.5) * 1.1 // 1)


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
