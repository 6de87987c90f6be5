"""One batch of a harvest: lines that are read, graded and counted before one transaction stores them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import orjson

from fusion.journal.observations import Entered, Graded
from fusion.lib.heuristic_v1 import METHOD, heuristic_score
from fusion.lib.importance import VERSION, label_of
from fusion.lib.observation import Observation
from fusion.lib.observation_lines import BadRecord
from fusion.store.dead_letters import DeadLetter

log = logging.getLogger(__name__)

BATCH = 1_000
"""lines that one transaction of a harvest stores"""

Scorer = Callable[[Observation], Mapping[str, Any] | None]
"""grades an observation: its importance as an object of JSON, or None"""


def graded_by_rules(found: Observation, now: datetime) -> Mapping[str, Any]:
    """The importance of an observation by `heuristic-v1`."""
    graded = heuristic_score(found.searched)
    return {
        "score": graded.score,
        "label": label_of(graded.score),
        "rationale": graded.rationale,
        "method": METHOD,
        "version": VERSION,
        "graded_at": now.isoformat(),
    }


@dataclass(frozen=True, slots=True)
class Harvested:
    """What a harvest did. ``rejected`` counts the records in the file of dead letters."""

    read: int = 0
    stored: int = 0
    duplicate: int = 0
    blocked: int = 0
    rejected: int = 0
    scorer_errors: int = 0

    def __add__(self, other: Harvested) -> Harvested:
        both = zip(asdict(self).items(), asdict(other).values(), strict=True)
        return Harvested(**{name: one + more for (name, one), more in both})


class Batch:
    """The lines of one batch. A record that is no observation and a scorer that raises cost themselves alone."""

    def __init__(self, score: Scorer | None = None) -> None:
        self.found: list[Graded] = []
        self.letters: list[DeadLetter] = []
        self.read = 0
        self._score = score
        self._scorer_errors = 0

    def take(self, where: str, line: bytes, parse: Callable[[bytes], Observation | None]) -> None:
        """Read one line; ``parse`` returns None for one that holds nothing, and raises BadRecord."""
        self.read += 1
        try:
            found = parse(line)
        except BadRecord as error:
            self.letters.append(DeadLetter(where, str(error), line))
            return
        if found is not None:
            self.found.append(Graded(found, where, self._importance(found)))

    def refuse(self, where: str, reason: str) -> None:
        """Count a part of a source that cannot be read."""
        self.read += 1
        self.letters.append(DeadLetter(where, reason))

    def counted(self, entered: Sequence[Entered]) -> Harvested:
        """What became of the batch."""
        states = [one.status for one in entered]
        return Harvested(
            self.read,
            states.count("stored"),
            states.count("duplicate"),
            states.count("blocked"),
            len(self.letters),
            self._scorer_errors,
        )

    def _importance(self, found: Observation) -> str | None:
        """The importance of an observation as JSON: the one that came with it, else that of the scorer."""
        if found.importance is not None:
            return orjson.dumps({"score": found.importance, "method": "stated"}).decode()
        if self._score is None:
            return None
        try:
            graded = self._score(found)
            return None if graded is None else orjson.dumps(graded).decode()
        except Exception as error:  # noqa: BLE001 — whatever a scorer does, the observation is stored
            log.warning("an observation has no grade, its scorer fails: %s", type(error).__name__)
            self._scorer_errors += 1
            return None
