"""Grades memories that have no importance: the job `grade`.

Only what is missing is filled. What a person set stays, also the importance "unknown"; so does what is graded already,
and what was undone is not graded again. Grades of one page and owner are one decision, and a run can be undone as a
whole. A scorer that fails costs the memory at which it failed its grade, and nothing else.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, get_args

from fusion.contract import ImportanceGrade, Kind, Scope, State, StateChange
from fusion.journal import Journal, grades
from fusion.journal.rows import Record
from fusion.journal.state import Planned
from fusion.lib.heuristic_v1 import METHOD, HeuristicScore, heuristic_score
from fusion.lib.ids import parse_short_ref, uuid7
from fusion.lib.importance import LABELS, Label, label_of
from fusion.upkeep.job import JobContext
from fusion.upkeep.lifecycle import Progress, no_progress

NAME = "grade"
DOES = "Give memories without an importance one by rules. Each run can be undone."
PAGE = 500
"""memories that one decision grades at most"""

log = logging.getLogger(__name__)

ScorerName = Literal["heuristic-v1", "off"]
SCORERS: tuple[ScorerName, ...] = get_args(ScorerName)
Scorer = Callable[[str, Kind], HeuristicScore]


@dataclass(frozen=True, slots=True)
class GradeRules:
    """How a home grades; memories of ``skip_kinds`` are left without an importance."""

    scorer: ScorerName = METHOD
    skip_kinds: tuple[Kind, ...] = ("turn",)


@dataclass(frozen=True, slots=True)
class GradeRequest:
    """One run over the memories that ``scope`` admits. None: as the home's rules. With ``dry_run`` nothing changes."""

    scope: Scope
    dry_run: bool = False
    scorer: ScorerName | None = None


@dataclass(frozen=True, slots=True)
class GradeReport:
    """The receipt of a run, in the fields of openclaw-mem.

    ``skipped_existing`` had a grade; ``skipped_disabled`` are of kinds that are not graded, or their grade was undone.
    ``label_counts`` are those of all memories after the run. ``unfinished``: the time was up; the next run goes on.
    ``run`` names the run in the log of decisions; it is empty if nothing was decided.
    """

    total_seen: int
    graded_filled: int
    skipped_existing: int
    skipped_disabled: int
    scorer_errors: int
    label_counts: Mapping[Label, int]
    unfinished: bool = False
    dry_run: bool = False
    run: str = ""


def unbounded() -> float:
    """The seconds that are left for a run without a budget."""
    return float("inf")


@dataclass(frozen=True, slots=True, eq=False)
class Grader:
    """Grades the memories of one journal. ``wake`` sends the backends what was decided."""

    journal: Journal
    wake: Callable[[], None]
    rules: GradeRules = field(default_factory=GradeRules)
    score: Scorer = heuristic_score
    page: int = PAGE

    async def run(
        self,
        request: GradeRequest,
        now: datetime,
        progress: Progress = no_progress,
        left_s: Callable[[], float] = unbounded,
    ) -> GradeReport:
        """Fill what is missing, until ``left_s`` seconds are up. May be stopped anywhere and run again."""
        skipped = self.rules.skip_kinds
        seen = await self.journal.read(grades.tally, request.scope, skipped)
        existing = sum(seen.existing.values())
        left = seen.total - existing - seen.skipped
        if (request.scorer or self.rules.scorer) == "off":
            counts = _label_counts(seen, Counter())
            return GradeReport(seen.total, 0, existing, seen.skipped + left, 0, counts, dry_run=request.dry_run)
        found = _Found()
        run, after = str(uuid7()), 0
        while page := await self.journal.read(grades.ungraded, request.scope, skipped, after, self.page):
            if left_s() <= 0:
                break
            await self._grade(page, request, run, now, found)
            after = parse_short_ref(page[-1].ref) or 0
            progress(found.seen, left)
        if found.decided:
            self.wake()
        return GradeReport(
            seen.total,
            sum(found.labels.values()),
            existing,
            seen.skipped + found.reverted,
            found.errors,
            _label_counts(seen, found.labels),
            unfinished=bool(page),
            dry_run=request.dry_run,
            run=run if found.decided else "",
        )

    async def _grade(
        self, page: Sequence[Record], request: GradeRequest, run: str, now: datetime, found: _Found
    ) -> None:
        """Grade a page, by one decision for each owner."""
        reverted = await self.journal.read(grades.reverted, [record.event.event_id for record in page])
        found.seen += len(page)
        found.reverted += len(reverted)
        owners: defaultdict[str | None, dict[str, tuple[State, StateChange]]] = defaultdict(dict)
        for record in page:
            if record.event.event_id in reverted:
                continue
            change = self._change(record, now)
            if change is None:
                found.errors += 1
                continue
            found.labels[label_of(change["importance"])] += 1
            owners[record.event.scope.user_id][record.event.event_id] = record.state, change
        if request.dry_run:
            return
        planned = [
            Planned(
                {item: change for item, (_, change) in mine.items()},
                f"graded by {METHOD}",
                {item: state for item, (state, _) in mine.items()},
                whole=False,
            )
            for mine in owners.values()
        ]
        found.decided = bool(await self.journal.decide_all(planned, NAME, run=run, now=now)) or found.decided

    def _change(self, record: Record, now: datetime) -> StateChange | None:
        """The grade of one memory; None if the scorer failed."""
        try:
            scored = self.score(record.event.text, record.event.kind)
        except Exception as error:  # noqa: BLE001 — any fault of a scorer concerns this memory alone
            log.warning("%s could not be graded: %s", record.ref, type(error).__name__)
            return None
        return {"importance": scored.score, "grade": ImportanceGrade(METHOD, now, scored.rationale)}


@dataclass(slots=True)
class _Found:
    """What a run found so far."""

    seen: int = 0
    reverted: int = 0
    errors: int = 0
    decided: bool = False
    labels: Counter[Label] = field(default_factory=Counter)


def _label_counts(seen: grades.Tally, filled: Counter[Label]) -> Mapping[Label, int]:
    """Memories by label after a run."""
    counts = {label: seen.existing[label] + filled[label] for label in LABELS}
    return counts | {"unknown": seen.total - sum(counts.values()) + counts["unknown"]}


def step(
    run: Callable[[str, JobContext], Awaitable[Mapping[str, Any]]],
) -> Callable[[JobContext, str], Awaitable[None]]:
    """The step of the job for one tenant; ``run`` returns the fields of a `GradeReport`."""

    async def one(context: JobContext, tenant: str) -> None:
        found = await run(tenant, context)
        context.add(found)
        counts = context.result.setdefault("label_counts", dict.fromkeys(LABELS, 0))
        for label, count in found["label_counts"].items():
            counts[label] += count

    return one
