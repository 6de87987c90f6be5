"""Views of local models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fusion.doors.cli.render.tables import say, size, table


def models(found: Mapping[str, Any]) -> None:
    """Prints each model of the registry, and where added ones are kept."""
    rows = [
        (one["name"], one["kind"], one["languages"], one["licence"], size(one["bytes"]), _state(one))
        for one in found["models"]
    ]
    table(("model", "kind", "language", "licence", "size", "state"), rows, right=[4], whole=[1, 2, 3, 4, 5])
    say(f"Added models are kept in {found['folder']}. To add one: fusion models add NAME")


def _state(model: Mapping[str, Any]) -> str:
    return "installed" if model["installed"] else "-"


def checked(found: Mapping[str, Any]) -> None:
    """Prints what is wrong with each checked model, and the command that fixes it."""
    for one in found["models"]:
        say(f"{one['model']}: {'ok' if one['ok'] else 'FAILED'}, {one['detail']}")
        if one["fix"]:
            say(f"  fix: {one['fix']}")
