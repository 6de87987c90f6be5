"""Errors in the shape of mem0's servers: ``{"detail": …}``, from which its client makes its exceptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def refused(said: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """The status and the body of an error from its problem details; ``type`` names our class of error."""
    return int(said["status"]), {"detail": str(said.get("detail") or said["title"]), "type": str(said.get("type", ""))}
