"""The difference of two texts, as lines."""

from __future__ import annotations

from difflib import unified_diff


def diff_of(before: str, after: str, old: str, new: str) -> list[str]:
    """The unified diff of two texts with these names; empty if they have the same lines."""
    return list(unified_diff(before.splitlines(), after.splitlines(), old, new, lineterm=""))
