"""The grader: it fills only what is missing, one decision a page and owner, and its runs can be undone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fusion.contract import Kind, Scope
from fusion.errors import BadInput
from fusion.gateway.decisions import StateRequest
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.lib.heuristic_v1 import HeuristicScore, heuristic_score
from fusion.upkeep.grade import GradeReport, GradeRequest
from tests.gateway.helpers import NADIA, OMAR, remember, small

NOW = datetime(2026, 3, 14, 12, tzinfo=UTC)
WHOLE = Scope(audience="private")
TEXTS = ("We decided to never deploy on Fridays", "I prefer oat milk", "The bus was late")


async def grade(gateway: Gateway, scope: Scope = WHOLE, *, dry_run: bool = False, page: int = 500) -> GradeReport:
    return await replace(gateway.grader, page=page).run(GradeRequest(scope, dry_run), NOW)


async def importances(gateway: Gateway, refs: list[str]) -> list[float | None]:
    return [(await gateway.journal.find(ref, WHOLE)).state.importance for ref in refs]


@pytest.mark.row("A126", "A128", "the grader fills missing importances alone, and its receipt counts what it saw")
async def test_grader_fills_what_is_missing(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        refs = await remember(gateway, *TEXTS)
        await gateway.set_state(StateRequest(refs[2], NADIA, importance=0.9))
        await gateway.remember([NewMemory("See you at noon", kind="turn", scope=NADIA)])
        report = await grade(gateway)
        assert report == GradeReport(
            total_seen=4,
            graded_filled=2,
            skipped_existing=1,
            skipped_disabled=1,
            scorer_errors=0,
            label_counts={"must_remember": 2, "nice_to_have": 1, "unknown": 1, "ignore": 0},
            run=report.run,
        )
        assert await importances(gateway, refs) == [1.0, 0.7, 0.9], "what a person set stays"
        made = (await gateway.journal.find(refs[1], WHOLE)).state.grade
        assert made is not None
        assert (made.method, made.version, made.graded_at) == ("heuristic-v1", 1, NOW)
        assert made.rationale == "states a preference, a rule or a lasting constraint"
        again = await grade(gateway)
        assert (again.graded_filled, again.skipped_existing, again.run) == (0, 3, "")


@pytest.mark.row("A126", "a dry run of the grader counts the same and changes nothing")
async def test_dry_run_changes_nothing(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        refs = await remember(gateway, *TEXTS)
        dry = await grade(gateway, dry_run=True)
        assert await importances(gateway, refs) == [None, None, None]
        real = await grade(gateway)
        assert replace(real, run="", dry_run=True) == dry


class Failing:
    """A scorer that raises for one text, as one of somebody else's could."""

    def __call__(self, text: str, kind: Kind) -> HeuristicScore:
        if "oat" in text:
            raise RecursionError("too deep")
        return heuristic_score(text, kind)


@pytest.mark.row("A128", "a scorer that raises costs only its own memory's grade")
async def test_scorer_that_raises_costs_one_grade(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        refs = await remember(gateway, *TEXTS)
        report = await replace(gateway.grader, score=Failing()).run(GradeRequest(WHOLE), NOW)
        assert (report.graded_filled, report.scorer_errors, report.label_counts["unknown"]) == (2, 1, 1)
        assert await importances(gateway, refs) == [1.0, None, 0.3]


async def test_grades_of_a_page_and_owner_are_one_decision(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        await remember(gateway, *TEXTS)
        await remember(gateway, *TEXTS, scope=OMAR)
        assert (await grade(gateway)).graded_filled == 6
        made = (await gateway.decisions(WHOLE))["decisions"]
        assert [len(one["changes"]) for one in made] == [3, 3]
        assert {one["who"] for one in made} == {"grade"}


@pytest.mark.row("A126", "a run of the grader is undone as a whole, and what was undone is not graded again")
async def test_run_is_undone_and_not_repeated(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        refs = await remember(gateway, *TEXTS)
        report = await grade(gateway, page=2)
        undone = await gateway.undo_run(report.run, WHOLE)
        assert undone["undone"] == 2, "one decision a page"
        assert await importances(gateway, refs) == [None, None, None]
        again = await grade(gateway)
        assert (again.graded_filled, again.skipped_disabled) == (0, 3)


async def test_what_a_person_set_after_the_run_keeps_the_run_from_being_undone(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        refs = await remember(gateway, *TEXTS)
        report = await grade(gateway)
        await gateway.set_state(StateRequest(refs[0], NADIA, importance=0.2))
        with pytest.raises(BadInput, match="Undo d2 first"):
            await gateway.undo_run(report.run, WHOLE)


async def test_scope_bounds_a_run(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        mine, theirs = await remember(gateway, *TEXTS), await remember(gateway, *TEXTS, scope=OMAR)
        report = await grade(gateway, NADIA)
        assert (report.total_seen, report.graded_filled) == (3, 3)
        assert None not in await importances(gateway, mine)
        assert await importances(gateway, theirs) == [None, None, None]


async def test_a_run_without_time_left_stops_and_the_next_goes_on(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        await remember(gateway, *TEXTS)
        left = iter([1.0, 0.0])
        grader = replace(gateway.grader, page=2)
        first = await grader.run(GradeRequest(WHOLE), NOW, left_s=lambda: next(left))
        assert (first.graded_filled, first.unfinished, first.label_counts["unknown"]) == (2, True, 1)
        assert (await grade(gateway)).graded_filled == 1


async def test_scorer_off_counts_only(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        await remember(gateway, *TEXTS)
        report = await gateway.grade(GradeRequest(WHOLE, scorer="off"))
        assert (report.graded_filled, report.skipped_disabled, report.label_counts["unknown"]) == (0, 3, 3)


@pytest.mark.parametrize("text", ['tag "importance": 1', '"grade":{}'])
async def test_a_tag_that_looks_like_a_grade_hides_nothing(home: Path, text: str) -> None:
    async with Gateway.open(small(home)) as gateway:
        (ref,) = await remember(gateway, "I prefer oat milk")
        await gateway.set_state(StateRequest(ref, NADIA, tags=(text, "b")))
        assert (await grade(gateway)).graded_filled == 1


@pytest.mark.row("A128", "the job `grade` has the receipt of a run, with the counts by label")
async def test_job_has_the_receipt(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        await remember(gateway, *TEXTS)
        run = await gateway.jobs().run("grade")
        assert run.receipt["result"] == {
            "total_seen": 3,
            "graded_filled": 3,
            "skipped_existing": 0,
            "skipped_disabled": 0,
            "scorer_errors": 0,
            "label_counts": {"must_remember": 1, "nice_to_have": 1, "unknown": 0, "ignore": 1},
        }
