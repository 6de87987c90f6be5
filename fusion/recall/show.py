"""What of a memory is shown, to a prompt or to a judge."""

from __future__ import annotations

from dataclasses import replace

from fusion.contract import Hit
from fusion.lib.redact import redact


def shown(hit: Hit) -> Hit:
    """The hit without secrets.

    What came through the gateway was redacted before it was kept; a user's own file or another memory system was not.
    """
    if hit.event_id is not None:
        return hit
    text, found = redact(hit.text)
    return replace(hit, text=text) if found else hit
