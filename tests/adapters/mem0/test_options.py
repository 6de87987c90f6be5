"""The options of mem0: what a preset gives, and what the settings override."""

from __future__ import annotations

from adapters.mem0.options import Options


def test_resolved_takes_the_values_of_the_openclaw_preset() -> None:
    """Seed 003's plugin: five memories of 1,536 dimensions from openclaw_mem0 on port 6334."""
    resolved = Options(preset="openclaw").resolved({"preset": "openclaw"})
    assert (resolved.collection, resolved.limit, resolved.dimensions) == ("openclaw_mem0", 5, 1536)
    assert resolved.url == "http://127.0.0.1:6334"


def test_resolved_prefers_what_the_settings_give() -> None:
    """An option of the table wins over the preset's; ``port`` changes only the preset's address."""
    given = {"preset": "openclaw", "limit": 9, "port": 6333}
    resolved = Options(preset="openclaw", limit=9, port=6333).resolved(given)
    assert (resolved.limit, resolved.url, resolved.dimensions) == (9, "http://127.0.0.1:6333", 1536)
