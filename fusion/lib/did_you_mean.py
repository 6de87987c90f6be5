"""Suggests the known name that a misspelt one probably means."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name most similar to ``name``, or '' if none is similar. Case is ignored."""
    by_lower = {one.lower(): one for one in known}
    return next((by_lower[one] for one in get_close_matches(name.lower(), by_lower, 1, 0.6)), "")


def hint(name: str, known: Iterable[str]) -> str:
    """'; did you mean NAME?' for the end of an error, or '' if no known name is similar."""
    return f"; did you mean {near}?" if (near := nearest(name, known)) else ""
