"""Masks secrets in a hit before a prompt or a judge sees it."""

from __future__ import annotations

from dataclasses import replace

from fusion.contract import Hit
from fusion.lib.redact import redact
from fusion.lib.text_cache import text_cache


def shown(hit: Hit) -> Hit:
    """The hit without secrets.

    Events of the journal were redacted before they were stored; hits of files and other memory systems were not.
    """
    if hit.event_id is not None and not hit.external:
        return hit
    text = masked(hit.text)
    return hit if text is hit.text or text == hit.text else replace(hit, text=text)


@text_cache(4096)
def masked(text: str) -> str:
    """The redacted text; cached, since the same memories are shown again and again."""
    return redact(text)[0]
