"""Builds the shepherd of a home's workspace from its settings."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from fusion.contract import Embedder
from fusion.errors import BackendError
from fusion.gateway.workspace import required, workspace_of
from fusion.settings import Settings
from fusion.upkeep.drift import Passage, by_words
from fusion.upkeep.scratch import Scratch
from fusion.upkeep.shepherd import Cosines, Limits, Shepherd, described


def shepherd_of(settings: Settings) -> Shepherd | None:
    """The shepherd of the workspace that may be written to; None if there is none."""
    return None if workspace_of(settings) is None else required_shepherd(settings)


def folder_of(home: Path) -> Path:
    """The shepherd's folder in a home."""
    return home / "shepherd"


def required_shepherd(settings: Settings) -> Shepherd:
    """As `shepherd_of`; raises BadInput where nothing may be written."""
    chosen = settings.jobs.shepherd
    limits = Limits(chosen.max_lines, chosen.max_meaning, chosen.protected, chosen.restore_edits)
    return Shepherd(folder_of(settings.home), required(settings), limits)


def scratch_of(settings: Settings) -> Scratch:
    """The scratch notes that the shepherd archives."""
    chosen = settings.jobs.shepherd
    return Scratch(chosen.scratch, timedelta(days=chosen.scratch_days))


def cosines_by(embedder: Embedder | None) -> Cosines:
    """Compares passages by the home's embedder, or by their words if there is none or it fails."""

    async def cosines(passages: Sequence[Passage]) -> Sequence[float]:
        words = [by_words(one) for one in passages]
        if embedder is None or not passages:
            return words
        try:
            found = await embedder.embed([text for one in passages for text in (one.before, one.after or " ")])
        except BackendError:
            return words
        pairs = zip(found[::2], found[1::2], passages, strict=True)
        return [float(before @ after) if one.after else 0.0 for before, after, one in pairs]

    return cosines


def open_incidents(settings: Settings, now: datetime) -> list[str]:
    """The drifts of MEMORY.md that a person should look at, each as one line."""
    shepherd = shepherd_of(settings)
    try:
        return [] if shepherd is None else [described(one) for one in shepherd.open_incidents(now)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return [f"the incidents of MEMORY.md cannot be read: {type(error).__name__}: {error}"]
