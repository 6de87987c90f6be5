"""The bytes of each part of a home, day by day, in a small file of the home."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import date
from pathlib import Path

from fusion.store.private_files import write_atomically

NAME = "sizes.json"
"""the file in the home, or in a tenant's folder"""
EVERY_S = 3600.0
"""seconds between two looks; the last one of a day stays"""
MAX_DAYS = 400
MAX_PARTS = 50
"""parts with bytes of their own, the largest; the others share one"""
OTHERS = "others"

log = logging.getLogger(__name__)
Sizes = Mapping[str, int]


class SizeLog:
    """The last `MAX_DAYS` days on which the home was open, each with its bytes by part.

    A damaged file is as none; the next look writes it anew.
    """

    def __init__(self, folder: Path, fault: str = "") -> None:
        """``fault`` says why nothing is written: the home cannot be written to."""
        self._file = folder / NAME
        self._fault = fault

    def note(self, day: date, sizes: Sizes) -> None:
        """Note the bytes of a day, in place of those noted before. Raises OSError."""
        if self._fault:
            return
        largest = sorted(sizes.items(), key=lambda one: (-one[1], one[0]))
        kept = dict(largest[:MAX_PARTS])
        if rest := sum(size for _, size in largest[MAX_PARTS:]):
            kept[OTHERS] = kept.get(OTHERS, 0) + rest
        days = {**self.days(), day.isoformat(): kept}
        last = dict(sorted(days.items())[-MAX_DAYS:])
        write_atomically(self._file, json.dumps(last).encode())

    def days(self) -> dict[str, dict[str, int]]:
        """The bytes by part of each day that was noted, by its ISO date."""
        try:
            found = json.loads(self._file.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            log.warning("%s cannot be read, so the growth begins anew: %s", self._file, type(error).__name__)
            return {}
        if not isinstance(found, dict):
            return {}
        return {day: _counted(parts) for day, parts in found.items() if _is_day(day) and isinstance(parts, dict)}


def _counted(parts: Mapping[str, object]) -> dict[str, int]:
    return {part: size for part, size in parts.items() if type(size) is int and size >= 0}


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
