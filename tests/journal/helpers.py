"""Helpers for tests of the journal."""

from __future__ import annotations

from fusion.contract import Hit
from fusion.journal import Journal


async def append(journal: Journal, *events):
    """Append events; returns their outcomes."""
    stored = await journal.append(events)
    assert not isinstance(stored, str)
    return stored


async def neighbour_texts(journal, stored, span):
    found = await journal.neighbours([stored.event.event_id], span)
    return [record.event.text for record in found.get(stored.event.event_id, ())]


def hides(journal: Journal, backend: str, hit: Hit) -> bool:
    """Whether nothing of a backend's hit may be shown."""
    return not journal.without_forgotten(backend, [hit])
