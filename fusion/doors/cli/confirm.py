"""Asks before something is deleted or rebuilt, and shows what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from fusion.doors.cli import render
from fusion.errors import BadInput

if TYPE_CHECKING:
    from fusion import wire


def preview(found: Sequence[wire.FoundToForget], count: int) -> None:
    """Prints the first of so many memories."""
    if found:
        render.to_forget(found)
    if count > len(found):
        print(f"…and {count - len(found):,} more.")


def require_answer(*, yes: bool, as_json: bool) -> None:
    """Raises BadInput where an answer is needed and ``--json`` keeps the command from asking."""
    if as_json and not yes:
        raise BadInput("--json cannot ask: check with --dry-run first, then add --yes")


def confirm(question: str) -> None:
    """Goes on after a yes; ends the command with exit code 1 after a no."""
    if not typer.confirm(question):
        raise typer.Exit(1)
