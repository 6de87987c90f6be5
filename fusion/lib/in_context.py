"""A turn together with the turns before and after it, as one string: what a second encoder reads.

The vectors of the turn's own words then know what "it" and "there" refer to. Günther et al., "Late chunking", 2024.
"""

from __future__ import annotations

_MARK = "\x1f"
"""the unit separator of ASCII; the intake removes control characters from memories"""


def in_context(text: str, before: str, after: str) -> str:
    """The string for a text between two others; either may be empty."""
    return _MARK + _MARK.join(part.replace(_MARK, " ") for part in (before, text, after))


def parts_of(text: str) -> tuple[str, str, str] | None:
    """The texts (before, text, after) of such a string; None for any other."""
    parts = text.split(_MARK)
    return (parts[1], parts[2], parts[3]) if len(parts) == 4 and not parts[0] else None
