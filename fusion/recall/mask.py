"""What of a memory is shown, to a prompt or to a judge."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from fusion.contract import Hit
from fusion.lib.redact import redact


def shown(hit: Hit) -> Hit:
    """The hit without secrets.

    What came through the gateway was redacted before it was kept; a user's own file or another memory system was not.
    """
    if hit.event_id is not None and not hit.external:
        return hit
    text = _masked(hit.text)
    return hit if text is hit.text or text == hit.text else replace(hit, text=text)


@lru_cache(maxsize=4096)
def _masked(text: str) -> str:
    """Remembered: the memories that reach a block are the ones that come back."""
    return redact(text)[0]
