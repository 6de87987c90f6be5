"""The trust of a memory by the source that it names: a home may trust some sources less than what they state."""

from __future__ import annotations

from collections.abc import Mapping

from fusion.contract import Trust

FROM_LEAST: tuple[Trust, ...] = ("quarantined", "untrusted", "unknown", "trusted")


def lowered(trust: Trust, source: str | None, by_prefix: Mapping[str, Trust]) -> Trust:
    """The lower one of a stated trust and that of the longest prefix which the name of the source begins with."""
    found = max((prefix for prefix in by_prefix if (source or "").startswith(prefix)), key=len, default=None)
    return trust if found is None else min(trust, by_prefix[found], key=FROM_LEAST.index)
