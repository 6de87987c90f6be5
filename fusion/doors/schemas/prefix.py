"""The request for a stable prefix."""

from __future__ import annotations

from fusion.doors.schemas.base import Asking


class PrefixBody(Asking):
    """Whose stable prefix: that of an agent, of all agents of a user, or of one session."""
